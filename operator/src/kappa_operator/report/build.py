"""Builds a report from its inputs: pure, as there may be tens of thousands of group partitions.

The inputs are immutable objects of one moment, so that a thread can work on them.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kappa_crds.lagstate import LagState, Severity
from kappa_crds.progress import Progress
from kappa_operator.engine.keys import Key
from kappa_operator.lag.evaluate import Verdict, judge
from kappa_operator.lag.history import LagHistory
from kappa_operator.lag.model import ClusterSample, GroupPartition, PartitionLog, Sample
from kappa_operator.lag.rules import Rules
from kappa_operator.pipeline.progress import find_last_batch, measure_rate
from kappa_operator.report.model import (
    ClusterReport,
    LagReport,
    PartitionReport,
    PipelineReport,
    Report,
    TopicReport,
)

_UNCOMMITTED = "the group has no committed offset, and the partition has records"
_AHEAD = "the committed offset is past the end of the log: the topic was recreated"
_UNDATED = "the age of the oldest unread record is unknown"
Rank = tuple[tuple[int, int], bool, float, int]
"""The rank of a group partition: the verdict of policies, then losses, then lag."""
_UNJUDGED = 0, -1
_LOWEST: Rank = (_UNJUDGED, False, 0.0, 0)
_FIGURES = ("partitions", "lag", "behind", "loss", "lost", "bound", "unknown", "undated", "worst", "why")
"""The figures of a row, as reports name them."""
_BATCH = "triggerExecution"
"""Spark's name of the duration of a whole batch."""


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """A LagPolicy: its rules, and its lag histories."""

    rules: Rules
    histories: Mapping[GroupPartition, LagHistory]


@dataclass(frozen=True, slots=True)
class ClusterInput:
    """A KafkaCluster, its last sample, and the policies of its groups."""

    key: Key
    every: float
    sampled: ClusterSample | None = None
    policies: tuple[PolicyInput, ...] = ()


@dataclass(frozen=True, slots=True)
class PipelineInput:
    """A pipeline: its consumer group, its state and the reason of Ready, and the last progress of its driver with its time."""

    key: Key
    group: str
    state: str | None = None
    reason: str | None = None
    progress: tuple[datetime, Progress] | None = None


@dataclass(frozen=True, slots=True)
class ReportInput:
    """All inputs. `replica` is the name of the leader."""

    replica: str
    clusters: tuple[ClusterInput, ...] = ()
    pipelines: tuple[PipelineInput, ...] = field(default_factory=tuple)


def build_report(inputs: ReportInput, now: datetime, *, with_partitions: bool = False) -> Report:
    """Return the report; rows have their partitions only on request."""
    pipelines = {pipeline.group: pipeline.key.name for pipeline in inputs.pipelines}
    return Report(
        at=now,
        replica=inputs.replica,
        clusters=tuple(
            _build_cluster(cluster, pipelines, now, with_partitions) for cluster in inputs.clusters
        ),
        pipelines=tuple(build_pipeline(pipeline) for pipeline in inputs.pipelines),
    )


def _build_cluster(
    cluster: ClusterInput, pipelines: Mapping[str, str], now: datetime, with_partitions: bool
) -> ClusterReport:
    namespace, name, sampled = cluster.key.namespace, cluster.key.name, cluster.sampled
    if sampled is None:
        return ClusterReport(namespace=namespace, name=name, every=cluster.every)
    verdicts = _judge(cluster.policies, now)
    return ClusterReport(
        namespace=namespace,
        name=name,
        every=cluster.every,
        at=sampled.at,
        seconds=sampled.seconds,
        failure=sampled.failure,
        lags=tuple(_build_lags(sampled, verdicts, pipelines, with_partitions)),
        topics=tuple(_build_topics(sampled)),
    )


def _judge(policies: Iterable[PolicyInput], now: datetime) -> dict[GroupPartition, Verdict]:
    """Return the worst verdict of policies for each group partition."""
    found: dict[GroupPartition, Verdict] = {}
    for policy in policies:
        for pair, history in policy.histories.items():
            verdict = judge(history, now, policy.rules)
            if pair not in found or verdict.rank > found[pair].rank:
                found[pair] = verdict
    return found


def _build_lags(
    sampled: ClusterSample,
    verdicts: Mapping[GroupPartition, Verdict],
    pipelines: Mapping[str, str],
    with_partitions: bool,
) -> Iterable[LagReport]:
    rows: defaultdict[tuple[str, str], _Row] = defaultdict(_Row)
    for pair, sample in sampled.samples.items():
        group, (topic, number) = pair
        verdict, row = verdicts.get(pair), rows[group, topic]
        row.take(number, sample, verdict)
        if with_partitions:
            row.pairs.append(_build_partition(number, sample, verdict))
    for pair, why in sampled.unknown.items():
        if pair not in sampled.samples:
            group, (topic, number) = pair
            verdict, row = _make_unknown(verdicts.get(pair)), rows[group, topic]
            row.miss(number, why, verdict)
            if with_partitions:
                row.pairs.append(PartitionReport(partition=number, why=why, **_describe(verdict)))
    for (group, topic), row in rows.items():
        yield row.build(group, topic, pipelines.get(group))
    seen = {group for group, _ in rows}
    for group, why in sampled.unread.items():
        if group not in seen:
            yield LagReport(
                group=group, pipeline=pipelines.get(group), state=LagState.UNKNOWN, unknown=1, why=why
            )


@dataclass(slots=True)
class _Row:
    """A group in a topic, summed up by partition: there are tens of thousands, and `kappa top` reads them every two seconds."""

    partitions: int = 0
    lag: int | None = None
    behind: float | None = None
    loss: float | None = None
    lost: int = 0
    bound: bool = False
    unknown: int = 0
    undated: int = 0
    verdict: Verdict | None = None
    worst: int | None = None
    why: str | None = None
    rank: Rank = _LOWEST
    pairs: list[PartitionReport] = field(default_factory=list)

    def take(self, number: int, sample: Sample, verdict: Verdict | None) -> None:
        """Add a partition with a sample."""
        why, lag = _find_unknown(sample), sample.lag
        behind = _find_behind(sample)
        if why is None or why is _UNDATED:
            self.lag = lag if self.lag is None else self.lag + lag
        else:
            self.unknown += 1
            lag, behind = 0, None
        if why is _UNDATED:
            self.undated += 1
        if behind is not None and (self.behind is None or behind > self.behind):
            self.behind = behind
        if sample.loss is not None and (self.loss is None or sample.loss < self.loss):
            self.loss = sample.loss
        lost = sample.lost
        self.lost += lost
        self.bound = self.bound or sample.bound
        self._note(number, why, verdict, (bool(lost), behind or 0.0, lag))

    def miss(self, number: int, why: str, verdict: Verdict) -> None:
        """Add a partition without a sample."""
        self.unknown += 1
        self._note(number, why, verdict, (False, 0.0, 0))

    def _note(
        self, number: int, why: str | None, verdict: Verdict | None, amount: tuple[bool, float, int]
    ) -> None:
        self.partitions += 1
        self.why = self.why or why
        rank = (_UNJUDGED if verdict is None else verdict.rank, *amount)
        if self.worst is None or rank > self.rank:
            self.worst, self.rank = number, rank
        if verdict is not None:
            self.verdict = verdict if self.verdict is None else _join(self.verdict, verdict)

    def build(self, group: str, topic: str, pipeline: str | None) -> LagReport:
        """Return the sum of all partitions."""
        figures = {name: getattr(self, name) for name in _FIGURES}
        pairs = tuple(sorted(self.pairs, key=lambda pair: pair.partition))
        return LagReport.model_construct(
            group=group,
            topic=topic,
            pipeline=pipeline,
            by_partition=pairs,
            **figures,
            **_describe(self.verdict),
        )


def _join(one: Verdict, other: Verdict) -> Verdict:
    """Return the worst state and the highest severity of two."""
    if one == other:
        return one
    return Verdict(
        max(one.state, other.state, key=lambda state: state.rank),
        max(one.severity, other.severity, key=lambda severity: severity.rank),
    )


def _describe(verdict: Verdict | None) -> dict[str, Any]:
    """Return the fields of a verdict in reports; there is none where no policy selects the group."""
    state, severity = verdict or (None, Severity.NONE)
    return {"state": state, "severity": severity}


def _make_unknown(verdict: Verdict | None) -> Verdict:
    return Verdict(LagState.UNKNOWN, Severity.NONE if verdict is None else verdict.severity)


def _build_partition(number: int, sample: Sample, verdict: Verdict | None) -> PartitionReport:
    log, committed = sample.log, sample.committed
    why = _find_unknown(sample)
    is_known = why is None or why is _UNDATED
    return PartitionReport.model_construct(
        partition=number,
        committed=committed,
        start=log.start,
        end=log.end,
        lag=sample.lag if is_known else None,
        behind=_find_behind(sample) if is_known else None,
        loss=sample.loss,
        lost=sample.lost if committed is not None else None,
        why=why,
        **_describe(verdict),
    )


def _find_unknown(sample: Sample) -> str | None:
    """Return why a figure of a group partition is unknown, None where all are known."""
    if sample.committed is None:
        return _UNCOMMITTED if sample.log.stable > sample.log.start else None
    if sample.committed > sample.log.end:
        return _AHEAD
    return _UNDATED if sample.behind is None and sample.lag else None


def _find_behind(sample: Sample) -> float | None:
    return sample.behind if sample.lag else 0.0


def rank_partition(pair: PartitionReport) -> tuple[int, int, bool, float, int]:
    """Return the rank of a group partition, as in `Rank`."""
    state = -1 if pair.state is None else pair.state.rank
    return pair.severity.rank, state, bool(pair.lost), pair.behind or 0.0, pair.lag or 0


def _build_topics(sampled: ClusterSample) -> Iterable[TopicReport]:
    sizes: defaultdict[str, list[PartitionLog | None]] = defaultdict(list)
    for partition, log in sampled.logs.items():
        sizes[partition.topic].append(log)
    for partition in sampled.unavailable:
        sizes[partition.topic].append(None)
    for topic, logs in sizes.items():
        known = [log.end - log.start for log in logs if log is not None]
        yield TopicReport.model_construct(
            topic=topic,
            partitions=len(logs),
            records=sum(known) if len(known) == len(logs) else None,
            rate=sampled.rates.get(topic),
        )


def build_pipeline(pipeline: PipelineInput) -> PipelineReport:
    """Return the report of a pipeline: its state from its status, all else from its driver."""
    key = pipeline.key
    report = PipelineReport(
        namespace=key.namespace, name=key.name, state=pipeline.state, reason=pipeline.reason
    )
    if pipeline.progress is None:
        return report
    at, progress = pipeline.progress
    return report.replace(at=at, **_read_progress(progress, at))


def _read_progress(progress: Progress, at: datetime) -> dict[str, float | int | None]:
    queries = progress.queries
    marks = [query.watermark for query in queries if query.watermark is not None]
    batches = [query.duration_ms[_BATCH] / 1000 for query in queries if _BATCH in query.duration_ms]
    return {
        "executors": progress.executors,
        "batch": find_last_batch(progress),
        "came": sum(query.input_rows_per_second for query in queries) if queries else None,
        "done": measure_rate(progress) if queries else None,
        "lag": progress.lag if queries else None,
        "batch_seconds": max(batches, default=None),
        "watermark_delay": (at - min(marks)).total_seconds() if marks else None,
        "state_rows": sum(query.state_rows for query in queries) if queries else None,
    }
