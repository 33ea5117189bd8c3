"""A text that the check of strings must find."""

MESSAGE = f"whoever hears of {__name__} is told"
