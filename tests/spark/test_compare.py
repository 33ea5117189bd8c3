"""Two versions of an output, compared by real Spark over topics of a real Kafka."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from kappa_crds.comparison import (
    ComparisonRequest,
    ComparisonSummary,
    DifferenceKind,
    OutputRange,
    Semantics,
    StreamWindows,
    Tolerance,
)
from kappa_crds.progress import ComparisonState
from kappa_crds.reasons import Reason
from kappa_crds.revision import KafkaConnection
from kappa_pipelines.compare.bounds import TopicBounds
from kappa_pipelines.compare.compare import Comparison
from kappa_pipelines.errors import LostDataError, SpecError
from lab.transactions import end_transaction
from spark.conftest import DriverThread
from spark.revisions import build_revision, source
from spark.topics import Topics

Rows = Sequence[tuple[str | None, Any]]


class Lab:
    """Writes versions of an output and compares them."""

    def __init__(self, spark: SparkSession, topics: Topics) -> None:
        self.spark, self.topics = spark, topics
        self.kafka = KafkaConnection(bootstrap_servers=(topics.bootstrap,))

    def write(self, rows: Rows, *, partitions: int = 2, **config: str) -> OutputRange:
        """A topic with the rows; a value that is no text is written as JSON, and None as a tombstone."""
        topic = self.topics.make("output", partitions, **config)
        for key, value in rows:
            raw = value if value is None or isinstance(value, str | bytes) else json.dumps(value)
            self.topics.queue(topic, key, raw)
        self.topics.flush()
        return TopicBounds(self.kafka, committed=True).find_range(topic)

    def compare(
        self, old: OutputRange, new: OutputRange, *, most: int = 1_000_000, **fields: Any
    ) -> ComparisonSummary:
        request = ComparisonRequest(name="test", old=old, new=new, **fields)
        return Comparison(kafka=self.kafka, request=request, group="test", most_examined=most).run(self.spark)


@pytest.fixture
def lab(spark: SparkSession, topics: Topics) -> Lab:
    return Lab(spark, topics)


def _counts(found: ComparisonSummary) -> dict[str, int]:
    names = (
        "old_rows",
        "new_rows",
        "equal",
        "tolerated",
        "changed",
        "only_old",
        "only_new",
        "expected",
        "undecided",
    )
    return {name: count for name in names if (count := getattr(found, name))}


def test_a_table_is_compared_by_its_last_rows_whatever_the_partitions_and_the_notation(lab: Lab) -> None:
    old = lab.write(
        [
            ("same", {"a": 1}),
            ("updated", {"a": 1}),
            ("updated", {"a": 2}),
            ("deleted", {"a": 1}),
            ("deleted", None),
            ("notation", '{"a": 1.0, "b": null}'),
            ("order", '{"a":1,"b":"x"}'),
            ("changed", {"a": 1, "n": {"m": 5}}),
            ("gone", {"a": 1}),
            ("text", "not JSON"),
            ("bytes", b"\xff\x00"),
        ]
    )
    new = lab.write(
        [
            ("same", {"a": 1}),
            ("updated", {"a": 2}),
            ("notation", '{"a":1}'),
            ("order", '{ "b": "x", "a": 1 }'),
            ("changed", {"a": 3, "n": {}}),
            ("extra", {"a": 1}),
            ("text", "not JSON either"),
            ("bytes", b"\xff\x01"),
        ],
        partitions=3,
    )
    found = lab.compare(old, new)
    assert _counts(found) == {
        "old_rows": 8, "new_rows": 8, "equal": 4, "tolerated": 2, "changed": 3, "only_old": 1, "only_new": 1,
    }  # fmt: skip
    samples = {sample.key: sample for sample in found.samples}
    assert samples.keys() == {"changed", "gone", "extra", "text", b"bytes".decode()}
    assert samples["changed"].columns == ("a", "n.m")
    assert samples["gone"].kind is DifferenceKind.ONLY_OLD
    assert samples["extra"].new == '{"a": 1}'
    assert samples["bytes"].old == "ff00"
    column = next(each for each in found.columns if each.name == "a")
    assert (column.rows, column.numbers, column.mean) == (1, 1, 2.0)
    part, _, offset = (samples["extra"].new_position or "").partition("/")
    assert new.start[int(part)] <= int(offset) < new.end[int(part)]


_VALUES = st.one_of(
    st.none(),
    st.sampled_from(["not JSON", "{", "", "[1]", "[1.0]", "5", "5.00", '{"a":1}', '{"a":1.0,"b":null}', '{"b":2,"a":1}']),
    st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 3) | st.booleans() | st.text("xyz", max_size=2)),
)  # fmt: skip
_TABLE = st.lists(st.tuples(st.text("abcdefgh", min_size=1, max_size=3), _VALUES), max_size=400)


def _write(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _last(rows: Rows) -> dict[str | None, str]:
    last = {key: _write(value) for key, value in rows}
    return {key: value for key, value in last.items() if value is not None}


def _read(value: str) -> Any:
    """A value as plain Python compares it."""

    def normal(found: Any) -> Any:
        if isinstance(found, dict):
            return {name: normal(each) for name, each in found.items() if each is not None}
        if isinstance(found, list):
            return [normal(each) for each in found]
        return (type(found) is bool, found)

    try:
        return normal(json.loads(value))
    except ValueError:
        return value


@settings(
    max_examples=4,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(old=_TABLE, changes=_TABLE)
def test_a_comparison_counts_as_plain_python_does(lab: Lab, old: Rows, changes: Rows) -> None:
    # An empty key has no partition of its own: Kafka's clients spread such records.
    new = [*old[::2], *changes]
    before, after = _last(old), _last(new)
    both = before.keys() & after.keys()
    equal = {key for key in both if _read(before[key]) == _read(after[key])}
    found = lab.compare(lab.write(old), lab.write(new, partitions=3), samples=1000)
    wanted = {
        "old_rows": len(before), "new_rows": len(after), "equal": len(equal), "changed": len(both - equal),
        "tolerated": sum(before[key] != after[key] for key in equal),
        "only_old": len(before.keys() - after.keys()), "only_new": len(after.keys() - before.keys()),
    }  # fmt: skip
    assert _counts(found) == {name: count for name, count in wanted.items() if count}
    assert {sample.key for sample in found.samples} == (before.keys() | after.keys()) - equal


def test_expected_differences_are_counted_apart_and_a_second_pass_finds_the_same(lab: Lab) -> None:
    count = 2500
    old = [(f"k{n}", {"n": n, "delay": n, "at": "now"}) for n in range(count)]
    new = [(f"k{n}", {"n": n, "delay": n + 60 + (n == 7), "at": "then"}) for n in range(1, count)]
    tolerance = Tolerance(
        ignored_columns=("at",),
        expected="new.delay = old.delay + 60 OR key = 'k0' AND new IS NULL OR new.missing = 'x'",
    )
    ranges = lab.write(old), lab.write(new)
    found = lab.compare(*ranges, tolerance=tolerance)
    assert _counts(found) == {"old_rows": count, "new_rows": count - 1, "changed": 1, "expected": count - 1}
    assert [sample.key for sample in found.samples if sample.kind is DifferenceKind.CHANGED] == ["k7"]
    (column,) = found.columns
    assert (column.name, column.smallest, column.largest) == ("delay", 60.0, 61.0)
    part = lab.compare(*ranges, most=500, tolerance=tolerance)
    assert part.undecided > count / 2
    assert 300 < part.expected + part.changed < 800
    assert part.expected + part.changed + part.undecided == count
    assert not part.is_equal


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("new.a = reflect('java.lang.System', 'exit', '1')", "reflect"),
        ("new.a =", "tolerance.expected"),
        ("new.a", "must be a condition"),
        ("new.a = 2 AND old_position = '0/0'", "old_position"),
        ("EXISTS (SELECT * FROM text.`/etc/passwd`)", "cannot be read"),
    ],
)
def test_a_condition_that_is_not_permitted_is_refused(lab: Lab, condition: str, message: str) -> None:
    ranges = lab.write([("k", {"a": 1})]), lab.write([("k", {"a": 2})])
    with pytest.raises(SpecError, match=message):
        lab.compare(*ranges, tolerance=Tolerance(expected=condition))


def test_a_stream_is_compared_row_for_row_in_windows_of_event_time(lab: Lab) -> None:
    def row(minute: int, **more: Any) -> dict[str, Any]:
        return {"ts": f"2026-01-01T00:{minute:02d}:00.000Z", **more}

    same: Rows = [(f"k{n}", row(n % 60, n=n)) for n in range(300)]
    old = [
        *same,
        ("twice", row(5)),
        ("twice", row(5)),
        ("a", row(10, v=1)),
        ("gone", row(20)),
        (None, row(40, v=1)),
    ]
    new = [
        *reversed(same),
        ("twice", row(5)),
        ("a", row(10, v=2)),
        ("notation", '{"v":1,"ts":"2026-01-01T00:50:00.000Z"}'),
        (None, row(40, v=2)),
        ("odd", "no JSON"),
    ]
    old.append(("notation", '{"ts":"2026-01-01T00:50:00.000Z", "v":1.0}'))
    ranges = lab.write(old), lab.write(new, partitions=3)
    found = lab.compare(
        *ranges, semantics=Semantics.STREAM, windows=StreamWindows(column="ts", size="15m"), samples=10
    )
    assert _counts(found) == {
        "old_rows": 306, "new_rows": 305, "equal": 302, "changed": 1, "only_old": 3, "only_new": 2,
    }  # fmt: skip
    assert {(each.key, each.kind) for each in found.samples} == {
        ("a", DifferenceKind.CHANGED),
        ("twice", DifferenceKind.ONLY_OLD),
        ("gone", DifferenceKind.ONLY_OLD),
        (None, DifferenceKind.ONLY_OLD),
        (None, DifferenceKind.ONLY_NEW),
        ("odd", DifferenceKind.ONLY_NEW),
    }
    differing = {each.start and each.start.minute: each.differing for each in found.windows}
    assert differing == {0: 2, 15: 1, 30: 2, None: 1}


def test_records_of_aborted_transactions_do_not_count(lab: Lab) -> None:
    old = lab.write([("a", {"v": 1}), ("b", {"v": 1})])
    topic = lab.topics.make("output")
    producer = Producer({"bootstrap.servers": lab.topics.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for values, commit in (((1,), True), ((2, 3), False)):
        producer.begin_transaction()
        for value in values:
            for key in ("a", "b"):
                producer.produce(topic, json.dumps({"v": value}), key=key)
        producer.flush(30)  # an abort forgets what was not sent
        end_transaction(producer, lab.topics.admin, topic, commit=commit)
    new = TopicBounds(lab.kafka, committed=True).find_range(topic)
    assert _counts(lab.compare(old, new)) == {"old_rows": 2, "new_rows": 2, "equal": 2}
    found = lab.compare(old, new, committed=False)
    assert _counts(found) == {"old_rows": 2, "new_rows": 2, "changed": 2}
    assert found.columns[0].largest == 2.0


def test_a_table_needs_keys(lab: Lab) -> None:
    with pytest.raises(SpecError, match="records without key"):
        lab.compare(lab.write([(None, {"a": 1}), ("k", {"a": 1})]), lab.write([("k", {"a": 1})]))


def test_deleted_records_are_reported_with_their_offsets(lab: Lab) -> None:
    old, new = (lab.write([(f"k{n}", {"a": n}) for n in range(10)], partitions=1) for _ in range(2))
    first = TopicPartition(old.topic, 0, 4)
    lab.topics.admin.delete_records([first])[first].result(30)
    with pytest.raises(
        LostDataError, match="from offset 0 to 3 were deleted; the first available offset is 4"
    ) as caught:
        lab.compare(old, new)
    assert caught.value.reason is Reason.OFFSETS_LOST
    found = lab.compare(old.replace(start={0: 4}), new)
    assert _counts(found) == {"old_rows": 6, "new_rows": 10, "equal": 6, "only_new": 4}
    for semantics in Semantics:
        found = lab.compare(old, new, available=True, semantics=semantics)
        assert _counts(found) == {"old_rows": 6, "new_rows": 10, "equal": 6, "undecided": 4}
        assert (found.old_start, found.new_start, found.since) == ({"0": 4}, {}, None)
        assert not found.samples


def test_a_stream_without_its_oldest_records_is_compared_from_the_first_whole_window(lab: Lab) -> None:
    def row(minute: int, **more: Any) -> tuple[str, Any]:
        return f"k{minute}", {"ts": f"2026-01-01T00:{minute:02d}:00Z", **more}

    order = [4, 0, 9, 3, 12, 10, 19, 15, 24, 21, 30, 27, 41, 35, 50]
    old = lab.write([row(minute) for minute in order], partitions=1)
    new_rows = [row(minute, **({"changed": True} if minute == 35 else {})) for minute in order]
    new = lab.write(new_rows, partitions=3)
    first = TopicPartition(
        old.topic, 0, 5
    )  # the row of minute 10 is the first one left, and 6 minutes are the largest disorder
    lab.topics.admin.delete_records([first])[first].result(30)
    windows = StreamWindows(column="ts", size="10m")
    found = lab.compare(old, new, available=True, semantics=Semantics.STREAM, windows=windows)
    assert found.since is not None
    assert (found.since.minute, found.old_start) == (20, {"0": 5})
    assert _counts(found) == {"old_rows": 7, "new_rows": 7, "equal": 6, "changed": 1}


def test_what_only_the_old_version_has_does_not_count_where_the_new_one_has_begun_later(lab: Lab) -> None:
    def row(minute: int, **more: Any) -> tuple[str, Any]:
        return f"k{minute}", {"ts": f"2026-01-01T00:{minute:02d}:00Z", **more}

    old = lab.write([row(minute) for minute in range(60)])
    begun = [row(minute, **({"changed": True} if minute in (26, 35) else {})) for minute in range(20, 60)]
    new = lab.write([*begun[:-1], ("k70", {"ts": "2026-01-01T00:58:30Z"})], partitions=3)
    fields: dict[str, Any] = {"available": True, "since": datetime(2026, 1, 1, 0, 25, tzinfo=UTC)}
    windows = StreamWindows(column="ts", size="10m")
    found = lab.compare(old, new, semantics=Semantics.STREAM, windows=windows, **fields)
    assert found.since == datetime(2026, 1, 1, 0, 30, tzinfo=UTC)
    assert _counts(found) == {
        "old_rows": 30, "new_rows": 30, "equal": 28, "changed": 1, "only_old": 1, "only_new": 1,
    }  # fmt: skip
    for semantics in Semantics:
        found = lab.compare(old, new, semantics=semantics, **fields)
        assert found.since is None
        counts = {name: count for name, count in _counts(found).items() if not name.endswith("_rows")}
        assert counts == {"equal": 37, "changed": 2, "only_new": 1, "undecided": 21}


@pytest.mark.chaos  # seven seconds
def test_values_of_megabytes_are_compared_in_tasks(lab: Lab) -> None:
    old, new = (
        lab.write(
            [(f"k{n}", {"a": n, "b": letter * 5_000_000}) for n in range(14)],
            **{"max.message.bytes": "8000000"},  # type: ignore[arg-type]
        )
        for letter in ("x", "y")
    )
    found = lab.compare(old, new, tolerance=Tolerance(ignored_columns=("b",)))
    assert _counts(found) == {"old_rows": 14, "new_rows": 14, "equal": 14, "tolerated": 14}


def test_a_driver_compares_on_request_while_its_queries_go_on(
    lab: Lab, run: Callable[..., DriverThread], checkpoint: Path
) -> None:
    names = {name: lab.topics.make(name) for name in ("flights", "out")}
    spec = {
        "sources": [source(schema="k BIGINT, v DOUBLE")],
        "sinks": [{"name": "out", "from": "flights", "kafka": {"topic": "out", "key": ["k"]}}],
    }
    old = lab.write([(str(n), {"k": n, "v": n / 2}) for n in range(50)])
    driver = run(build_revision(spec, checkpoint, lab.topics.bootstrap, topics=names))
    lab.topics.write(names["flights"], [json.dumps({"k": n, "v": n / 2 + (n == 7)}) for n in range(50)])
    driver.wait_for_records(50)
    driver.wait_until_running()
    new = TopicBounds(lab.kafka, committed=True).find_range(names["out"])
    assert driver.driver.request_comparison(ComparisonRequest(name="out.1", old=old, new=new))
    lab.topics.write(names["flights"], [json.dumps({"k": n, "v": 0.0}) for n in range(50, 80)])
    done = driver.wait_for(
        "the comparison", lambda p: p.comparisons and p.comparisons[0].state is ComparisonState.DONE
    )
    summary = done.comparisons[0].summary
    assert summary is not None
    assert _counts(summary) == {"old_rows": 50, "new_rows": 50, "equal": 49, "tolerated": 49, "changed": 1}
    assert [(each.key, each.columns) for each in summary.samples] == [("7", ("v",))]
    driver.wait_for_records(80)
    beyond = old.replace(end={part: end + 9 for part, end in old.end.items()})
    assert driver.driver.request_comparison(ComparisonRequest(name="out.2", old=beyond, new=new))
    failed = driver.wait_for(
        "its failure", lambda p: len(p.comparisons) == 2 and p.comparisons[1].failure is not None
    ).comparisons[1]
    assert "but the log ends at" in str(failed.failure)
    assert driver.stop().graceful


def test_a_timestamp_that_spark_cannot_read_fails_no_comparison(lab: Lab) -> None:
    rows = [("a", {"v": 1}), ("b", {"v": 2})]
    sides = []
    for value in (3, 4):
        topic = lab.write(rows).topic
        lab.topics.write(topic, [json.dumps({"v": value})], key="c", timestamp=-(2**62))
        sides.append(TopicBounds(lab.kafka, committed=True).find_range(topic))
    for semantics in Semantics:
        found = lab.compare(*sides, semantics=semantics)
        assert _counts(found) == {"old_rows": 3, "new_rows": 3, "equal": 2, "changed": 1}
