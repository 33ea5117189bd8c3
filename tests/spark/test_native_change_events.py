"""Change events by the runtime's own module (ADR 88): whatever the event, its row is that of Spark's expressions."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kappa_crds.envelope import DebeziumEnvelope
from kappa_pipelines.analysis.catalyst import get_plan, items
from kappa_pipelines.laptop.data import read_topic
from kappa_pipelines.revision.settings import NATIVE_CHANGES
from kappa_pipelines.sources.change_events import ChangeEvents, build_change_events
from kappa_pipelines.sources.native_changes import explain_python_changes, find_expression, read_natively
from recorded.debezium import find_records
from spark.change_event_values import Event, Events, make_format
from spark.revisions import build_revision

RECORDS = 120
_ZONES = "UTC", "Europe/Berlin", "+05:30"
_READER = "kappa.json.ChangeReader"
_ALL = {
    "op": "op_", "deleted": "deleted_", "truncated": "truncated_", "version": "version_", "before": "before_", "time": "time_",
    "snapshot": "snapshot_", "table": "table_", "position": "position_", "transaction": "tx", "transactionOrder": "tx_order",
}  # fmt: skip


@pytest.fixture(autouse=True)
def restore(spark: SparkSession) -> Iterator[None]:
    yield
    for name in (NATIVE_CHANGES, "spark.sql.session.timeZone"):
        spark.conf.unset(name)


def _parse(spark: SparkSession, events: Sequence[Event], values: ChangeEvents) -> tuple[DataFrame, DataFrame]:
    """The parsed events by the module, and by Spark."""
    records = spark.createDataFrame(list(events), "key BINARY, value BINARY, offset BIGINT")
    by_spark = records.select(values.parse(alert=False).alias("parsed"))
    return read_natively(by_spark, "parsed", values), by_spark


def _rows(parsed: DataFrame) -> list[bytes]:
    """The rows as Spark keeps them in memory."""
    return [bytes(row.getBytes()) for row in parsed._jdf.queryExecution().executedPlan().executeCollect()]


def _find_call(parsed: DataFrame) -> Any:
    (column,) = items(get_plan(parsed).projectList())
    return column.child()


def _count_read(parsed: DataFrame, events: Sequence[Event]) -> int:
    """How many events the module reads without Spark's expressions."""
    reader = _find_call(parsed).targetObject().value()
    return sum(reader.isRead(key, value, offset) for key, value, offset in events)


def _expect_equal(spark: SparkSession, events: Sequence[Event], values: ChangeEvents) -> DataFrame:
    native, by_spark = _parse(spark, events, values)
    assert _READER in get_plan(native).toString()
    assert native.schema == by_spark.schema
    pairs = zip(events, _rows(native), _rows(by_spark), strict=True)
    different = [event for event, own, other in pairs if own != other]
    if different:
        shown = [frame.collect()[0] for frame in _parse(spark, different[:1], values)]
        pytest.fail(f"{values}: {len(different)} as {different[0]}: {shown}")
    return native


def _make_values(ddl: str, envelope: DebeziumEnvelope) -> tuple[ChangeEvents, list[tuple[str, str]]]:
    values = build_change_events("events", ddl, envelope)
    fields = [part.removeprefix("`").split("` ", 1) for part in ddl.split(", `")]
    return values, [(name, kind) for name, kind in fields]


def _compare(spark: SparkSession, seed: int, zone: str, count: int) -> None:
    random = Random(seed)
    spark.conf.set("spark.sql.session.timeZone", zone)
    values, fields = _make_values(*make_format(random))
    events = Events(random, fields, text_decimals=values.envelope.decimals == "Text", odd=0.5)
    _expect_equal(spark, [events.make() for _ in range(count)], values)


@pytest.mark.parametrize("seed", range(4))
def test_any_event_of_any_table_is_read_as_by_spark(spark: SparkSession, seed: int) -> None:
    _compare(spark, seed, _ZONES[seed % 3], RECORDS)


@pytest.mark.chaos  # two minutes of expressions without generated code
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
@given(seed=st.integers(0, 2**32), zone=st.sampled_from(_ZONES))
def test_many_events_of_any_table_are_read_as_by_spark(spark: SparkSession, seed: int, zone: str) -> None:
    _compare(spark, seed, zone, 400)


def test_usual_events_are_not_left_to_spark(spark: SparkSession) -> None:
    read = total = 0
    for seed in range(10):
        random = Random(seed)
        values, fields = _make_values(*make_format(random))
        maker = Events(random, fields, text_decimals=values.envelope.decimals == "Text", odd=0)
        events = [maker.make() for _ in range(40)]
        native, _ = _parse(spark, [], values)
        read, total = read + _count_read(native, events), total + len(events)
    assert read / total > 0.7


_TABLES = {
    "shop.public.customers": ("id INT, name STRING, city STRING, joined DATE", {}),
    "shop.public.oddities": (
        "id INT, fixed DECIMAL(38,10), free DECIMAL(38,3), money DECIMAL(10,2), day DATE, clock BIGINT, milli TIMESTAMP_NTZ, micro TIMESTAMP,"
        " zoned TIMESTAMP, bytes BINARY, document STRUCT<a: ARRAY<STRING>>, numbers ARRAY<INT>, words ARRAY<STRING>, size STRING, range STRING,"
        " flag BOOLEAN, single FLOAT, double DOUBLE, address STRING",
        {"milli": "Milliseconds"},
    ),
    "mysql.ware.oddities": (
        "id INT, tiny INT, small INT, big DECIMAL(20,0), signed_big BIGINT, flag BOOLEAN, year INT, fixed DECIMAL(38,10), single FLOAT,"
        " double_one DOUBLE, day DATE, second TIMESTAMP, milli TIMESTAMP, zoned TIMESTAMP, size STRING, bits BINARY, bit_one BOOLEAN, large BINARY,"
        " document STRUCT<a: ARRAY<INT>>, words STRING",
        {"second": "Milliseconds", "milli": "Milliseconds"},
    ),
}


@pytest.mark.parametrize("topic", _TABLES)
def test_events_of_a_real_debezium_are_read_as_by_spark_and_not_left_to_it(
    spark: SparkSession, topic: str
) -> None:
    ddl, units = _TABLES[topic]
    envelope = DebeziumEnvelope.model_validate({"columns": _ALL, "timestampUnits": units or None})
    records = list(read_topic(find_records(topic), topic))
    events = [(record.key, record.value, place) for place, record in enumerate(records)]
    native = _expect_equal(spark, events, build_change_events("events", ddl, envelope))
    truncations = sum(json.loads(value)["op"] == "t" for _, value, _ in events if value is not None)
    assert _count_read(native, events) == len(events) - truncations > 0


def _simple(ddl: str = "id BIGINT, name STRING") -> ChangeEvents:
    return build_change_events("events", ddl, DebeziumEnvelope.model_validate({"columns": _ALL}))


def _event(number: int) -> Event:
    after = {"id": number, "name": f"n{number}"}
    event = {
        "before": after,
        "after": after,
        "op": "u",
        "source": {"lsn": number, "ts_ms": number, "table": "t"},
    }
    return json.dumps({"id": number}).encode(), json.dumps(event).encode(), number


def test_rows_of_one_batch_do_not_share_what_they_hold(spark: SparkSession) -> None:
    native, _ = _parse(spark, [_event(number) for number in range(100)], _simple())
    assert _READER in get_plan(native).toString()
    (row,) = native.agg(f.collect_list("parsed.columns").alias("all")).collect()
    found = sorted((each.id, each.name, each.before_.name, each.version_.position) for each in row["all"])
    assert found == sorted((number, f"n{number}", f"n{number}", number) for number in range(100))


def test_one_malformed_event_among_many_is_explained_by_the_expressions(spark: SparkSession) -> None:
    events = [_event(1), (b"{}", b'{"op": "x"}', 2), (b"{}", b"{", 3), (None, None, 4), _event(5)]
    native, _ = _parse(spark, events, _simple())
    assert [row[0] for row in native.select("parsed.error").collect()] == [
        None,
        "unknown operation of a change event: op x",
        "value is not a JSON object with a change event",
        "a tombstone whose key has none of the columns",
        None,
    ]


def test_a_time_or_a_position_out_of_range_ends_no_query(spark: SparkSession) -> None:
    bounds = (-62_135_596_800_000, 253_402_300_799_000)
    odd = [bounds[0] - 1, bounds[1] + 1, -(2**63), 2**63 - 1, 10**17, 10**18]
    events: list[Event] = [
        (b'{"id":1}', json.dumps({"after": {"id": 1}, "op": "c", "source": {"ts_ms": ms}}).encode(), ms)
        for ms in [*bounds, *odd]
    ]
    native = _expect_equal(spark, events, _simple())
    assert [row.error for row in native.select("parsed.error").collect()] == [
        None,
        None,
        *(f"time of the change, source.ts_ms: {ms} is no TIMESTAMP" for ms in odd),
    ]
    source = {"file": f"binlog.{2**31 - 1}", "pos": 2**63 - 1}
    placed: Event = b'{"id":1}', json.dumps({"after": {"id": 1}, "op": "c", "source": source}).encode(), 1
    native = _expect_equal(spark, [placed], _simple())
    assert [tuple(row) for row in native.select("parsed.columns.position_", "parsed.error").collect()] == [
        (None, None)
    ]


def test_values_that_functions_of_java_refuse_are_left_to_spark(spark: SparkSession) -> None:
    ddl = "id BIGINT, bytes BINARY, fixed DECIMAL(10,2), words DECIMAL(10,2), at TIMESTAMP"
    for decimals, refused in (
        ("Base64", {"bytes": "a*b=", "fixed": "a*b=", "at": 2**62}),
        ("Text", {"bytes": "====", "words": "1.2.3", "fixed": "123456789012.5"}),
    ):
        envelope = {"columns": _ALL, "decimals": decimals, "timestampUnits": {"at": "Milliseconds"}}
        values = build_change_events("events", ddl, DebeziumEnvelope.model_validate(envelope))
        rows: list[dict[str, Any]] = [{"id": 1, name: value} for name, value in refused.items()]
        events: list[Event] = [
            (b'{"id":1}', json.dumps({"after": row, "op": "c"}).encode(), place)
            for place, row in enumerate([*rows, {"id": 1}])
        ]
        assert _count_read(_expect_equal(spark, events, values), events) == 1


def test_a_setting_or_a_type_that_the_module_does_not_know_leaves_all_to_spark(spark: SparkSession) -> None:
    unknown = _simple("id BIGINT, what VARIANT")
    assert explain_python_changes(spark, unknown) == "column what is VARIANT"
    native, by_spark = _parse(spark, [], unknown)
    assert native is by_spark
    spark.conf.set(NATIVE_CHANGES, "false")
    native, by_spark = _parse(spark, [], _simple())
    assert native is by_spark
    assert explain_python_changes(spark, _simple()) == f"{NATIVE_CHANGES} is false"


def test_fingerprints_have_the_expressions_in_place_of_the_call(spark: SparkSession) -> None:
    native, by_spark = _parse(spark, [], _simple())
    call = _find_call(native)
    assert _READER in call.toString()
    assert find_expression(call).sql() == _find_call(by_spark).sql()
    assert find_expression(_find_call(by_spark)).equals(_find_call(by_spark))


def test_a_query_continues_from_the_state_that_it_left_with_the_other_way_of_reading(
    spark: SparkSession, run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {"orders": topics.make("orders"), "out": topics.make("out")}
    envelope = {"debezium": {"columns": {"deleted": "deleted", "version": "version"}}}
    orders = {"name": "orders", "topic": "orders", "format": {"json": {"schema": "id BIGINT, name STRING"}}}
    view = {
        "name": "names",
        "sql": "SELECT name, sum(id) AS total, max(version.position) AS last FROM orders GROUP BY name",
    }
    spec = {
        "sources": [{**orders, "envelope": envelope}],
        "views": [{**view, "allowUnboundedState": True}],
        "sinks": [
            {"name": "out", "from": "names", "mode": "update", "kafka": {"topic": "out", "key": ["name"]}}
        ],
    }
    for generation, native in enumerate(("false", "true", "false"), start=1):
        spark.conf.set(NATIVE_CHANGES, native)
        key, value, _ = _event(generation)
        assert value is not None
        topics.write(names["orders"], [value.replace(f"n{generation}".encode(), b"n")], key=key)
        driver = run(build_revision(spec, checkpoint, broker.bootstrap, topics=names), generation)
        driver.wait_for("no lag", lambda p: p.state == "Running" and p.lag == 0 and bool(p.queries))
        (query,) = spark.streams.active
        plan = query._jsq.streamingQuery().lastExecution().optimizedPlan().toString()
        assert (_READER in plan) is (native == "true")
        assert driver.stop().graceful
    assert [(row["total"], row["last"]) for row in topics.values(names["out"])] == [(1, 1), (3, 2), (6, 3)]
