"""What ends `make generate` and `make verify`.

MonitoringError         of the errors below
├── UnknownValue        a rule or a dashboard names a value that the config does not have
├── UnusedValue         the config has a value that nothing names
├── UnknownMetric       a query names a metric that no code declares
├── UnknownLabel        a query uses a label that none of its metrics has
└── BadRule             a rule lacks something, or says it in a way that is not allowed
"""


class MonitoringError(Exception):
    """Something in `monitoring/` is not as it must be; the message says what, where and what to do."""


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
