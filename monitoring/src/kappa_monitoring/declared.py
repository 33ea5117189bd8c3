"""All metrics that rules and dashboards may use, as Prometheus stores them: those of the platform and of Kafka Connect."""

from collections.abc import Iterator
from dataclasses import dataclass

from kappa_monitoring.connect import list_connect
from kappa_operator.lag import exposition as lag
from kappa_operator.telemetry import metrics as operator
from kappa_operator.telemetry import resource_metrics
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
        *_list_of_drivers(),
        *_list_of_operator(),
        *_list_of_connect(),
    )


def _name(name: str, kind: str) -> str:
    return f"{name}_total" if kind == "counter" and not name.endswith("_total") else name


def _list_of_drivers() -> Iterator[Metric]:
    for each in driver.METRICS:
        labels = ("namespace", "pipeline", *each.labels)
        yield Metric(_name(driver.PREFIX + each.name, each.kind), each.kind, each.help, labels, DRIVER)


def _list_of_operator() -> Iterator[Metric]:
    for each in (*resource_metrics.METRICS, *operator.METRICS, *lag.METRICS):
        yield Metric(_name(each.name, each.kind), each.kind, each.help, each.labels, OPERATOR)


def _list_of_connect() -> Iterator[Metric]:
    for name, said, labels in list_connect():
        yield Metric(name, "gauge", said, labels, CONNECT)


def find_series() -> dict[str, tuple[str, ...]]:
    """Return name → labels of all series."""
    return {name: labels for metric in list_metrics() for name, labels in metric.series.items()}
