"""Promtool's tests, from the shorter cases in `tests/`: series, a time, and the alerts that fire.

A case has the labels of each alert that fires, and its formatted value. The expected texts are computed from the templates
of the alert, and promtool compares them with the texts that Prometheus renders.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kappa_monitoring import MONITORING
from kappa_monitoring.errors import MonitoringError
from kappa_monitoring.rules import Alert

CASES = MONITORING / "tests"
INTERVAL = "1m"
_LABEL = re.compile(r"\{\{ \$labels\.(\w+) \}\}")
_VALUE = re.compile(r"\{\{ \$value [^}]*\}\}")


@dataclass(frozen=True)
class Firing:
    """An alert that fires: its labels without the severity, and its formatted value."""

    labels: dict[str, str] = field(default_factory=dict)
    shows: str = ""


@dataclass(frozen=True)
class Case:
    """Samples by series, one per minute, and the alerts that fire after so long."""

    alert: str
    series: dict[str, str]
    at: str
    fires: tuple[Firing, ...]

    def build(self, alert: Alert) -> dict[str, Any]:
        """Return the test as promtool reads it."""
        return {
            "interval": INTERVAL,
            "input_series": [{"series": name, "values": values} for name, values in self.series.items()],
            "alert_rule_test": [
                {
                    "eval_time": self.at,
                    "alertname": self.alert,
                    "exp_alerts": [_expect(alert, firing) for firing in self.fires],
                }
            ],
        }


def load_cases(folder: Path = CASES) -> tuple[Case, ...]:
    """Read all cases."""
    return tuple(
        Case(body["alert"], body["series"], body["at"], tuple(Firing(**each) for each in body["fires"]))
        for path in sorted(folder.glob("*.yaml"))
        for body in yaml.load(path.read_text(), yaml.CSafeLoader)
    )


def _expect(alert: Alert, firing: Firing) -> dict[str, Any]:
    annotations = {name: _render(text, alert, firing) for name, text in alert.annotations.items()}
    return {"exp_labels": {**firing.labels, "severity": alert.severity}, "exp_annotations": annotations}


def _render(text: str, alert: Alert, firing: Firing) -> str:
    shown = _VALUE.sub(firing.shows, _LABEL.sub(lambda found: firing.labels[found[1]], text))
    if "{{" in shown:
        raise MonitoringError(
            f"alert {alert.name}: cases only know {{{{ $labels.x }}}} and {{{{ $value | … }}}}, not {shown}"
        )
    return shown
