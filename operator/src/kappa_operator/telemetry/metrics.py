"""Every metric of the operator, declared once; those of consumer lag are in `lag.exposition`. Labels are bounded: kinds and outcomes, never names.

What StateStores hold and what LagPolicies say is the exception: it has one series for each metric and resource, with its namespace and
name, and never one for a savepoint or a group. Those are computed from the resources' status when Prometheus asks, so that none outlives
its resource. What is told of other resources is in `resource_metrics`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from kappa_crds.conditions import ConditionType, find_condition, is_true
from kappa_crds.holdings import Holdings
from kappa_crds.kinds import KINDS
from kappa_crds.lagpolicy import LAG_HEALTHY, LagPolicySpec, LagPolicyStatus
from kappa_crds.lagstate import LagState
from kappa_crds.resource import Resource, ResourceStatus
from kappa_crds.statestore import StateStoreSpec, StateStoreStatus

StatusT = TypeVar("StatusT", bound=ResourceStatus)

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
OUTCOMES, ADMISSION_OUTCOMES = ("ok", "conflict", "failed", "unexpected error"), ("said", "late", "failed")


def begin_counting() -> None:
    """Have every counter begin at 0: Prometheus sees no increase in a series whose first value is 1, and the first failure is one to tell of."""
    for kind in KINDS:
        for outcome in OUTCOMES:
            RECONCILES.labels(kind.name, outcome)
    for outcome in ADMISSION_OUTCOMES:
        ADMISSIONS.labels(outcome)


begin_counting()


@dataclass(frozen=True)
class StatusMetric(Generic[StatusT]):
    """A gauge of a kind's resources: its name, its meaning with its unit, and how a status says it; None where it does not."""

    name: str
    help: str
    read: Callable[[StatusT], float | None]


StoreMetric = StatusMetric[StateStoreStatus]
PolicyMetric = StatusMetric[LagPolicyStatus]


def _held(read: Callable[[Holdings], float | None]) -> Callable[[StateStoreStatus], float | None]:
    """Return what reads something of the last measurement; there is none where spec.measureEvery is left out."""

    def find(status: StateStoreStatus) -> float | None:
        measurement = status.measurement
        return None if measurement is None or measurement.holds is None else read(measurement.holds)

    return find


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _read_ready(status: StateStoreStatus) -> float:
    return float(is_true(status.conditions, ConditionType.READY))


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


def _count_unwell(status: LagPolicyStatus) -> float:
    return sum(count for state, count in status.shares.items() if state != LagState.OK.value)


def _read_health(wanted: str) -> Callable[[LagPolicyStatus], float | None]:
    """Return what reads whether LagHealthy has a status; there is none before the first look."""

    def find(status: LagPolicyStatus) -> float | None:
        condition = find_condition(status.conditions, LAG_HEALTHY)
        return None if condition is None else float(condition.status == wanted)

    return find


POLICY_METRICS: tuple[PolicyMetric, ...] = (
    PolicyMetric("kappa_lagpolicy_healthy", "1 while every partition of every group that is selected keeps its bounds, 0 else.", _read_health("True")),
    PolicyMetric("kappa_lagpolicy_unknown", "1 while it cannot be told whether they do, 0 else.", _read_health("Unknown")),
    PolicyMetric("kappa_lagpolicy_severity", "How much the worst matters: 0 not at all, 1 is a warning, 2 is critical.", lambda status: status.severity.rank),
    PolicyMetric("kappa_lagpolicy_muted", "1 within a window of spec.mute, 0 else.", lambda status: float(status.muted_until is not None)),
    PolicyMetric("kappa_lagpolicy_unwell_partitions", "Partitions of groups that are not OK.", _count_unwell),
)  # fmt: skip


class StatusCollector(Collector, Generic[StatusT]):
    """Computes the gauges of a kind. `label` is that of its names, `find` yields the resources that there are."""

    def __init__(
        self,
        label: str,
        declared: Iterable[StatusMetric[StatusT]],
        find: Callable[[], Iterable[Resource[Any, StatusT]]],
    ) -> None:
        self._label = label
        self._declared = tuple(declared)
        self._find = find

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its samples; a resource of which something is not known has no sample of that."""
        resources = list(self._find())
        for metric in self._declared:
            family = GaugeMetricFamily(metric.name, metric.help, labels=("namespace", self._label))
            for resource in resources:
                value = metric.read(resource.status)
                if value is not None:
                    family.add_metric((resource.metadata.namespace, resource.metadata.name), value)
            yield family

    def describe(self) -> Iterable[Metric]:
        """Return none: what there is depends on the cluster, and nothing else has these names."""
        return ()


class StoreCollector(StatusCollector[StateStoreStatus]):
    """Computes the metrics of StateStores."""

    def __init__(self, find: Callable[[], Iterable[Resource[StateStoreSpec, StateStoreStatus]]]) -> None:
        super().__init__("statestore", STORE_METRICS, find)


class PolicyCollector(StatusCollector[LagPolicyStatus]):
    """Computes the metrics of LagPolicies."""

    def __init__(self, find: Callable[[], Iterable[Resource[LagPolicySpec, LagPolicyStatus]]]) -> None:
        super().__init__("lagpolicy", POLICY_METRICS, find)
