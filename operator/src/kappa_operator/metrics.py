"""Every metric of the operator, declared once; those of consumer lag are in `lag.exposition`. Labels are bounded: kinds and outcomes, never names.

What StateStores hold is the exception: it has one series for each metric and StateStore, with its namespace and name, and never one
for a savepoint. Those are computed from the resources' status when Prometheus asks, so that none outlives its resource. What is told
of other resources is in `resource_metrics`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from kappa_crds.conditions import ConditionType, find_condition
from kappa_crds.holdings import Holdings
from kappa_crds.resource import Resource
from kappa_crds.statestore import StateStoreSpec, StateStoreStatus

RECONCILES = Counter(
    "kappa_operator_reconciles_total", "Reconciles by kind and outcome.", ["kind", "outcome"]
)
RECONCILE_SECONDS = Histogram(
    "kappa_operator_reconcile_seconds",
    "Duration of one reconcile in seconds.",
    ["kind"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
QUEUE_KEYS = Gauge("kappa_operator_queue_keys", "Resources that wait for a look, now or later.")
WORKING_KEYS = Gauge("kappa_operator_working_keys", "Resources that are being looked at.")
EVENTS = Counter("kappa_operator_watch_events_total", "Watch events by kind.", ["kind"])
EVENT_AGE = Gauge(
    "kappa_operator_watch_echo_age_seconds", "Age of the oldest own write that no watch has shown yet."
)
LEADING = Gauge("kappa_operator_leading", "1 while this replica is the one that acts.")
LAST_RESYNC = Gauge(
    "kappa_operator_last_resync_timestamp_seconds", "When all resources were last queued for another look"
)
ADMISSIONS = Counter(
    "kappa_operator_admissions_total",
    "Pipelines that were applied, by what became of their warnings.",
    ["outcome"],
)
METRICS: tuple[MetricWrapperBase, ...] = (
    RECONCILES, RECONCILE_SECONDS, QUEUE_KEYS, WORKING_KEYS, EVENTS, EVENT_AGE, LEADING, LAST_RESYNC, ADMISSIONS,
)  # fmt: skip
"""What the operator counts itself."""


@dataclass(frozen=True)
class StoreMetric:
    """A gauge of StateStores: its name, its meaning with its unit, and how a status says it; None where it does not."""

    name: str
    help: str
    read: Callable[[StateStoreStatus], float | None]


def _held(read: Callable[[Holdings], float | None]) -> Callable[[StateStoreStatus], float | None]:
    """Return what reads something of the last measurement; there is none where spec.measureEvery is left out."""

    def find(status: StateStoreStatus) -> float | None:
        measurement = status.measurement
        return None if measurement is None or measurement.holds is None else read(measurement.holds)

    return find


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _read_ready(status: StateStoreStatus) -> float:
    condition = find_condition(status.conditions, ConditionType.READY)
    return float(condition is not None and condition.status == "True")


def _read_measured(status: StateStoreStatus) -> float | None:
    return None if status.measurement is None else status.measurement.at.timestamp()


STORE_METRICS: tuple[StoreMetric, ...] = (
    StoreMetric("kappa_statestore_ready", "1 while the StateStore is Ready, 0 else.", _read_ready),
    StoreMetric("kappa_statestore_check_timestamp_seconds", "When the last check ended, Unix time.", lambda status: _seconds(status.last_check)),
    StoreMetric("kappa_statestore_free_bytes", "Bytes free at the last check; of a claim only.", lambda status: status.free_bytes),
    StoreMetric("kappa_statestore_measurement_timestamp_seconds", "When the last measurement began, Unix time.", _read_measured),
    StoreMetric("kappa_statestore_measurement_partial", "1 where the store held more than is counted at once: the figures are too low.", _held(lambda holds: float(holds.partial))),
    StoreMetric("kappa_statestore_checkpoints", "Checkpoints in the store, at the last measurement.", _held(lambda holds: holds.checkpoints)),
    StoreMetric("kappa_statestore_checkpoint_bytes", "Bytes of all checkpoints in the store.", _held(lambda holds: holds.checkpoint_bytes)),
    StoreMetric("kappa_statestore_savepoints", "Savepoints in the store, with a Savepoint resource or without.", _held(lambda holds: holds.savepoints)),
    StoreMetric("kappa_statestore_savepoint_objects", "Files of savepoints; one that several share is one.", _held(lambda holds: holds.savepoint_objects)),
    StoreMetric("kappa_statestore_savepoint_bytes", "Bytes of those files and of the manifests.", _held(lambda holds: holds.savepoint_bytes)),
    StoreMetric("kappa_statestore_oldest_savepoint_timestamp_seconds", "When the oldest savepoint was written to the store, Unix time.", _held(lambda holds: _seconds(holds.oldest_savepoint))),
    StoreMetric("kappa_statestore_newest_savepoint_timestamp_seconds", "When the newest savepoint was written to the store, Unix time.", _held(lambda holds: _seconds(holds.newest_savepoint))),
)  # fmt: skip


class StoreCollector(Collector):
    """Computes the metrics of StateStores. `find` yields those that there are."""

    def __init__(self, find: Callable[[], Iterable[Resource[StateStoreSpec, StateStoreStatus]]]) -> None:
        self._find = find

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its samples; a store of which something is not known has no sample of that."""
        stores = list(self._find())
        for metric in STORE_METRICS:
            family = GaugeMetricFamily(metric.name, metric.help, labels=("namespace", "statestore"))
            for store in stores:
                value = metric.read(store.status)
                if value is not None:
                    family.add_metric((store.metadata.namespace, store.metadata.name), value)
            yield family

    def describe(self) -> Iterable[Metric]:
        """Return none: what there is depends on the cluster, and nothing else has these names."""
        return ()
