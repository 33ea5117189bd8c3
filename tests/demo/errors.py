"""The one error that ends the demo.

DemoError: a step cannot go on; the text says which and what was seen. Everything else is a defect.
"""


class DemoError(Exception):
    """A step of the demo failed; the message is meant for the person who started it."""
