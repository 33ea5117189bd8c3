"""Decides whether the logs of a pipeline are whole: small checks over the facts of a topic, each with its findings.

What Kafka does not know is `Unknown` and never `Whole`: which records of a key compaction removed, and the time of records without one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from kappa_crds.quantities import format_duration
from kappa_operator.log.facts import (
    Edge,
    LogFacts,
    PartitionFacts,
    Question,
    Record,
    SourceFacts,
    TopicFacts,
    Use,
)
from kappa_operator.log.proof import Gap, LogProof, SourceProof, Verdict, format_time, worst


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact that decides: a verdict with its reason and the offsets that are missing, or a note where the verdict is Whole."""

    verdict: Verdict
    message: str
    gaps: tuple[Gap, ...] = ()


Check = Callable[[Question, TopicFacts, datetime], Iterator[Finding]]


def prove(facts: LogFacts) -> LogProof:
    """Return the proof, or what is missing of each source."""
    return LogProof(at=facts.at, sources=tuple(_prove_source(source, facts.at) for source in facts.sources))


def _prove_source(source: SourceFacts, at: datetime) -> SourceProof:
    question = source.question
    findings = [*_check_start(question), *_check_topics(source)]
    for topic in source.topics:
        findings += [each for check in _CHECKS for each in check(question, topic, at)]
    verdict = worst(finding.verdict for finding in findings)
    partitions = [each for topic in source.topics for each in topic.partitions]
    bad = sorted(
        (each for each in findings if each.verdict is not Verdict.WHOLE), key=lambda each: -each.verdict.rank
    )
    return SourceProof(
        source=question.source,
        use=question.use.value,
        verdict=verdict,
        topics=tuple(topic.topic for topic in source.topics),
        partitions=len(partitions),
        records=_count_records(partitions),
        gaps=tuple(gap for finding in findings for gap in finding.gaps),
        reasons=tuple(dict.fromkeys(finding.message for finding in bad)),
        notes=tuple(dict.fromkeys(each.message for each in findings if each.verdict is Verdict.WHOLE)),
    )


def _count_records(partitions: Sequence[PartitionFacts]) -> int | None:
    """Return the offsets to read, None where that is unknown."""
    total = 0
    for each in partitions:
        if each.log is None or each.begin is None:
            return None
        total += max(0, each.log.end - max(each.begin, each.first_readable))
    return total


def _build_gap(
    topic: TopicFacts,
    each: PartitionFacts,
    first: int,
    end: int,
    record: Record | None = None,
    *,
    at_most: bool = False,
) -> Gap:
    """Return the gap from an offset up to another one; `record` is the first one after it."""
    before = None if record is None else record.time
    return Gap(
        topic=topic.topic, partition=each.number, first=first, last=end - 1, before=before, at_most=at_most
    )


def _check_start(question: Question) -> Iterator[Finding]:
    if question.start is Edge.LATEST:
        yield Finding(
            Verdict.UNKNOWN,
            "it starts at the latest record, so a new run reads nothing of the history; set a time or earliest",
        )


def _check_topics(source: SourceFacts) -> Iterator[Finding]:
    if not source.topics:
        yield Finding(
            Verdict.UNKNOWN,
            f"the pipeline has read no topic like {source.question.pattern} yet, so nothing is known of its log",
        )


def _check_identity(_question: Question, topic: TopicFacts, _at: datetime) -> Iterator[Finding]:
    if topic.identity is None:
        yield Finding(
            Verdict.UNKNOWN,
            f"topic {topic.topic} does not exist, or the operator's user may not describe it",
        )
    elif topic.known_id is not None and topic.known_id != topic.identity:
        yield Finding(
            Verdict.MISSING,
            f"topic {topic.topic} was deleted and created again: its id is {topic.identity} and was {topic.known_id}, and"
            " the records of the former topic are gone",
        )


def _check_reading(_question: Question, topic: TopicFacts, _at: datetime) -> Iterator[Finding]:
    """Report partitions whose log is unknown, once for each cause."""
    causes: dict[str, list[int]] = {}
    for each in topic.partitions:
        if each.log is None:
            causes.setdefault(each.problem, []).append(each.number)
    for cause, numbers in causes.items():
        yield Finding(
            Verdict.UNKNOWN,
            f"{_name(topic, numbers)} cannot be read: {cause or 'the broker sent no offsets'}",
        )
    if topic.identity is not None and topic.settings is None:
        yield Finding(
            Verdict.UNKNOWN,
            f"the configs of topic {topic.topic} cannot be read, so it may be compacted; the operator's user needs DescribeConfigs",
        )


def _check_progress(_question: Question, topic: TopicFacts, _at: datetime) -> Iterator[Finding]:
    """A pipeline that is past the end of a log has read records that are gone."""
    for each in topic.partitions:
        if each.log is not None and each.committed is not None and each.committed > each.log.end:
            gap = _build_gap(topic, each, each.log.end, each.committed)
            yield Finding(
                Verdict.MISSING,
                f"the pipeline has read {_name(topic, [each.number])} up to offset {each.committed:,} and the log ends at"
                f" {each.log.end:,}: the topic was deleted and created again, or lost records in an unclean election of a leader",
                (gap,),
            )


def _check_head(question: Question, topic: TopicFacts, _at: datetime) -> Iterator[Finding]:
    """Compare the start of each log with the offset or time that the run starts at."""
    gaps: list[Gap] = []
    undated: list[int] = []
    for each in topic.partitions:
        if each.log is None or each.log.start == 0 or question.start is Edge.LATEST:
            continue
        if isinstance(question.start, datetime):
            if each.first is None and each.log.start < each.log.end:
                undated.append(each.number)
                continue
            if each.first is not None and each.first.time < question.start:
                continue
            gaps.append(_build_gap(topic, each, 0, each.log.start, each.first, at_most=True))
            continue
        gaps += [
            _build_gap(topic, each, begin, end, each.first if end == each.log.start else None)
            for begin, end in each.missing
        ]
    if gaps:
        yield Finding(Verdict.MISSING, _describe_gaps(topic, gaps), tuple(gaps))
    if undated:
        yield Finding(
            Verdict.UNKNOWN,
            f"{_name(topic, undated)} has records without a timestamp and does not start at offset 0, so it is unknown"
            f" whether it reaches back to {_describe_start(question)}",
        )


def _check_archive(question: Question, topic: TopicFacts, _at: datetime) -> Iterator[Finding]:
    """Report what is read from an archive because the log does not have it any more."""
    if question.start is not Edge.EARLIEST:
        return
    read = [
        each for each in topic.partitions if each.log is not None and each.log.start > 0 and not each.missing
    ]
    if read:
        offsets = sum(each.log.start for each in read if each.log is not None)
        yield Finding(
            Verdict.WHOLE,
            f"{_name(topic, [each.number for each in read])} has {offsets:,} offsets in the archive that the log has lost; they are read from there",
        )


def _describe_gaps(topic: TopicFacts, gaps: Sequence[Gap]) -> str:
    """Return one sentence about the gaps of a topic, with the largest as the example."""
    largest = max(gaps, key=lambda gap: gap.offsets)
    some = "some of " if largest.at_most else ""
    before = (
        f", records before {format_time(largest.before)}" if largest.before else ", and it has no record now"
    )
    one = f"partition {largest.partition} of {topic.topic}: {some}offsets {largest.first:,} to {largest.last:,} are gone{before}"
    if len(gaps) == 1:
        return one
    total = sum(gap.offsets for gap in gaps)
    return f"{len(gaps)} of {len(topic.partitions)} partitions of {topic.topic} have lost {total:,} offsets, such as {one}"


def _check_compaction(question: Question, topic: TopicFacts, at: datetime) -> Iterator[Finding]:
    """A compacted topic has the last record of each key: whole for a table, not for a stream."""
    settings = topic.settings
    if settings is None or not settings.compacts or question.start is Edge.LATEST:
        return
    if question.use is Use.TABLE:
        yield Finding(
            Verdict.WHOLE,
            f"topic {topic.topic} is compacted and read as a table: its last record of each key is there. Deletions of keys are"
            f" kept for {format_duration(settings.tombstone_retention)}, so a run has to read them within that time",
        )
        return
    lost = [gap for each in topic.partitions if (gap := _find_compacted(topic, each)) is not None]
    if lost:
        yield Finding(Verdict.MISSING, _describe_gaps(topic, lost), tuple(lost))
    touched = [
        each.number for each in topic.partitions if not _is_untouched(each, settings.min_compaction_lag, at)
    ]
    if touched:
        yield Finding(
            Verdict.UNKNOWN,
            f"topic {topic.topic} is compacted and read as a stream of all records: compaction removes earlier records of a key,"
            " and Kafka does not report which; it is whole only for lookup and tableJoin",
        )


def _find_compacted(topic: TopicFacts, each: PartitionFacts) -> Gap | None:
    """Return what compaction has certainly removed: the offsets before the first record."""
    if each.log is None or each.first is None or each.first.offset <= each.log.start:
        return None
    return _build_gap(topic, each, each.log.start, each.first.offset, each.first)


def _is_untouched(each: PartitionFacts, min_lag: float, at: datetime) -> bool:
    """Return whether compaction cannot have removed a record: there was none, or the first is younger than min.compaction.lag.ms."""
    if each.log is None or each.log.end == 0:
        return True
    if each.first is None or each.first.offset != 0:
        return False
    return (at - each.first.time).total_seconds() < min_lag


def _check_transactions(_question: Question, topic: TopicFacts, _at: datetime) -> Iterator[Finding]:
    """An open transaction holds back a reader of committed records."""
    held = [
        (each.number, each.log.stable)
        for each in topic.partitions
        if each.log is not None and each.log.stable < each.log.end
    ]
    if held:
        number, stable = held[0]
        others = f", and those of {len(held) - 1} other partitions" if len(held) > 1 else ""
        yield Finding(
            Verdict.WHOLE,
            f"an open transaction holds back readers of {_name(topic, [number])} from offset {stable:,} on{others}",
        )


def _check_retention(question: Question, topic: TopicFacts, at: datetime) -> Iterator[Finding]:
    """Report when retention removes the first record, so that a run that takes longer is warned."""
    settings = topic.settings
    if settings is None or not settings.deletes or question.start is Edge.LATEST:
        return
    if settings.retention_bytes is not None:
        yield Finding(
            Verdict.WHOLE,
            f"topic {topic.topic} is limited by size (retention.bytes), which may remove records at any time",
        )
    firsts = [each.first for each in topic.partitions if each.first is not None]
    if settings.retention is not None and firsts:
        oldest = min(firsts, key=lambda first: first.stamp)
        left = settings.retention - (at - oldest.time).total_seconds()
        when = f"in {format_duration(left)}" if left > 0 else "at any time"
        yield Finding(
            Verdict.WHOLE,
            f"retention {format_duration(settings.retention)} of topic {topic.topic} may remove its oldest record {when}",
        )


def _name(topic: TopicFacts, numbers: Sequence[int]) -> str:
    """Return partitions for people, at most five of them by number."""
    if len(numbers) == 1:
        return f"partition {numbers[0]} of {topic.topic}"
    listed = ", ".join(map(str, numbers[:5]))
    more = f" and {len(numbers) - 5} more" if len(numbers) > 5 else ""
    return f"partitions {listed}{more} of {topic.topic}"


def _describe_start(question: Question) -> str:
    return format_time(question.start) if isinstance(question.start, datetime) else question.start.value


_CHECKS: tuple[Check, ...] = (
    _check_identity,
    _check_reading,
    _check_progress,
    _check_head,
    _check_archive,
    _check_compaction,
    _check_transactions,
    _check_retention,
)
"""The checks of a topic, in the order of their findings."""
