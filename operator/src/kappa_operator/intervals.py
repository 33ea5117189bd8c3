"""Seconds from one reconcile of a resource to the next, and the time until something periodic is due."""

from datetime import datetime

WORKING = 1.0
"""While a pod or a driver works for the resource."""
SOON = 5.0
"""While something outside is expected to change soon."""
SAMPLE = 10.0
"""Between two samples of what keeps changing."""
BLOCKED = 15.0
"""While another resource, or a user, blocks the resource."""
FAILED = 30.0
"""After a check that failed."""
HIDDEN = 60.0
"""How long a connector may not show which tables of an incremental snapshot are left, before they count as lost."""
WAITING = 60.0
"""While nothing is expected to change without an event."""


def wait_until(due: datetime | None, now: datetime) -> float:
    """Return the seconds until a time, 0 for a time in the past or none."""
    return 0.0 if due is None else max(0.0, (due - now).total_seconds())


def wait_after(last: datetime | None, every: float, now: datetime) -> float:
    """Return the seconds until `every` seconds have passed since the last time, 0 where there was none."""
    return 0.0 if last is None else max(0.0, every - (now - last).total_seconds())
