"""The rules as they are committed, read once for all tests."""

from functools import cache

from kappa_monitoring.config import load_config
from kappa_monitoring.contract import find_all_series
from kappa_monitoring.rules import Alert, Group, load_groups


@cache
def load() -> tuple[Group, ...]:
    """Return the groups with the values of the committed config."""
    return load_groups(load_config())


@cache
def load_series() -> dict[str, frozenset[str]]:
    """Return what a query may name."""
    return find_all_series(load())


ALERTS: tuple[Alert, ...] = tuple(alert for group in load() for alert in group.alerts)
