"""The names that rules, alerts and dashboards may use: declared metrics and recorded series, with their labels."""

import re
from collections.abc import Iterable

from kappa_monitoring.declared import find_series
from kappa_monitoring.errors import MonitoringError
from kappa_monitoring.promql import find_labels
from kappa_monitoring.rules import Alert, Group

_LABEL = re.compile(r"\$labels\.(\w+)")
_LEGEND = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def find_all_series(groups: Iterable[Group]) -> dict[str, frozenset[str]]:
    """Return name → labels of exported metrics and recorded series; raise if a rule uses another name."""
    series = {name: frozenset(labels) for name, labels in find_series().items()}
    for record in (record for group in groups for record in group.records):
        level = record.name.partition(":")[0]
        labels = check_query(record.expr, series, f"record {record.name}")
        if sorted(level.split("_")) != sorted("_".join(labels).split("_")):
            raise MonitoringError(
                f"record {record.name} has the labels {', '.join(sorted(labels))}; its name must begin with them"
            )
        series[record.name] = labels
    return series


def check_query(query: str, series: dict[str, frozenset[str]], where: str) -> frozenset[str]:
    """Return the labels of the query's result; raise with the place in the message."""
    try:
        return find_labels(query, series)
    except (MonitoringError, ValueError) as error:
        raise MonitoringError(f"{where}: {error}; the query is {query}") from error


def check_alert(alert: Alert, series: dict[str, frozenset[str]]) -> None:
    """Raise if the query or a text of the alert uses an unknown metric or label."""
    labels = check_query(alert.expr, series, f"alert {alert.name}") | {"severity"}
    _check_labels(_LABEL.findall(alert.summary + alert.description), labels, f"alert {alert.name}: its text")


def check_legend(legend: str, labels: frozenset[str], where: str) -> None:
    """Raise if the legend of a query uses a label that its result lacks."""
    _check_labels(_LEGEND.findall(legend), labels, f"{where}: the legend")


def _check_labels(used: Iterable[str], labels: frozenset[str], text: str) -> None:
    unknown = set(used) - labels
    if unknown:
        raise MonitoringError(f"{text} has {', '.join(sorted(unknown))}, which the result has not")
