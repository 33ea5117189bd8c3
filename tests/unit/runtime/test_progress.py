"""Spark's events folded into the record, and the metrics computed from it."""

from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import generate_latest

from kappa_crds.progress import DriverRole, DriverState, Progress, QueryProgress, SavepointProgress
from kappa_pipelines.checkpoint.format.offsets import Malformed, parse_entry
from kappa_pipelines.kafka.group import lowest_offsets
from kappa_pipelines.kafka.limits import Limits, parse_limits
from kappa_pipelines.kafka.subscription import Subscription
from kappa_pipelines.reporting.metrics import (
    METRICS,
    PREFIX,
    SIDE_PREFIX,
    Counts,
    DriverCollector,
    build_registry,
)
from kappa_pipelines.reporting.progress import (
    build_recovery,
    count_malformed,
    fold_event,
    measure_load,
    with_latest,
)

READS = (
    ("flights", Subscription(("in",))),
    ("again", Subscription(("in",))),
    ("airports", Subscription(("places",))),
)


def _source(topic: str, end: int, rows: int = 10) -> dict[str, Any]:
    return {
        "description": f"KafkaV2[Subscribe[{topic}]]",
        "startOffset": {topic: {"0": 0}},
        "endOffset": {topic: {"0": end}},
        "latestOffset": {topic: {"0": 100}},
        "numInputRows": rows,
    }


def _event(**changes: Any) -> dict[str, Any]:
    return {
        "id": "q",
        "runId": "r",
        "name": "out",
        "timestamp": "2013-01-01T00:00:00.500Z",
        "batchId": 4,
        "numInputRows": 10,
        "inputRowsPerSecond": float("nan"),
        "processedRowsPerSecond": 12.5,
        "durationMs": {"addBatch": 7},
        "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"},
        "sink": {"numOutputRows": 9},
        "stateOperators": [
            {"numRowsTotal": 3, "memoryUsedBytes": 100, "numRowsDroppedByWatermark": 1},
            {"numRowsTotal": 4, "memoryUsedBytes": 50, "numRowsDroppedByWatermark": 0},
        ],
        "sources": [_source("in", 10), _source("places", 20), _source("in", 30)],
        "observedMetrics": {
            "flights": {"malformed": 2, "rows": 10},
            "airports": {"malformed": 1, "rows": 10},
        },
        **changes,
    }


def test_an_event_becomes_a_typed_record() -> None:
    folded = fold_event(None, _event(), READS)
    assert (folded.sink, folded.batch_id, folded.input_rows) == ("out", 4, 10)
    assert (folded.state_rows, folded.state_bytes, folded.late_rows, folded.malformed_rows) == (7, 150, 1, 3)
    assert folded.input_rows_per_second == 0.0
    assert folded.watermark is None


def test_malformed_records_are_counted_by_source_where_every_row_was_seen() -> None:
    event = _event(sources=[_source("in", 10), _source("places", 20, rows=11), _source("in", 30)])
    folded = fold_event(None, event, READS)
    assert count_malformed(event, folded.sources) == {
        "flights": Malformed(2),
        "airports": None,
        "again": None,
    }


def test_a_batch_that_moved_on_without_rows_is_not_believed_to_be_clean() -> None:
    event = _event(sources=[_source("in", 10, rows=0)], observedMetrics={"flights": {}})
    folded = fold_event(None, event, READS[:1])
    assert count_malformed(event, folded.sources) == {"flights": None}


def test_two_sources_of_one_topic_are_distinguished_by_the_order_of_the_plan() -> None:
    folded = fold_event(None, _event(), READS)
    assert {source.name: source.end_offsets[source.topic][0] for source in folded.sources} == {
        "flights": 10,
        "airports": 20,
        "again": 30,
    }


def test_sources_of_several_topics_are_distinguished_by_their_subscription() -> None:
    reads = (("some", Subscription(("a", "b"))), ("all", Subscription(pattern="[ab]")))
    offsets = {"a": {"0": 1}, "b": {"0": 2}}
    sources = [
        {"description": f"KafkaV2[{text}]", "endOffset": offsets, "numInputRows": rows}
        for text, rows in (("SubscribePattern[^([ab])$]", 3), ("Subscribe[a, b]", 4))
    ]
    folded = fold_event(None, _event(sources=sources), reads)
    assert [(each.name, each.topic, each.input_rows) for each in folded.sources] == [
        ("all", "[ab]", 3),
        ("some", "a, b", 4),
    ]
    behind = with_latest(folded, {("a", 0): 5, ("b", 0): 2, ("c", 0): 9}, reads)
    assert [each.lag for each in behind.sources] == [4, 4]


def test_totals_grow_from_event_to_event() -> None:
    folded = fold_event(fold_event(None, _event(), READS), _event(batchId=5), READS)
    assert (folded.total_input_rows, folded.total_late_rows, folded.total_malformed_rows) == (20, 2, 6)


def test_refused_rows_of_the_sink_are_no_malformed_records() -> None:
    event = _event(observedMetrics={"flights": {"malformed": 2, "rows": 10}, "sink out": {"rejected": 3}})
    folded = fold_event(None, event, READS)
    assert (folded.malformed_rows, folded.total_refused_rows) == (2, 3)


@pytest.mark.parametrize(
    ("config", "limits"),
    [
        ({}, Limits()),
        ({"cleanup.policy": "compact,delete", "max.message.bytes": "2000000"}, Limits(True, 2_000_000)),
        ({"cleanup.policy": "delete", "max.message.bytes": "100000000"}, Limits(False, 33_554_432)),
    ],
)
def test_limits_are_those_of_the_topic_and_of_what_a_producer_holds(
    config: dict[str, str], limits: Limits
) -> None:
    assert parse_limits(config) == limits


def test_lag_is_measured_against_the_newest_known_end() -> None:
    folded = fold_event(None, _event(sources=[_source("in", 40)]), READS[:1])
    assert folded.sources[0].lag == 60
    assert with_latest(folded, {("in", 0): 500, ("in", 1): 7, ("other", 0): 9}, READS).sources[0].lag == 460
    assert with_latest(folded, {("in", 0): 30}, READS).sources[0].lag == 60


def test_the_group_gets_the_lowest_offsets_over_all_queries() -> None:
    positions = [{("in", 0): 5, ("in", 1): 9}, {("in", 0): 7, ("in", 1): 2}, {("places", 0): 1}]
    assert lowest_offsets(positions) == {("in", 0): 5, ("in", 1): 2, ("places", 0): 1}


def test_an_offset_log_of_version_2_names_its_sources() -> None:
    text = 'v2\n{"batchWatermarkMs":0,"conf":{}}\nflights:{"in":{"0":12,"1":3}}\nairports:{"places":{"0":1}}'
    assert parse_entry(text).offsets == {
        "flights": {("in", 0): 12, ("in", 1): 3},
        "airports": {("places", 0): 1},
    }


def test_a_start_is_measured_to_the_first_batch_of_each_query_and_by_its_parts() -> None:
    loading = {"rocksdbLoadLatencyMs": 1500, "rocksdbPutLatency": 7}
    operators = [{"numRowsTotal": 3, "customMetrics": loading}, {"numRowsTotal": 4, "customMetrics": loading}]
    event = _event(
        stateOperators=operators, timestamp="2013-01-01T00:00:06.000Z", sources=[_source("in", 10)]
    )
    assert measure_load(event) == 3.0
    assert measure_load(_event(stateOperators=[])) == 0.0
    first = fold_event(None, event, READS[:1])
    since, now = datetime(2013, 1, 1, tzinfo=UTC), datetime(2013, 1, 1, 0, 0, 10, tzinfo=UTC)
    found = build_recovery(since, now, [(first, 3.0), (first, 1.0)], warm=False)
    assert (found.seconds, found.prepare_seconds, found.state_seconds) == (10.0, 6.0, 4.0)
    assert (found.state_rows, found.records) == (14, 100)


def test_a_start_that_found_nothing_to_do_is_measured_until_it_knew() -> None:
    since, now = datetime(2013, 1, 1, tzinfo=UTC), datetime(2013, 1, 1, 0, 0, 10, tzinfo=UTC)
    found = build_recovery(since, now, [], warm=True)
    assert (found.seconds, found.prepare_seconds, found.records, found.warm) == (10.0, 10.0, 0, True)


def _progress(*queries: QueryProgress) -> Progress:
    return Progress(
        namespace="prod",
        pipeline="delays",
        revision="r",
        generation=3,
        state=DriverState.RUNNING,
        started_at=datetime(2013, 1, 1, tzinfo=UTC),
        queries=queries,
    )


def test_every_declared_metric_is_exposed_and_no_other() -> None:
    progress = _progress(fold_event(None, _event(eventTime={"watermark": "2013-01-01T00:00:00.000Z"}), READS))
    taken = [
        SavepointProgress(name=f"of-{day}", location="file:///s", done=True, taken=datetime(2013, 1, day, tzinfo=UTC), size_bytes=day)
        for day in (3, 2)
    ]  # fmt: skip
    progress = progress.replace(
        savepoints=(*taken, SavepointProgress(name="under-way", location="file:///s"))
    )
    registry = build_registry(DriverCollector(lambda: progress, Counts, lambda: 1_357_000_000.0))
    lines = generate_latest(registry).decode().splitlines()
    with_samples = {
        line.partition("{")[0].removesuffix("_total") for line in lines if not line.startswith("#")
    }
    assert with_samples == {PREFIX + declared.name for declared in METRICS}
    labels = '{namespace="prod",pipeline="delays"}'
    assert f"{PREFIX}generation{labels} 3.0" in lines
    assert f"{PREFIX}savepoint_bytes{labels} 3.0" in lines, "of the last savepoint"


def test_a_driver_beside_the_active_one_has_the_same_metrics_under_names_of_its_own() -> None:
    progress = _progress(fold_event(None, _event(), READS))

    def export(role: DriverRole) -> list[str]:
        found = progress.replace(role=role)
        registry = build_registry(DriverCollector(lambda: found, Counts, lambda: 1_357_000_000.0))
        return generate_latest(registry).decode().splitlines()

    active, side = export(DriverRole.ACTIVE), export(DriverRole.SHADOW)
    assert not any(SIDE_PREFIX in line for line in active)
    assert not any(PREFIX in line for line in side)
    samples = [line for line in side if not line.startswith("#")]
    assert all('role="shadow"' in line for line in samples)
    plain = [line.replace('role="shadow",', "").replace(',role="shadow"', "") for line in side]
    assert plain == [line.replace(PREFIX, SIDE_PREFIX) for line in active]


def test_written_records_are_added_up_where_spark_counts_them() -> None:
    first = fold_event(None, _event(sink={"numOutputRows": 7}), READS)
    second = fold_event(first, _event(sink={"numOutputRows": 5}), READS)
    assert (second.written_rows, second.total_written_rows) == (5, 12)
    uncounted = fold_event(None, _event(sink={"numOutputRows": -1}), READS)
    assert (uncounted.written_rows, uncounted.total_written_rows) == (None, None)
    assert fold_event(second, _event(sink={"numOutputRows": -1}), READS).total_written_rows == 12


def test_records_of_each_source_are_added_up_with_those_that_could_not_be_read() -> None:
    folded = fold_event(fold_event(None, _event(), READS), _event(), READS)
    totals = {each.name: (each.total_input_rows, each.total_malformed_rows) for each in folded.sources}
    assert totals == {"flights": (20, 4), "airports": (20, 2), "again": (20, 0)}


def test_a_source_that_a_query_scans_twice_is_counted_once_and_its_clean_batches_are_believed() -> None:
    twice = (READS[0], *READS)
    event = _event(sources=[_source("in", 10, rows=20), _source("places", 20), _source("in", 30, rows=9)])
    folded = fold_event(None, event, twice)
    assert [(each.name, each.input_rows) for each in folded.sources] == [
        ("flights", 10),
        ("airports", 10),
        ("again", 9),
    ]
    assert count_malformed(event, folded.sources) == {
        "flights": Malformed(2),
        "airports": Malformed(1),
        "again": None,
    }


def test_a_scan_that_saw_less_than_the_other_is_not_believed() -> None:
    event = _event(sources=[_source("in", 10, rows=30)])
    assert count_malformed(event, fold_event(None, event, (READS[0], *READS)).sources) == {"flights": None}
