"""Operators that SQL has no word for, each as SQL over what it reads.

One module an operator: the statement that Spark plans, and beside it what it means, as a plain function over lists,
with which tests compare it.
"""
