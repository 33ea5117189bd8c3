"""The one error that ends a command of the lab.

LabError: a step cannot go on; the text says which and what to do. Everything else is a defect.
"""


class LabError(Exception):
    """A step of the lab failed; the message is meant for the person who started it."""
