"""The one way to declare a metric: a line with its name, meaning and labels, and how it is read.

The exposition, `docs/reference/metrics.md` and the contract test read the same lists: `METRICS` of `metrics`, `resource_metrics` and
`lag.exposition`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, cast

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

SubjectT = TypeVar("SubjectT")
Labels = tuple[str, ...]
Type = Literal["gauge", "counter", "histogram"]
Sample = tuple[Labels, float]
Reading = float | Iterable[Sample] | None
"""A value, None where it is not known, or values with further labels."""


@dataclass(frozen=True)
class Declared(Generic[SubjectT]):
    """A metric: its name without the suffix of counters, its meaning with its unit, its labels, and how it is read of a subject."""

    name: str
    help: str
    labels: Labels
    read: Callable[[SubjectT], Reading] = lambda _subject: None
    kind: Type = "gauge"

    def fill(self, subjects: Iterable[tuple[Labels, SubjectT]]) -> Metric:
        """Return the metric with its samples: those of each subject, whose labels come first."""
        return self.build((labels, self.list_samples(subject)) for labels, subject in subjects)

    def build(self, rows: Iterable[tuple[Labels, Iterable[Sample]]]) -> Metric:
        """Return the metric with the samples that were read of each subject, whose labels come first."""
        make = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        family = make(self.name, self.help, labels=self.labels)
        for labels, samples in rows:
            for more, value in samples:
                family.add_metric((*labels, *more), value)
        return family

    def list_samples(self, subject: SubjectT) -> tuple[Sample, ...]:
        """Return the samples of one subject."""
        reading = self.read(subject)
        if reading is None:
            return ()
        return (((), float(reading)),) if isinstance(reading, int | float) else tuple(reading)


def describe_counted(metric: MetricWrapperBase) -> Declared[None]:
    """Return the declaration of a metric that the process counts itself."""
    (family,) = metric.describe()
    labels = tuple(metric._labelnames)  # the client exposes them nowhere else before the first sample
    return Declared(family.name, family.documentation, labels, kind=cast(Type, family.type))


class ComputedMetrics(Collector):
    """Metrics that are computed at each scrape. What exists depends on the cluster, and nothing else has these names."""

    def describe(self) -> Iterable[Metric]:
        """Return none, so that nothing is computed when the collector is registered."""
        return ()
