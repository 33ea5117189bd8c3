"""The one error that ends the demo.

DemoError: a step cannot continue; the text names the step and the observation. Everything else is a defect.
"""


class DemoError(Exception):
    """A step of the demo failed; the message is for the user who started it."""
