"""Databases as sources of change events: whether a database is ready for Debezium, and whether a topic equals its table.

`postgresql` and `mysql` gather facts, `rules` decides what is wrong and how to fix it. `reconcile` compares a table with its topic.
"""
