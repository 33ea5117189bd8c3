"""Errors of `make generate` and `make verify`.

MonitoringError         base of the errors below
├── UnknownValue        a rule or a dashboard uses a value that the config lacks
├── UnusedValue         the config has a value that nothing uses
├── UnknownMetric       a query uses a metric that no code declares
├── UnknownLabel        a query uses a label that none of its metrics has
└── BadRule             a rule is incomplete or not valid
"""


class MonitoringError(Exception):
    """Something in `monitoring/` is not valid; the message names the problem, the place and the fix."""


class UnknownValue(MonitoringError):
    """A value is missing in the config."""


class UnusedValue(MonitoringError):
    """A value of the config is used nowhere."""


class UnknownMetric(MonitoringError):
    """No code declares the metric."""


class UnknownLabel(MonitoringError):
    """No metric of the query has the label."""


class BadRule(MonitoringError):
    """A rule is not complete."""
