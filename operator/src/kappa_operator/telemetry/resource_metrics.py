"""Metrics of pipelines, their savepoints, Kafka clusters and topics, computed from the cache at each scrape.

There is one series for each metric and pipeline or KafkaCluster, and a fixed number for each kind. Savepoints have no series of their own:
they are counted for each pipeline. So the number of series is bounded by what users declare, and none outlives its resource. Only the
active replica exports them: another one would export the same series again. A scrape runs in a thread, on a copy of the cache's JSON.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import ValidationError

from kappa_crds.conditions import Condition, ConditionType, find_condition, is_true
from kappa_crds.kafkacluster import KafkaClusterSpec, KafkaClusterStatus
from kappa_crds.kinds import find_kind
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.pipeline_status import PipelineStatus
from kappa_crds.quantities import parse_duration
from kappa_crds.resource import Resource
from kappa_crds.savepoint import SavepointState
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.keys import Key

PipelineResource = Resource[PipelineSpec, PipelineStatus]
KafkaClusterResource = Resource[KafkaClusterSpec, KafkaClusterStatus]
Labels = tuple[str, ...]
Sample = tuple[Labels, float]

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


@dataclass(frozen=True)
class Declared:
    """A metric: its name as Prometheus stores it, kind, meaning with unit, and labels."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    labels: Labels

    def family(self) -> GaugeMetricFamily | CounterMetricFamily:
        """Return an empty family."""
        make = GaugeMetricFamily if self.kind == "gauge" else CounterMetricFamily
        return make(self.name, self.help, labels=self.labels)


@dataclass(frozen=True)
class PipelineMetric(Declared):
    """A metric of a pipeline. `read` yields the values of the labels besides namespace and pipeline, with the sample."""

    read: Callable[[PipelineFacts], Iterable[Sample]]


@dataclass(frozen=True)
class ClusterMetric(Declared):
    """A metric of a KafkaCluster; None where it is not known."""

    read: Callable[[KafkaClusterResource], float | None]


def _one(read: Callable[[PipelineFacts], float | None]) -> Callable[[PipelineFacts], Iterable[Sample]]:
    """Return what yields one sample, or none where the value is not known."""

    def find(facts: PipelineFacts) -> Iterable[Sample]:
        value = read(facts)
        return () if value is None else (((), value),)

    return find


def _read_ready(conditions: Iterable[Condition]) -> float:
    return float(is_true(conditions, ConditionType.READY))


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
    return None if upgrade is None or upgrade.since is None else upgrade.since.timestamp()


def _count_from_beginning(facts: PipelineFacts) -> float | None:
    upgrade = facts.resource.status.upgrade
    return (
        None
        if upgrade is None
        else len(upgrade.new_checkpoint.from_beginning)
        if upgrade.new_checkpoint
        else 0
    )


def _count_savepoints(facts: PipelineFacts) -> Iterator[Sample]:
    counts = Counter(savepoint.state for savepoint in facts.savepoints)
    for state in SavepointState:
        yield (state.value,), counts[state.value]


def _find_newest(times: Iterable[float | None]) -> float | None:
    return max((time for time in times if time is not None), default=None)


_PIPELINE = ("namespace", "pipeline")
_CLUSTER = ("namespace", "kafkacluster")
PIPELINE_METRICS: tuple[PipelineMetric, ...] = (
    PipelineMetric("kappa_pipeline_ready", "gauge", "1 while the Pipeline is Ready, 0 else.", _PIPELINE, _one(lambda facts: _read_ready(facts.resource.status.conditions))),
    PipelineMetric("kappa_pipeline_suspended", "gauge", "1 where the Pipeline is to be suspended, 0 else.", _PIPELINE, _one(lambda facts: float(facts.resource.spec.suspend))),
    PipelineMetric("kappa_pipeline_info", "gauge", "Always 1; the state, the reason of Ready, and the guarantee of the Pipeline are its labels.", (*_PIPELINE, "state", "reason", "guarantee"), _read_info),
    PipelineMetric("kappa_pipeline_restarts", "counter", "Restarts of drivers in the life of the Pipeline.", _PIPELINE, _one(lambda facts: facts.resource.status.restarts.total)),
    PipelineMetric("kappa_pipeline_crashes", "gauge", "Drivers that started and died since the last quiet time.", _PIPELINE, _one(lambda facts: facts.resource.status.restarts.crashes)),
    PipelineMetric("kappa_pipeline_trigger_interval_seconds", "gauge", "Time from batch to batch in seconds, as declared; none where a batch starts as soon as it can.", _PIPELINE, _one(_read_interval)),
    PipelineMetric("kappa_pipeline_upgrade_info", "gauge", "Always 1, where the Pipeline was changed; how far the last change is, in which mode, and what it meant for the state are its labels.", (*_PIPELINE, "phase", "mode", "handover", "verdict"), _read_upgrade),
    PipelineMetric("kappa_pipeline_upgrade_phase_timestamp_seconds", "gauge", "When that phase of the last change began, Unix time.", _PIPELINE, _one(_read_upgrade_since)),
    PipelineMetric("kappa_pipeline_upgrade_sources_from_beginning", "gauge", "Sources that the last change has read from the first record that they still have; 0 where it went on from the state that there was.", _PIPELINE, _one(_count_from_beginning)),
    PipelineMetric("kappa_pipeline_savepoints", "gauge", "Savepoint resources of the Pipeline by state.", (*_PIPELINE, "state"), _count_savepoints),
    PipelineMetric("kappa_pipeline_savepoint_scheduled", "gauge", "1 where savepoints are taken on a schedule, 0 else.", _PIPELINE, _one(_read_scheduled)),
    PipelineMetric("kappa_pipeline_savepoint_taken_timestamp_seconds", "gauge", "When the newest savepoint was taken, Unix time.", _PIPELINE, _one(lambda facts: _find_newest(each.taken for each in facts.savepoints))),
    PipelineMetric("kappa_pipeline_savepoint_failed_timestamp_seconds", "gauge", "When a savepoint last was given up or found damaged, Unix time.", _PIPELINE, _one(lambda facts: _find_newest(each.failed for each in facts.savepoints))),
)  # fmt: skip
CLUSTER_METRICS: tuple[ClusterMetric, ...] = (
    ClusterMetric("kappa_kafkacluster_ready", "gauge", "1 while the KafkaCluster is Ready, 0 else.", _CLUSTER, lambda cluster: _read_ready(cluster.status.conditions)),
    ClusterMetric("kappa_kafkacluster_seen_timestamp_seconds", "gauge", "When the Kafka cluster last answered, Unix time.", _CLUSTER, lambda cluster: cluster.status.last_seen.timestamp() if cluster.status.last_seen else None),
    ClusterMetric("kappa_kafkacluster_brokers", "gauge", "Brokers alive at the last check.", _CLUSTER, lambda cluster: cluster.status.brokers),
    ClusterMetric("kappa_kafkacluster_topics", "gauge", "Topics that the user of the KafkaCluster may see.", _CLUSTER, lambda cluster: cluster.status.topics),
)  # fmt: skip
RESOURCES = Declared(
    "kappa_operator_resources", "gauge", "Resources known by kind and state.", ("kind", "state")
)
METRICS: tuple[Declared, ...] = (*PIPELINE_METRICS, *CLUSTER_METRICS, RESOURCES)


class ResourceCollector(Collector):
    """Computes the metrics of resources while `is_leading`. Savepoints are parsed once for each version."""

    def __init__(self, cache: ResourceCache, is_leading: Callable[[], bool]) -> None:
        self._cache = cache
        self._is_leading = is_leading
        self._savepoints: dict[Key, tuple[bytes, SavepointFacts]] = {}

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its samples; what is not known of a resource has no sample."""
        leading = self._is_leading()
        pipelines = list(self._find_pipelines()) if leading else []
        clusters: list[KafkaClusterResource] = list(self._cache.parse_all("KafkaCluster")) if leading else []
        for metric in PIPELINE_METRICS:
            yield _fill(metric, (sample for facts in pipelines for sample in _label(facts, metric)))
        for cluster_metric in CLUSTER_METRICS:
            yield _fill(cluster_metric, _read_clusters(cluster_metric, clusters))
        counts: Iterable[Sample] = self._cache.count_states().items() if leading else ()
        yield _fill(RESOURCES, counts)

    def describe(self) -> Iterable[Metric]:
        """Return none: what there is depends on the cluster, and nothing else has these names."""
        return ()

    def _find_pipelines(self) -> Iterator[PipelineFacts]:
        savepoints: defaultdict[Key, list[SavepointFacts]] = defaultdict(list)
        raw = self._cache.list_raw("Savepoint")
        self._savepoints = {key: (text, self._read_savepoint(key, text)) for key, text in raw}
        for _, facts in self._savepoints.values():
            savepoints[facts.pipeline].append(facts)
        for resource in self._cache.parse_all("Pipeline"):
            key = Key("Pipeline", resource.metadata.namespace, resource.metadata.name)
            yield PipelineFacts(resource, tuple(savepoints[key]))

    def _read_savepoint(self, key: Key, raw: bytes) -> SavepointFacts:
        known, facts = self._savepoints.get(key, (None, None))
        return facts if facts is not None and known is raw else _read_facts(key, raw)


def _read_facts(key: Key, raw: bytes) -> SavepointFacts:
    try:
        resource: Resource[Any, Any] = find_kind(key.kind).parse(json.loads(raw))
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


def _label(facts: PipelineFacts, metric: PipelineMetric) -> Iterator[Sample]:
    metadata = facts.resource.metadata
    for labels, value in metric.read(facts):
        yield (metadata.namespace, metadata.name, *labels), value


def _read_clusters(metric: ClusterMetric, clusters: Iterable[KafkaClusterResource]) -> Iterator[Sample]:
    for cluster in clusters:
        value = metric.read(cluster)
        if value is not None:
            yield (cluster.metadata.namespace, cluster.metadata.name), value


def _fill(metric: Declared, samples: Iterable[Sample]) -> Metric:
    family = metric.family()
    for labels, value in samples:
        family.add_metric(labels, value)
    return family
