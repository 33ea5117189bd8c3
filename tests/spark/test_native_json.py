"""JSON by the runtime's own module (ADR 79): it is used where it can be, and equals Spark's functions on whatever records."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StructType

from kappa_pipelines.revision.settings import NATIVE_JSON
from kappa_pipelines.sinks.kafka import JSON_OPTIONS
from kappa_pipelines.sources.text import CORRUPT, PERMISSIVE_JSON, describe_struct, read_text, with_corrupt
from kappa_pipelines.transforms.key_groups import JSON, unpack
from spark.json_values import make_fields, make_record, split_fields
from spark.revisions import build_revision, source

RECORDS = 250
_ZONES = "UTC", "Europe/Berlin", "America/New_York", "+05:30"
_FORMATS = None, None, JSON["timestampFormat"], "MM/dd/yyyy HH:mm", "yyyy-MM-dd'T'HH:mm:ss[.SSS]XXX"
_READER = "kappa.json.JsonReader"
_WRITER = "kappa.json.JsonWriter"
_WRITTEN: tuple[dict[str, str], ...] = (
    JSON_OPTIONS,
    JSON,
    {},
    {"ignoreNullFields": "false", "timestampFormat": "dd/MM/yyyy HH:mm:ss"},
)
_VALUES = (
    "double('NaN')", "float('-Infinity')", "double('Infinity')", "double(-0.0)", "double(1e7)", "double(9999999.0)", "double(0.001)", "double(0.0009)",
    "float(1e10)", "float(0.1)", "9223372036854775807", "-9223372036854775807 - 1", "tinyint(-128)", "smallint(-1)", "0", "10", "-99",
    "CAST(X'FF41C3' AS STRING)", "CAST(X'EDA080' AS STRING)", "'\\u0000\\u001f\\u007f \\\\ \" / zwölf 😀 \\u2028\\ufeff'", "repeat('é\\n', 3000)",
    "X''", "X'00FF10'", "X'000102'", "decimal(1.50)", "CAST('1E-18' AS DECIMAL(38,18))", "CAST(-12345678901234567890.5 AS DECIMAL(38,2))",
    "timestamp_micros(-1)", "timestamp_micros(0)", "timestamp_micros(-62135596800000000)", "timestamp_micros(-62135596800000001)",
    "timestamp_micros(253402300799999999)", "timestamp_micros(253402300800000000)", "timestamp_micros(9223372036854775807)",
    "timestamp'1883-11-18 12:00:00'", "timestamp'2021-03-28 01:30:00.5Z'", "date'0001-01-01'", "date_sub(date'0001-01-01', 1)", "date'9999-12-31'",
    "date_add(date'9999-12-31', 1)", "date'1600-02-29'", "date'1970-01-01'", "date'1969-12-31'", "date'2100-03-01'",
    "array(1, NULL)", "array()", "map('a', 1, 'ü\"', NULL)", "map('', named_struct('x', NULL))", "named_struct('x', NULL, 'größe', named_struct('a\"b', 1))",
    "array(named_struct('t', timestamp'2013-01-01 00:00:00Z'))", "array(array('x'), NULL)",
)  # fmt: skip


_TYPES = (
    "k BIGINT, v DOUBLE NOT NULL, ts TIMESTAMP, note STRING",
    "`a``b` INT, `select` ARRAY<STRUCT<`x y`: MAP<STRING, DECIMAL(10,2)>>>, `ü>` DATE COMMENT 'it\\'s > here', s STRUCT<A: INT NOT NULL, `2`: STRING>",
    "i INTERVAL DAY TO SECOND, n TIMESTAMP_NTZ, b BINARY, v VARIANT, c STRING COLLATE UTF8_LCASE",
)


def _try(count: int) -> settings:
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )


@pytest.fixture(autouse=True)
def restore(spark: SparkSession) -> Any:
    yield
    for name in (NATIVE_JSON, "spark.sql.session.timeZone", "spark.sql.legacy.timeParserPolicy"):
        spark.conf.unset(name)


@pytest.mark.parametrize("ddl", _TYPES)
def test_a_described_type_is_parsed_as_itself(spark: SparkSession, ddl: str) -> None:
    schema = with_corrupt(_columns(ddl))
    text = spark.sql("SELECT '' AS value")
    own, described = (text.select(f.from_json("value", each)) for each in (schema, describe_struct(schema)))
    assert described.schema.json() == own.schema.json()


def _columns(ddl: str) -> StructType:
    columns = DataType.fromDDL(ddl)
    assert isinstance(columns, StructType)
    return columns


def _parse(spark: SparkSession, values: list[bytes | None], ddl: str, **options: str) -> DataFrame:
    rows = spark.createDataFrame([(value,) for value in values], "value BINARY")
    schema = with_corrupt(_columns(ddl))
    return rows.select(f.from_json(read_text(), schema, PERMISSIVE_JSON | options).alias("parsed"))


def _plan(frame: DataFrame) -> Any:
    """The physical plan; a frame keeps its first one, whatever is set later."""
    return frame.select("*")._jdf.queryExecution().executedPlan()


def _read_both(spark: SparkSession, frame: DataFrame, expression: str = _READER) -> list[tuple[bytes, bytes]]:
    """The rows as Spark keeps them in memory, by the module and by Spark."""
    found = []
    for native in (True, False):
        spark.conf.set(NATIVE_JSON, str(native).lower())
        plan = _plan(frame)
        assert (expression in plan.toString()) is native
        found.append([bytes(row.getBytes()) for row in plan.executeCollect()])
    return list(zip(*found, strict=True))


def _compare_reading(spark: SparkSession, seed: int, zone: str, form: str | None) -> None:
    random = Random(seed)
    ddl = make_fields(random)
    values: list[bytes | None] = [make_record(random, *split_fields(ddl)) for _ in range(RECORDS)]
    spark.conf.set("spark.sql.session.timeZone", zone)
    options = {} if form is None else {"timestampFormat": form}
    pairs = _read_both(spark, _parse(spark, [*values, None], ddl, **options))
    assert [value for value, (own, other) in zip(values, pairs, strict=False) if own != other] == [], (
        ddl,
        zone,
        form,
    )
    assert len(pairs) == RECORDS + 1


@pytest.mark.parametrize("seed", range(5))
def test_any_record_of_any_schema_is_read_as_by_spark(spark: SparkSession, seed: int) -> None:
    _compare_reading(spark, seed, _ZONES[seed % 4], _FORMATS[seed])


@pytest.mark.chaos  # Spark compiles the code of each schema
@_try(25)
@given(seed=st.integers(0, 2**32), zone=st.sampled_from(_ZONES), form=st.sampled_from(_FORMATS))
def test_many_records_of_any_schema_are_read_as_by_spark(
    spark: SparkSession, seed: int, zone: str, form: str | None
) -> None:
    _compare_reading(spark, seed, zone, form)


def _count_read(spark: SparkSession, ddl: str, values: list[bytes]) -> int:
    """How many records the module reads without Spark's parser."""
    jvm: Any = spark._jvm
    schema = jvm.org.apache.spark.sql.types.DataType.fromJson(_columns(ddl).json())
    options = jvm.PythonUtils.toScalaMap(PERMISSIVE_JSON)
    expressions = jvm.org.apache.spark.sql.catalyst.expressions.json
    evaluator = expressions.JsonToStructsEvaluator(
        options, schema, CORRUPT, jvm.scala.Option.apply("UTC"), False
    )
    reader = jvm.kappa.json.JsonReader(evaluator, 10**6)
    text = jvm.org.apache.spark.unsafe.types.UTF8String
    return sum(reader.isRead(text.fromBytes(value)) for value in values)


def test_a_third_of_those_records_is_not_left_to_spark(spark: SparkSession) -> None:
    read = 0
    for seed in range(20):
        random = Random(seed)
        ddl = make_fields(random)
        read += _count_read(spark, ddl, [make_record(random, *split_fields(ddl)) for _ in range(50)])
    assert 0.25 < read / 1000 < 0.75


def test_usual_records_are_not_left_to_spark(spark: SparkSession) -> None:
    ddl = (
        "k BIGINT, i INT, s SMALLINT, b TINYINT, d DOUBLE, f FLOAT, n DECIMAL(12,2), t STRING, o BOOLEAN, day DATE, at TIMESTAMP,"
        " raw BINARY, l ARRAY<DOUBLE>, m MAP<STRING, STRING>, r STRUCT<x: INT, y: ARRAY<STRUCT<z: STRING>>>"
    )
    usual: dict[str, Any] = {
        "k": -(2**63), "i": 2**31 - 1, "s": -32768, "b": 127, "d": 2.5e-7, "f": 0.1, "n": 1234567890.12, "t": "zwölf \"x\" 😀",
        "o": True, "day": "2013-02-28", "at": "2013-01-01T05:15:00.5+01:00", "raw": "AAE=", "l": [1, 2.5, None], "m": {"a": "b", "c": None},
        "r": {"x": 1, "y": [{"z": None}, {"z": ""}]}, "unknown": [{"a": [True, False, None, 1e300]}],
    }  # fmt: skip
    others = [
        {**usual, "at": at}
        for at in ("2013-01-01", "2013-01-01 05:15:00", "2013-01-01T05:15:00Z", 1356998400)
    ]
    records = [usual, {**usual, "t": 42}, {}, dict.fromkeys(usual), dict(reversed(usual.items())), *others]
    written = [
        json.dumps(each, ensure_ascii=ascii_only).encode() for each in records for ascii_only in (True, False)
    ]
    assert _count_read(spark, ddl, written) == len(written)


def test_values_that_functions_of_java_refuse_are_left_to_spark(spark: SparkSession) -> None:
    ddl = "raw BINARY, n DECIMAL(5,2)"
    refused = [b'{"raw": "a*b="}', b'{"n": 123456.5}', b'{"n": 999.999}', b'{"n": 1e-2000000}']
    assert _count_read(spark, ddl, [*refused, b'{"n": 999.994}']) == 1
    assert all(own == other for own, other in _read_both(spark, _parse(spark, [*refused], ddl)))


def test_rows_of_one_batch_do_not_share_what_they_hold(spark: SparkSession) -> None:
    values: list[bytes | None] = [
        json.dumps({"t": f"t{n}", "s": {"x": n}, "l": [{"x": n}], "m": {"k": {"x": n}}}).encode()
        for n in range(100)
    ]
    ddl = "t STRING, s STRUCT<x: INT>, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, STRUCT<x: INT>>"
    parsed = _parse(spark, values, ddl)
    assert _READER in _plan(parsed).toString()
    gathered = parsed.agg(
        f.collect_list("parsed").alias("all"), f.max_by("parsed", "parsed.s.x").alias("last")
    )
    (row,) = gathered.collect()
    found = sorted((each.t, each.s.x, each.l[0].x, each.m["k"].x) for each in row["all"])
    assert found == sorted((f"t{n}", n, n, n) for n in range(100))
    assert (row["last"].t, row["last"].s.x) == ("t99", 99)
    texts = f.transform(
        f.array(f.lit('{"t": "a"}'), f.lit('{"t": "b"}'), f.col("parsed.t")),
        lambda text: f.from_json(text, "t STRING"),
    )
    assert [[each and each.t for each in row[0]] for row in parsed.select(texts).limit(2).collect()] == [
        ["a", "b", None]
    ] * 2


@pytest.mark.parametrize(
    "column",
    [
        "from_json(value, 'array<int>')",
        "from_json(value, 'a INT', map('allowComments', 'true'))",
        "from_json(value, 'a INT, b VARIANT')",
        "from_json(value, 'a TIMESTAMP_NTZ')",
        "from_json(value, 'a STRUCT<b: INTERVAL DAY>')",
    ],
)
def test_what_the_module_does_not_read_is_left_to_spark(spark: SparkSession, column: str) -> None:
    rows = spark.createDataFrame([("{}",)], "value STRING")
    assert _READER not in _plan(rows.selectExpr(column)).toString()
    assert _READER in _plan(rows.selectExpr("from_json(value, 'a INT, b STRUCT<c: STRING>')")).toString()


def test_what_tables_pack_into_their_state_is_not_left_to_spark(spark: SparkSession) -> None:
    kind = _columns("a INT, at TIMESTAMP, version STRUCT<position: BIGINT, unavailable: ARRAY<STRING>>")
    rows = spark.createDataFrame([], kind)
    packed = rows.select(f.to_json(f.struct("*"), JSON).alias("body"))
    plan = _plan(packed.select(unpack(f.col("body"), kind), "body")).toString()
    assert _READER in plan and _WRITER in plan and "StructsToJsonEvaluator" not in plan


def test_old_rules_for_times_are_left_to_spark(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.legacy.timeParserPolicy", "LEGACY")
    rows = spark.createDataFrame([("{}",)], "value STRING")
    assert _READER not in _plan(rows.selectExpr("from_json(value, 'a TIMESTAMP')")).toString()


def test_limits_of_texts_are_those_of_spark(spark: SparkSession) -> None:
    values: list[bytes | None] = [b'{"a": "' + b"x" * size + b'"}' for size in (0, 4, 5, 6, 100)]
    pairs = _read_both(spark, _parse(spark, values, "a STRING", maxStringLen="5"))
    assert all(own == other for own, other in pairs)


def _compare_writing(spark: SparkSession, seed: int, zone: str, options: dict[str, str]) -> None:
    random = Random(seed)
    ddl = make_fields(random)
    values: list[bytes | None] = [make_record(random, *split_fields(ddl)) for _ in range(RECORDS)]
    spark.conf.set("spark.sql.session.timeZone", zone)
    texts = _parse(spark, values, ddl).select(f.to_json("parsed", options))
    pairs = _read_both(spark, texts, _WRITER)
    assert [(own, other) for own, other in pairs if own != other] == [], (ddl, zone, options)


@pytest.mark.parametrize("seed", range(4))
def test_any_row_of_any_schema_is_written_as_by_spark(spark: SparkSession, seed: int) -> None:
    _compare_writing(spark, seed, _ZONES[seed], _WRITTEN[seed])


@pytest.mark.chaos
@_try(15)
@given(seed=st.integers(0, 2**32), zone=st.sampled_from(_ZONES), options=st.sampled_from(_WRITTEN))
def test_many_rows_of_any_schema_are_written_as_by_spark(
    spark: SparkSession, seed: int, zone: str, options: dict[str, str]
) -> None:
    _compare_writing(spark, seed, zone, options)


@pytest.mark.parametrize(
    ("zone", "options"),
    [
        pytest.param(zone, options, marks=() if zones == texts else pytest.mark.chaos)
        for zones, zone in enumerate(_ZONES)
        for texts, options in enumerate(_WRITTEN)
    ],
)
def test_values_at_their_bounds_are_written_as_by_spark(
    spark: SparkSession, zone: str, options: dict[str, str]
) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    # Spark would compute constants while it plans.
    made = (
        spark.range(1)
        .selectExpr(*[f"{value} AS `c{number}`" for number, value in enumerate(_VALUES)])
        .persist()
    )
    both = [f.to_json(f.struct(name), options).alias(name) for name in made.columns]
    roots = [
        f.to_json(f"c{number}", options)
        for number, value in enumerate(_VALUES)
        if value.startswith(("array", "map"))
    ]
    (pair,) = _read_both(spark, made.select(*both, *roots, f.to_json(f.struct("*"), options)), _WRITER)
    made.unpersist()
    assert pair[0] == pair[1]


@pytest.mark.parametrize(
    "column",
    [
        "to_json(struct(a), map('pretty', 'true'))",
        "to_json(map(a, a))",
        "to_json(struct(NULL AS b))",
        "to_json(struct(CAST('2013-01-01' AS TIMESTAMP_NTZ) AS b))",
        "to_json(struct(INTERVAL '1' DAY AS b))",
    ],
)
def test_what_the_module_does_not_write_is_left_to_spark(spark: SparkSession, column: str) -> None:
    rows = spark.createDataFrame([(1,)], "a INT")
    assert _WRITER not in _plan(rows.selectExpr(column)).toString()
    assert _WRITER in _plan(rows.selectExpr("to_json(struct(a))")).toString()


def test_a_query_continues_from_the_state_that_it_left_with_the_other_way_of_reading(
    spark: SparkSession, run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {"flights": topics.make("flights"), "out": topics.make("out")}
    view = {"name": "sums", "sql": "SELECT k, sum(v) AS total, max(ts) AS last FROM flights GROUP BY k"}
    spec = {
        "sources": [source()],
        "views": [{**view, "allowUnboundedState": True}],
        "sinks": [{"name": "out", "from": "sums", "mode": "update", "kafka": {"topic": "out", "key": ["k"]}}],
    }
    for generation, native in enumerate(("false", "true", "false"), start=1):
        spark.conf.set(NATIVE_JSON, native)
        topics.write(
            names["flights"], [f'{{"k":1,"v":{generation}.5,"ts":"2013-01-0{generation}T00:00:00Z"}}']
        )
        driver = run(build_revision(spec, checkpoint, broker.bootstrap, topics=names), generation)
        driver.wait_for("no lag", lambda p: p.state == "Running" and p.lag == 0 and bool(p.queries))
        (query,) = spark.streams.active
        plan = query._jsq.streamingQuery().lastExecution().optimizedPlan().toString()
        assert [name in plan for name in (_READER, _WRITER)] == [native == "true"] * 2
        assert driver.stop().graceful
    rows = [(row["total"], row["last"]) for row in topics.values(names["out"])]
    assert rows == [
        (total, f"2013-01-0{day}T00:00:00.000000Z") for day, total in ((1, 1.5), (2, 4.0), (3, 7.5))
    ]
