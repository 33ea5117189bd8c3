"""The error of `make generate` and `make verify`."""


class MonitoringError(Exception):
    """A value, a query or a rule in `monitoring/` is not valid; the message names the problem, the place and the fix."""
