"""Whether a log is whole: one fact at a time, and the finding on it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kappa_operator.lag.model import PartitionLog
from kappa_operator.log.facts import (
    Edge,
    LogFacts,
    LogSettings,
    PartitionFacts,
    Question,
    Record,
    SourceFacts,
    TopicFacts,
    Use,
)
from kappa_operator.log.proof import Gap, LogProof, SourceProof, Verdict
from kappa_operator.log.prove import prove

NOW = datetime(2026, 1, 10, tzinfo=UTC)
FIRST = datetime(2013, 1, 7, 3, tzinfo=UTC)
DAY = 86_400.0
PLAIN = LogSettings()


def gap(
    partition: int, first: int, last: int, before: datetime | None = None, *, at_most: bool = False
) -> Gap:
    return Gap(topic="flights", partition=partition, first=first, last=last, before=before, at_most=at_most)


def at(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def build_partition(number: int = 0, start: int = 0, end: int = 100_000, **fields: object) -> PartitionFacts:
    facts = PartitionFacts(number, PartitionLog(start, end, end), Record(start, at(FIRST)), begin=0)
    return replace(facts, **fields)  # type: ignore[arg-type]


def judge(
    *partitions: PartitionFacts,
    settings: LogSettings | None = PLAIN,
    use: Use = Use.STREAM,
    start: Edge | datetime = Edge.EARLIEST,
    identity: str | None = "A",
    known: str | None = None,
) -> SourceProof:
    topic = TopicFacts("flights", identity, known, settings, partitions)
    facts = LogFacts(NOW, (SourceFacts(Question("flights", ("flights",), use=use, start=start), (topic,)),))
    proof = prove(facts)
    (source,) = proof.sources
    assert proof.verdict is source.verdict
    assert proof.message
    return source


COMPACTED = LogSettings(deletes=False, compacts=True)


def test_a_log_from_its_first_offset_on_is_whole() -> None:
    found = judge(build_partition(0), build_partition(1))
    assert (found.verdict, found.gaps, found.reasons) == (Verdict.WHOLE, (), ())
    assert found.records == 200_000


def test_a_log_without_its_head_is_missing_exact_offsets_and_a_time() -> None:
    found = judge(build_partition(0), build_partition(2, start=41_234))
    assert found.verdict is Verdict.MISSING
    assert found.gaps == (gap(2, 0, 41_233, FIRST),)
    assert found.reasons == (
        "partition 2 of flights: offsets 0 to 41,233 are gone, records before 2013-01-07T03:00:00Z",
    )


def test_many_partitions_without_a_head_are_one_sentence() -> None:
    found = judge(*(build_partition(number, start=10 + number) for number in range(100)))
    assert len(found.gaps) == 100
    assert found.reasons == (
        "100 of 100 partitions of flights have lost 5,950 offsets, such as partition 99 of flights: offsets 0 to 108 are gone,"
        " records before 2013-01-07T03:00:00Z",
    )


def test_an_empty_log_that_had_records_has_lost_all_of_them() -> None:
    found = judge(build_partition(0, start=500, end=500, first=None))
    assert found.gaps == (gap(0, 0, 499),)
    assert found.reasons == ("partition 0 of flights: offsets 0 to 499 are gone, and it has no record now",)


def test_a_log_without_any_record_is_whole() -> None:
    assert judge(build_partition(0, end=0, first=None)).verdict is Verdict.WHOLE


def test_a_run_from_a_time_needs_no_earlier_record() -> None:
    later = FIRST + timedelta(hours=1)
    assert judge(build_partition(0, start=41_234), start=later).verdict is Verdict.WHOLE


def test_a_run_from_a_time_before_the_first_record_may_miss_some() -> None:
    found = judge(build_partition(0, start=41_234), start=FIRST)
    assert found.gaps == (gap(0, 0, 41_233, FIRST, at_most=True),)
    assert "some of offsets 0 to 41,233 are gone" in found.reasons[0]


def test_records_without_a_timestamp_leave_a_time_unknown() -> None:
    found = judge(build_partition(0, start=5, first=None), start=FIRST)
    assert found.verdict is Verdict.UNKNOWN
    assert "without a timestamp" in found.reasons[0]


def test_a_run_from_the_latest_record_has_no_history() -> None:
    found = judge(build_partition(0, start=5), start=Edge.LATEST)
    assert found.verdict is Verdict.UNKNOWN
    assert "latest" in found.reasons[0]


def test_a_topic_with_another_id_has_lost_all_of_the_former_one() -> None:
    found = judge(build_partition(0), identity="B", known="A")
    assert found.verdict is Verdict.MISSING
    assert "its id is B and was A" in found.reasons[0]


def test_a_topic_with_the_id_that_was_recorded_is_whole() -> None:
    assert judge(build_partition(0), known="A").verdict is Verdict.WHOLE


def test_a_pipeline_that_is_past_the_end_has_read_what_is_gone() -> None:
    found = judge(build_partition(0, end=10, committed=41))
    assert found.gaps == (gap(0, 10, 40),)
    assert "up to offset 41 and the log ends at 10" in found.reasons[0]


def test_a_pipeline_at_the_end_is_whole() -> None:
    assert judge(build_partition(0, end=10, committed=10)).verdict is Verdict.WHOLE


def test_a_topic_that_is_not_there_is_unknown() -> None:
    found = judge(identity=None, settings=None)
    assert found.verdict is Verdict.UNKNOWN
    assert len(found.reasons) == 1


def test_a_partition_that_cannot_be_read_is_unknown_beside_one_that_misses_records() -> None:
    away = [PartitionFacts(number, problem="broker 2 does not respond") for number in range(1, 9)]
    found = judge(build_partition(0, start=5), *away)
    assert found.verdict is Verdict.MISSING
    assert found.records is None
    assert found.reasons[1] == (
        "partitions 1, 2, 3, 4, 5 and 3 more of flights cannot be read: broker 2 does not respond"
    )


def test_a_topic_whose_configs_cannot_be_read_is_unknown() -> None:
    found = judge(build_partition(0), settings=None)
    assert found.verdict is Verdict.UNKNOWN
    assert "DescribeConfigs" in found.reasons[0]


def test_a_compacted_topic_is_whole_for_a_table_with_a_limit_of_time() -> None:
    found = judge(build_partition(0, first=Record(7, at(FIRST))), settings=COMPACTED, use=Use.TABLE)
    assert found.verdict is Verdict.WHOLE
    assert "within that time" in found.notes[0]
    assert "1d" in found.notes[0]


def test_a_compacted_topic_that_also_lost_its_head_is_not_whole_for_a_table() -> None:
    settings = LogSettings(compacts=True, retention=7 * DAY)
    found = judge(build_partition(0, start=9), settings=settings, use=Use.TABLE)
    assert found.gaps == (gap(0, 0, 8, FIRST),)


def test_a_compacted_topic_is_unknown_for_a_stream() -> None:
    found = judge(build_partition(0), settings=COMPACTED)
    assert found.verdict is Verdict.UNKNOWN
    assert "lookup and tableJoin" in found.reasons[0]


def test_a_compacted_topic_whose_first_records_are_gone_is_missing_for_a_stream() -> None:
    found = judge(build_partition(0, first=Record(7, at(FIRST))), settings=COMPACTED)
    assert found.verdict is Verdict.MISSING
    assert found.gaps == (gap(0, 0, 6, FIRST),)


@pytest.mark.parametrize(
    ("lag", "verdict"), [(2 * DAY, Verdict.WHOLE), (0.5 * DAY, Verdict.UNKNOWN)], ids=["younger", "older"]
)
def test_records_younger_than_the_compaction_lag_are_all_there(lag: float, verdict: Verdict) -> None:
    first = Record(0, at(NOW - timedelta(days=1)))
    settings = replace(COMPACTED, min_compaction_lag=lag)
    assert judge(build_partition(0, first=first), settings=settings).verdict is verdict


def test_an_open_transaction_is_a_note() -> None:
    found = judge(build_partition(0, log=PartitionLog(0, 100, 40)))
    assert found.verdict is Verdict.WHOLE
    assert "from offset 40 on" in found.notes[0]


def test_the_next_removal_by_retention_is_a_note() -> None:
    first = Record(0, at(NOW - timedelta(days=5)))
    found = judge(build_partition(0, first=first), settings=LogSettings(retention=7 * DAY))
    assert found.notes == ("retention 7d of topic flights may remove its oldest record in 2d",)


def test_a_limit_of_size_is_a_note() -> None:
    found = judge(build_partition(0), settings=LogSettings(retention_bytes=1))
    assert "retention.bytes" in found.notes[0]


def test_a_source_without_a_topic_is_unknown() -> None:
    facts = LogFacts(NOW, (SourceFacts(Question("flights", pattern="flights-.*")),))
    assert prove(facts).verdict is Verdict.UNKNOWN


def test_a_proof_of_nothing_is_unknown() -> None:
    assert prove(LogFacts(NOW)).verdict is Verdict.UNKNOWN


def test_a_proof_is_json() -> None:
    topic = TopicFacts("flights", "A", None, LogSettings(), (build_partition(2, start=3),))
    proof = prove(LogFacts(NOW, (SourceFacts(Question("flights", ("flights",)), (topic,)),)))
    text = proof.model_dump_json(by_alias=True, exclude_none=True)
    assert LogProof.model_validate_json(text) == proof
    assert '"before":"2013-01-07T03:00:00Z"' in text
    assert '"records":99997' in text


ARCHIVED_HEADS: list[tuple[tuple[int, int], tuple[Gap, ...]]] = [
    ((0, 500), ()),
    ((0, 900), ()),
    ((0, 400), (gap(0, 400, 499, FIRST),)),
    ((100, 600), (gap(0, 0, 99),)),
    ((100, 400), (gap(0, 0, 99), gap(0, 400, 499, FIRST))),
    ((700, 900), (gap(0, 0, 499, FIRST),)),
    ((0, 0), (gap(0, 0, 499, FIRST),)),
]


@pytest.mark.parametrize(("archived", "gaps"), ARCHIVED_HEADS)
def test_what_an_archive_has_is_not_missing(archived: tuple[int, int], gaps: tuple[Gap, ...]) -> None:
    found = judge(build_partition(0, start=500, end=1000, archived=archived))
    assert (found.gaps, found.verdict) == (gaps, Verdict.MISSING if gaps else Verdict.WHOLE)
    assert found.records == (500 if gaps else 1000)
    if not gaps:
        assert (
            "partition 0 of flights has 500 offsets in the archive that the log has lost; they are read from there"
            in found.notes
        )


def test_an_archive_does_not_count_for_a_run_from_a_time() -> None:
    begin = FIRST - timedelta(days=1)
    found = judge(build_partition(0, start=500, archived=(0, 500)), start=begin)
    assert found.verdict is Verdict.MISSING
