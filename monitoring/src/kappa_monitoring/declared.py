"""All metrics that rules and dashboards may use, as Prometheus stores them: those of the platform and of Kafka Connect."""

from dataclasses import dataclass
from typing import Any

from kappa_monitoring.connect import list_connect
from kappa_operator.lag import exposition as lag
from kappa_operator.telemetry import metrics as operator
from kappa_operator.telemetry import resource_metrics
from kappa_operator.telemetry.declare import Declared
from kappa_pipelines.reporting import metrics as driver


@dataclass(frozen=True)
class Metric:
    """A metric: its name with the suffix of counters, kind, meaning, labels, and exporter."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...]
    source: str

    @property
    def series(self) -> dict[str, tuple[str, ...]]:
        """Return the names of its series with their labels; a histogram has several."""
        if self.kind != "histogram":
            return {self.name: self.labels}
        plain = {f"{self.name}{suffix}": self.labels for suffix in ("_sum", "_count")}
        return {f"{self.name}_bucket": (*self.labels, "le"), **plain}


DRIVER, OPERATOR = "a driver, on its port", "the operator"
CONNECT = "Kafka Connect with Debezium"


def list_metrics() -> tuple[Metric, ...]:
    """Return all of them, those of drivers first."""
    return (
        *(_build(each, DRIVER, driver.PREFIX, driver.BASE_LABELS) for each in driver.METRICS),
        *(_build(each, OPERATOR) for each in (*resource_metrics.METRICS, *operator.METRICS, *lag.METRICS)),
        *(Metric(name, "gauge", meaning, labels, CONNECT) for name, meaning, labels in list_connect()),
    )


def _build(
    declared: driver.Declared | Declared[Any], source: str, prefix: str = "", labels: tuple[str, ...] = ()
) -> Metric:
    needs_suffix = declared.kind == "counter" and not declared.name.endswith("_total")
    name = f"{prefix}{declared.name}{'_total' if needs_suffix else ''}"
    return Metric(name, declared.kind, declared.help, (*labels, *declared.labels), source)


def find_series() -> dict[str, tuple[str, ...]]:
    """Return name → labels of all series, with those of drivers beside the active one."""
    side = [_build(each, DRIVER, driver.SIDE_PREFIX, driver.SIDE_LABELS) for each in driver.METRICS]
    return {name: labels for metric in (*list_metrics(), *side) for name, labels in metric.series.items()}
