"""Metrics of pipelines, their savepoints, Kafka clusters, stores, lag policies, CDC sources, reprocessings and archives of topics, computed from the cache at each scrape.

There is one series for each metric and Pipeline, KafkaCluster, StateStore, LagPolicy, CDCSource or Topic with an archive, at most 50 for a Reprocessing, and a fixed number for each kind. Savepoints have no series of their own:
they are counted for each pipeline. So the number of series is bounded by what users declare, and none outlives its resource. Only the
active replica exports them: another one would export the same series again. A scrape runs in a thread, on a copy of the cache's JSON.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from prometheus_client.core import Metric
from pydantic import ValidationError

from kappa_crds.conditions import ConditionType, find_condition, is_true
from kappa_crds.kafkacluster import KafkaClusterSpec, KafkaClusterStatus
from kappa_crds.kinds import find_kind
from kappa_crds.lagpolicy import LAG_HEALTHY, LagPolicySpec, LagPolicyStatus
from kappa_crds.lagstate import LagState
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.pipeline_status import PipelineStatus
from kappa_crds.quantities import parse_duration
from kappa_crds.resource import Resource
from kappa_crds.savepoint import SAVEPOINT, SavepointState
from kappa_crds.statestore import StateStoreSpec, StateStoreStatus
from kappa_crds.stores import StoreContents
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.keys import Key
from kappa_operator.telemetry.archive_metrics import ARCHIVE_METRICS, MARK
from kappa_operator.telemetry.cdcsource_metrics import CDCSOURCE_METRICS
from kappa_operator.telemetry.declare import ComputedMetrics, Declared, Sample
from kappa_operator.telemetry.reprocessing_metrics import REPROCESSING_METRICS

PipelineResource = Resource[PipelineSpec, PipelineStatus]
KafkaClusterResource = Resource[KafkaClusterSpec, KafkaClusterStatus]
StateStoreResource = Resource[StateStoreSpec, StateStoreStatus]
LagPolicyResource = Resource[LagPolicySpec, LagPolicyStatus]

_LOST = (SavepointState.FAILED, SavepointState.DAMAGED)


@dataclass(frozen=True, slots=True)
class SavepointFacts:
    """What counts of one savepoint. Times are Unix time in seconds."""

    pipeline: Key
    state: str
    taken: float | None
    failed: float | None


@dataclass(frozen=True, slots=True)
class PipelineFacts:
    """A pipeline and its savepoints."""

    resource: PipelineResource
    savepoints: tuple[SavepointFacts, ...] = ()


def _read_ready(resource: Resource[Any, Any]) -> float:
    return float(is_true(resource.status.conditions, ConditionType.READY))


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _read_info(facts: PipelineFacts) -> Iterator[Sample]:
    status = facts.resource.status
    ready = find_condition(status.conditions, ConditionType.READY)
    yield (status.state or "", ready.reason if ready else "", status.guarantee or ""), 1.0


def _read_interval(facts: PipelineFacts) -> float | None:
    interval = facts.resource.spec.trigger.interval
    return None if interval is None else parse_duration(interval)


def _read_scheduled(facts: PipelineFacts) -> float:
    policy = facts.resource.spec.savepoints
    return float(policy is not None and policy.schedule is not None)


def _read_upgrade(facts: PipelineFacts) -> Iterator[Sample]:
    upgrade = facts.resource.status.upgrade
    if upgrade is not None:
        verdict = "" if upgrade.verdict is None else upgrade.verdict.kind.value
        yield (upgrade.phase.value, upgrade.mode.value, upgrade.handover.value, verdict), 1.0


def _read_upgrade_since(facts: PipelineFacts) -> float | None:
    upgrade = facts.resource.status.upgrade
    return None if upgrade is None else _seconds(upgrade.since)


def _count_from_beginning(facts: PipelineFacts) -> float | None:
    upgrade = facts.resource.status.upgrade
    if upgrade is None:
        return None
    return len(upgrade.new_checkpoint.from_beginning) if upgrade.new_checkpoint else 0


def _count_savepoints(facts: PipelineFacts) -> Iterator[Sample]:
    counts = Counter(savepoint.state for savepoint in facts.savepoints)
    for state in SavepointState:
        yield (state.value,), counts[state.value]


def _find_newest(times: Iterable[float | None]) -> float | None:
    return max((time for time in times if time is not None), default=None)


def _held(read: Callable[[StoreContents], float | None]) -> Callable[[StateStoreResource], float | None]:
    """Return a reader of the last measurement; there is none where the spec asks for none."""

    def find(store: StateStoreResource) -> float | None:
        measurement = store.status.measurement
        return None if measurement is None or measurement.contents is None else read(measurement.contents)

    return find


def _read_measured(store: StateStoreResource) -> float | None:
    return None if store.status.measurement is None else store.status.measurement.at.timestamp()


def _count_unhealthy(policy: LagPolicyResource) -> float:
    return sum(count for state, count in policy.status.group_partitions.items() if state != LagState.OK.value)


def _read_health(wanted: str) -> Callable[[LagPolicyResource], float | None]:
    """Return a reader of whether LagHealthy has a status; there is none before the first sample."""

    def find(policy: LagPolicyResource) -> float | None:
        condition = find_condition(policy.status.conditions, LAG_HEALTHY)
        return None if condition is None else float(condition.status == wanted)

    return find


_PIPELINE = ("namespace", "pipeline")
_CLUSTER = ("namespace", "kafkacluster")
_STORE = ("namespace", "statestore")
_POLICY = ("namespace", "lagpolicy")
PIPELINE_METRICS: tuple[Declared[PipelineFacts], ...] = (
    Declared("kappa_pipeline_ready", "1 while the Pipeline is Ready, 0 else.", _PIPELINE, lambda facts: _read_ready(facts.resource)),
    Declared("kappa_pipeline_suspended", "1 where the Pipeline is to be suspended, 0 else.", _PIPELINE, lambda facts: float(facts.resource.spec.suspend)),
    Declared("kappa_pipeline_info", "Always 1; the state, the reason of Ready, and the guarantee of the Pipeline are its labels.", (*_PIPELINE, "state", "reason", "guarantee"), _read_info),
    Declared("kappa_pipeline_restarts", "Restarts of drivers in the life of the Pipeline.", _PIPELINE, lambda facts: facts.resource.status.restarts.total, "counter"),
    Declared("kappa_pipeline_crashes", "Drivers that started and died since the last quiet time.", _PIPELINE, lambda facts: facts.resource.status.restarts.crashes),
    Declared("kappa_pipeline_trigger_interval_seconds", "Time from batch to batch in seconds, as declared; none where a batch starts as soon as it can.", _PIPELINE, _read_interval),
    Declared("kappa_pipeline_upgrade_info", "Always 1, where the Pipeline was changed; how far the last change is, in which mode, and what it meant for the state are its labels.", (*_PIPELINE, "phase", "mode", "handover", "verdict"), _read_upgrade),
    Declared("kappa_pipeline_upgrade_phase_timestamp_seconds", "When that phase of the last change began, Unix time.", _PIPELINE, _read_upgrade_since),
    Declared("kappa_pipeline_upgrade_sources_from_beginning", "Sources that the last change reads from their first available record; 0 if it continues from the previous state.", _PIPELINE, _count_from_beginning),
    Declared("kappa_pipeline_savepoints", "Savepoint resources of the Pipeline by state.", (*_PIPELINE, "state"), _count_savepoints),
    Declared("kappa_pipeline_savepoint_scheduled", "1 where savepoints are taken on a schedule, 0 else.", _PIPELINE, _read_scheduled),
    Declared("kappa_pipeline_savepoint_taken_timestamp_seconds", "When the newest savepoint was taken, Unix time.", _PIPELINE, lambda facts: _find_newest(each.taken for each in facts.savepoints)),
    Declared("kappa_pipeline_savepoint_failed_timestamp_seconds", "When a savepoint last was given up or found damaged, Unix time.", _PIPELINE, lambda facts: _find_newest(each.failed for each in facts.savepoints)),
)  # fmt: skip
CLUSTER_METRICS: tuple[Declared[KafkaClusterResource], ...] = (
    Declared("kappa_kafkacluster_ready", "1 while the KafkaCluster is Ready, 0 else.", _CLUSTER, _read_ready),
    Declared("kappa_kafkacluster_seen_timestamp_seconds", "When the Kafka cluster last answered, Unix time.", _CLUSTER, lambda cluster: _seconds(cluster.status.last_seen)),
    Declared("kappa_kafkacluster_brokers", "Brokers alive at the last check.", _CLUSTER, lambda cluster: cluster.status.brokers),
    Declared("kappa_kafkacluster_topics", "Topics that the user of the KafkaCluster may see.", _CLUSTER, lambda cluster: cluster.status.topics),
)  # fmt: skip
STORE_METRICS: tuple[Declared[StateStoreResource], ...] = (
    Declared("kappa_statestore_ready", "1 while the StateStore is Ready, 0 else.", _STORE, _read_ready),
    Declared("kappa_statestore_check_timestamp_seconds", "When the last check ended, Unix time.", _STORE, lambda store: _seconds(store.status.last_check)),
    Declared("kappa_statestore_free_bytes", "Bytes free at the last check; of a PVC only.", _STORE, lambda store: store.status.free_bytes),
    Declared("kappa_statestore_measurement_timestamp_seconds", "When the last measurement began, Unix time.", _STORE, _read_measured),
    Declared("kappa_statestore_measurement_partial", "1 where the store held more than is counted at once: the figures are too low.", _STORE, _held(lambda holds: float(holds.partial))),
    Declared("kappa_statestore_checkpoints", "Checkpoints in the store, at the last measurement.", _STORE, _held(lambda holds: holds.checkpoints)),
    Declared("kappa_statestore_checkpoint_bytes", "Bytes of all checkpoints in the store.", _STORE, _held(lambda holds: holds.checkpoint_bytes)),
    Declared("kappa_statestore_savepoints", "Savepoints in the store, with a Savepoint resource or without.", _STORE, _held(lambda holds: holds.savepoints)),
    Declared("kappa_statestore_savepoint_objects", "Files of savepoints; one that several share is one.", _STORE, _held(lambda holds: holds.savepoint_objects)),
    Declared("kappa_statestore_savepoint_bytes", "Bytes of those files and of the manifests.", _STORE, _held(lambda holds: holds.savepoint_bytes)),
    Declared("kappa_statestore_oldest_savepoint_timestamp_seconds", "When the oldest savepoint was written to the store, Unix time.", _STORE, _held(lambda holds: _seconds(holds.oldest_savepoint))),
    Declared("kappa_statestore_newest_savepoint_timestamp_seconds", "When the newest savepoint was written to the store, Unix time.", _STORE, _held(lambda holds: _seconds(holds.newest_savepoint))),
)  # fmt: skip
POLICY_METRICS: tuple[Declared[LagPolicyResource], ...] = (
    Declared("kappa_lagpolicy_healthy", "1 while every partition of every group that is selected keeps its bounds, 0 else.", _POLICY, _read_health("True")),
    Declared("kappa_lagpolicy_unknown", "1 while it is unknown whether they do, 0 else.", _POLICY, _read_health("Unknown")),
    Declared("kappa_lagpolicy_severity", "Severity of the worst partition: 0 is none, 1 is a warning, 2 is critical.", _POLICY, lambda policy: policy.status.severity.rank),
    Declared("kappa_lagpolicy_muted", "1 within a window of spec.mute, 0 else.", _POLICY, lambda policy: float(policy.status.muted_until is not None)),
    Declared("kappa_lagpolicy_unhealthy_partitions", "Partitions of groups that are not OK.", _POLICY, _count_unhealthy),
)  # fmt: skip
RESOURCES: Declared[float] = Declared(
    "kappa_operator_resources", "Resources known by kind and state.", ("kind", "state"), lambda count: count
)
METRICS: tuple[Declared[Any], ...] = (
    *PIPELINE_METRICS, *CLUSTER_METRICS, *STORE_METRICS, *POLICY_METRICS, *CDCSOURCE_METRICS, *REPROCESSING_METRICS, *ARCHIVE_METRICS, RESOURCES,
)  # fmt: skip


_BY_KIND: Mapping[str, tuple[Declared[Any], ...]] = {
    "Pipeline": PIPELINE_METRICS, "KafkaCluster": CLUSTER_METRICS, "StateStore": STORE_METRICS, "LagPolicy": POLICY_METRICS,
    "CDCSource": CDCSOURCE_METRICS, "Reprocessing": REPROCESSING_METRICS, "Topic": ARCHIVE_METRICS,
}  # fmt: skip


class Row(NamedTuple):
    """The samples of one version of a resource, in the order of its kind's metrics; none for one that cannot be read."""

    raw: bytes
    savepoints: tuple[SavepointFacts, ...]
    samples: tuple[tuple[Sample, ...], ...]


class ResourceCollector(ComputedMetrics):
    """Computes the metrics of resources while `is_leading`. Each version of a resource is parsed once: most change rarely."""

    def __init__(self, cache: ResourceCache, is_leading: Callable[[], bool]) -> None:
        self._cache = cache
        self._is_leading = is_leading
        self._savepoints: dict[Key, tuple[bytes, SavepointFacts]] = {}
        self._rows: dict[Key, Row] = {}

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its samples; what is not known of a resource has no sample."""
        leading = self._is_leading()
        self._rows = self._read_rows() if leading else {}
        rows = sorted(self._rows.items())
        for kind, declared in _BY_KIND.items():
            found = [
                ((key.namespace, key.name), row) for key, row in rows if key.kind == kind and row.samples
            ]
            for number, metric in enumerate(declared):
                yield metric.build((labels, row.samples[number]) for labels, row in found)
        yield RESOURCES.fill(self._cache.count_states().items() if leading else ())

    def _read_rows(self) -> dict[Key, Row]:
        savepoints, known, rows = self._find_savepoints(), self._rows, {}
        for kind in _BY_KIND:
            for key, raw in self._cache.list_raw(kind):
                if kind == "Topic" and MARK not in raw:
                    continue
                row, own = known.get(key), tuple(savepoints.get(key, ()))
                same = row is not None and row.raw is raw and row.savepoints == own
                rows[key] = row if row is not None and same else _read_row(kind, raw, own)
        return rows

    def _find_savepoints(self) -> dict[Key, list[SavepointFacts]]:
        savepoints: defaultdict[Key, list[SavepointFacts]] = defaultdict(list)
        raw = self._cache.list_raw("Savepoint")
        self._savepoints = {key: (text, self._read_savepoint(key, text)) for key, text in raw}
        for _, facts in self._savepoints.values():
            savepoints[facts.pipeline].append(facts)
        return savepoints

    def _read_savepoint(self, key: Key, raw: bytes) -> SavepointFacts:
        known, facts = self._savepoints.get(key, (None, None))
        return facts if facts is not None and known is raw else _read_facts(key, raw)


def _read_row(kind: str, raw: bytes, savepoints: tuple[SavepointFacts, ...]) -> Row:
    try:
        resource = find_kind(kind).parse(json.loads(raw))
    except ValidationError:
        return Row(raw, savepoints, ())
    subject = PipelineFacts(resource, savepoints) if kind == "Pipeline" else resource
    return Row(raw, savepoints, tuple(metric.list_samples(subject) for metric in _BY_KIND[kind]))


def _read_facts(key: Key, raw: bytes) -> SavepointFacts:
    try:
        resource: Resource[Any, Any] = SAVEPOINT.parse(json.loads(raw))
    except ValidationError:
        return SavepointFacts(Key("Pipeline", key.namespace, ""), "", None, None)
    status = resource.status
    ready = find_condition(status.conditions, ConditionType.READY)
    lost = status.state in _LOST and ready is not None
    return SavepointFacts(
        pipeline=Key("Pipeline", key.namespace, resource.spec.pipeline_ref),
        state=status.state or SavepointState.PENDING.value,
        taken=None if status.taken is None or lost else status.taken.timestamp(),
        failed=ready.last_transition_time.timestamp() if lost and ready else None,
    )
