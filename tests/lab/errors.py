"""The one error that ends a command of the lab.

LabError: a step cannot continue; the text names the step and the fix. Everything else is a defect.
"""


class LabError(Exception):
    """A step of the lab failed; the message is for the user who started it."""
