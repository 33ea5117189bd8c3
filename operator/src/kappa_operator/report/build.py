"""What was gathered, as a report: pure, and fit for a thread, as there may be tens of thousands of shares."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime

from kappa_crds.lagstate import LagState, Severity
from kappa_crds.progress import Progress
from kappa_operator.lag.evaluate import Verdict, judge
from kappa_operator.lag.model import Partition, PartitionLog, Sample, Share, Sweep
from kappa_operator.plan.progress import find_last_batch, measure_rate
from kappa_operator.report.gathered import Driven, Gathered, Judging, Looked
from kappa_operator.report.model import (
    ClusterReport,
    LagReport,
    PipelineReport,
    Report,
    ShareReport,
    TopicReport,
)

_UNCOMMITTED = "the group has committed nothing, and records are there"
_AHEAD = "the committed offset is past the end of the log: the topic was made anew"
_UNDATED = "it is not known how old the oldest record that waits is"
_BATCH = "triggerExecution"
"""Spark's name for the whole of a batch."""


def build_report(gathered: Gathered, now: datetime, *, with_partitions: bool = False) -> Report:
    """Return the report; each row has its partitions only where they are asked for."""
    pipelines = {driven.group: driven.key.name for driven in gathered.pipelines}
    return Report(
        at=now,
        replica=gathered.replica,
        clusters=tuple(
            _build_cluster(looked, pipelines, now, with_partitions) for looked in gathered.clusters
        ),
        pipelines=tuple(build_pipeline(driven) for driven in gathered.pipelines),
    )


def _build_cluster(
    looked: Looked, pipelines: Mapping[str, str], now: datetime, with_partitions: bool
) -> ClusterReport:
    namespace, name, sweep = looked.key.namespace, looked.key.name, looked.sweep
    if sweep is None:
        return ClusterReport(namespace=namespace, name=name, every=looked.every)
    verdicts = _judge(looked.judging, now)
    return ClusterReport(
        namespace=namespace,
        name=name,
        every=looked.every,
        at=sweep.at,
        seconds=sweep.seconds,
        failure=sweep.failure,
        lags=tuple(_build_lags(sweep, verdicts, pipelines, with_partitions)),
        topics=tuple(_build_topics(sweep)),
    )


def _judge(judging: Iterable[Judging], now: datetime) -> dict[Share, Verdict]:
    """Return the worst that policies say of each share."""
    found: dict[Share, Verdict] = {}
    for policy in judging:
        for share, standing in policy.standings.items():
            verdict = judge(standing, now, policy.rules)
            if share not in found or verdict.rank > found[share].rank:
                found[share] = verdict
    return found


def _build_lags(
    sweep: Sweep, verdicts: Mapping[Share, Verdict], pipelines: Mapping[str, str], with_partitions: bool
) -> Iterable[LagReport]:
    rows: defaultdict[tuple[str, str], list[ShareReport]] = defaultdict(list)
    bounds: set[tuple[str, str]] = set()
    for share, sample in sweep.samples.items():
        place = share.group, share.partition.topic
        rows[place].append(_build_share(share, sample, verdicts.get(share)))
        if sample.bound:
            bounds.add(place)
    for share, why in sweep.unknown.items():
        if share not in sweep.samples:
            verdict = verdicts.get(share)
            rows[share.group, share.partition.topic].append(_build_unseen(share, why, verdict))
    for (group, topic), shares in rows.items():
        yield add_up(
            group,
            topic,
            shares,
            pipeline=pipelines.get(group),
            bound=(group, topic) in bounds,
            with_partitions=with_partitions,
        )
    seen = {group for group, _ in rows}
    for group, why in sweep.unread.items():
        if group not in seen:
            yield LagReport(
                group=group, pipeline=pipelines.get(group), state=LagState.UNKNOWN, unknown=1, why=why
            )


def _build_share(share: Share, sample: Sample, verdict: Verdict | None) -> ShareReport:
    log, committed = sample.log, sample.committed
    why = _find_unknown(sample)
    is_known = why is None or why is _UNDATED
    return ShareReport.model_construct(
        partition=share.partition.number,
        committed=committed,
        start=log.start,
        end=log.end,
        lag=sample.lag if is_known else None,
        behind=_find_behind(sample) if is_known else None,
        loss=sample.loss,
        lost=sample.lost if committed is not None else None,
        state=None if verdict is None else verdict.state,
        severity=Severity.NONE if verdict is None else verdict.severity,
        why=why,
    )


def _find_unknown(sample: Sample) -> str | None:
    """Return why something of a share is not known, None where all is."""
    if sample.committed is None:
        return _UNCOMMITTED if sample.log.stable > sample.log.start else None
    if sample.ahead:
        return _AHEAD
    return _UNDATED if sample.lag and sample.behind is None else None


def _find_behind(sample: Sample) -> float | None:
    return sample.behind if sample.lag else 0.0


def _build_unseen(share: Share, why: str, verdict: Verdict | None) -> ShareReport:
    severity = Severity.NONE if verdict is None else verdict.severity
    return ShareReport(partition=share.partition.number, state=LagState.UNKNOWN, severity=severity, why=why)


def add_up(
    group: str,
    topic: str | None,
    shares: list[ShareReport],
    *,
    pipeline: str | None = None,
    bound: bool = False,
    with_partitions: bool = False,
) -> LagReport:
    """Return what partitions of a topic come to."""
    lags = [share.lag for share in shares if share.lag is not None]
    known = [share.behind for share in shares if share.behind is not None]
    losses = [share.loss for share in shares if share.loss is not None]
    worst = max(shares, key=rank_share)
    judged = [share for share in shares if share.state is not None]
    return LagReport.model_construct(
        group=group,
        topic=topic,
        pipeline=pipeline,
        partitions=len(shares),
        lag=sum(lags) if lags else None,
        behind=max(known, default=None),
        loss=min(losses, default=None),
        lost=sum(share.lost or 0 for share in shares),
        bound=bound,
        unknown=len(shares) - len(lags),
        undated=sum(share.lag is not None and share.behind is None for share in shares),
        state=max((share.state for share in judged if share.state), key=lambda state: state.rank, default=None),
        severity=max((share.severity for share in judged), key=lambda each: each.rank, default=Severity.NONE),
        worst=worst.partition,
        why=next((share.why for share in shares if share.why is not None), None),
        shares=tuple(sorted(shares, key=lambda share: share.partition)) if with_partitions else (),
    )  # fmt: skip


def rank_share(share: ShareReport) -> tuple[int, int, bool, float, int]:
    """Return how bad a share is: what policies say first, then losses, then how far it is behind."""
    state = -1 if share.state is None else share.state.rank
    return share.severity.rank, state, bool(share.lost), share.behind or 0.0, share.lag or 0


def _build_topics(sweep: Sweep) -> Iterable[TopicReport]:
    sizes: defaultdict[str, list[PartitionLog | None]] = defaultdict(list)
    for partition, log in sweep.logs.items():
        sizes[partition.topic].append(log)
    for partition in sweep.dark:
        sizes[Partition(*partition).topic].append(None)
    for topic, logs in sizes.items():
        known = [log.end - log.start for log in logs if log is not None]
        yield TopicReport.model_construct(
            topic=topic,
            partitions=len(logs),
            records=sum(known) if len(known) == len(logs) else None,
            rate=sweep.rates.get(topic),
        )


def build_pipeline(driven: Driven) -> PipelineReport:
    """Return what is known of a pipeline: its state from its status, all else from its driver."""
    key = driven.key
    told = PipelineReport(namespace=key.namespace, name=key.name, state=driven.state, reason=driven.reason)
    if driven.said is None:
        return told
    at, progress = driven.said
    return told.replace(at=at, **_read_progress(progress, at))


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
