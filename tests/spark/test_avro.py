"""Avro on real Spark and Kafka: every kind of type, schemas that evolve, schemas that come later, and bytes that are none."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from kappa_crds.reasons import Reason
from kappa_pipelines.errors import SpecError
from kappa_pipelines.registry.subject import Reference, Registered, Subject
from kappa_pipelines.sources.avro import build_bare, build_framed
from lab.registry import RegistryDouble
from spark.avro_values import record, write_bare, write_framed
from spark.revisions import build_revision

ALL_TYPES = record(
    {"name": "sensor", "type": "string"},
    {"name": "mean", "type": ["null", "double"], "default": None},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["ON", "OFF"]}},
    {
        "name": "place",
        "type": record({"name": "lat", "type": "float"}, {"name": "tags", "type": {"type": "array", "items": "string"}}, name="Place"),
    },
    {"name": "counts", "type": {"type": "map", "values": "int"}},
)  # fmt: skip
READING = {
    "sensor": "ä",
    "mean": 1.5,
    "at": datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC),
    "day": date(2026, 1, 2),
    "price": Decimal("12.34"),
    "state": "OFF",
    "place": {"lat": 0.5, "tags": ["a", "b"]},
    "counts": {"x": 1},
}
ROW = {
    **READING,
    "at": "2026-01-02T03:04:05.678000Z",
    "day": "2026-01-02",
    "price": 12.34,
}


_HUGE = 1_048_400  # a topic takes a value of this size, and no letter with it


def _avro(avro: dict[str, Any], **reads: Any) -> dict[str, Any]:
    return {
        "sources": [{"name": "readings", "format": {"avro": avro}, **reads}],
        "sinks": [{"name": "out", "from": "readings", "kafka": {"topic": "out"}}],
        "deadLetter": "dead",
    }


def _errors(topics: Any, topic: str) -> list[str]:
    return sorted(dict(m.headers())["kappa.error"].decode() for m in topics.read(topic))


def test_bare_avro_of_every_type_becomes_columns_and_other_bytes_dead_letters_with_the_error(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name, 1) for name in ("readings", "out", "dead")}
    good = write_bare(ALL_TYPES, READING)
    bare = f"the {len(good)} bytes are no Avro record of the declared schema"
    wrong = {
        good[:-1]: f"the {len(good) - 1} bytes are no Avro record of the declared schema: they end before the record does",
        good + b"\0": f"the {len(good) + 1} bytes are no Avro record of the declared schema: more bytes follow after the record",
        b"\xff" * len(good): bare,
        # A text of 2 GiB, and a list of two thousand million: lengths that no machine should try to make room for.
        b"\xfe\xff\xff\xff\x0f" + good[5:]: bare,
        good[:-4] + b"\xfe\xff\xff\xff\x0f": f"the {len(good) + 1} bytes are no Avro record of the declared schema",
        b"\xff" * _HUGE: f"the {_HUGE} bytes are no Avro record of the declared schema",
        b"": "value is empty",
        None: "value is null",
    }  # fmt: skip
    absent = write_bare(ALL_TYPES, {**READING, "mean": None})
    topics.write(names["readings"], [good, *wrong, absent])
    driver = run(
        build_revision(
            _avro({"schema": json.dumps(ALL_TYPES)}, topic="readings"),
            checkpoint,
            broker.bootstrap,
            topics=names,
        )
    )
    driver.wait_for("dead letters", lambda p: p.dead_lettered == len(wrong))
    assert driver.stop().graceful
    assert topics.values(names["out"]) == [ROW, {**ROW, "mean": None}]
    assert _errors(topics, names["dead"]) == sorted(wrong.values())
    cut = [m for m in topics.read(names["dead"]) if "kappa.size" in dict(m.headers())]
    assert [(dict(m.headers())["kappa.size"], len(m.value()) < _HUGE) for m in cut] == [(b"%d" % _HUGE, True)]


V1 = record({"name": "sensor", "type": "string"}, {"name": "n", "type": "int"})
V2 = record(
    {"name": "n", "type": "long"},
    {"name": "sensor", "type": "string"},
    {"name": "unit", "type": "string", "default": "m"},
)
V3 = record(*V2["fields"], {"name": "new", "type": "boolean"})


def test_records_of_all_versions_are_read_as_one_and_a_schema_that_comes_later_loses_no_record(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name, 1) for name in ("readings", "more", "out", "dead")}
    subject = "plant.Reading"
    with RegistryDouble() as registry:
        first, second = registry.register(subject, V1), registry.register(subject, V2)
        registry.delete(subject, 1)
        reads = {"topics": ["readings", "more"], "tombstones": "gone"}
        spec = _avro({"registry": {"url": registry.url, "subject": subject}}, **reads)
        revision = build_revision(spec, checkpoint, broker.bootstrap, topics=names)
        good = [write_framed(first, V1, {"sensor": "a", "n": 1}), write_framed(second, V2, {"sensor": "b", "n": 2, "unit": "km"})]  # fmt: skip
        wrong = {
            b"\0\0": "value has 2 bytes, and the schema id that it should start with takes 5",
            b'{"sensor": 1}': "value starts with byte 7B, and one with a schema id starts with 00",
            good[1][:-1]: f"the 5 bytes are no Avro record of schema id {second} (version 2 of subject {subject}): they end before the record does",
        }  # fmt: skip
        topics.write(names["readings"], [good[0], *wrong])
        topics.write(names["more"], [good[1], None])
        driver = run(revision)
        driver.wait_for("dead letters", lambda p: p.dead_lettered == len(wrong))
        rows = [_row(1, "a"), _row(2, "b", "km"), _row(None, None, None, gone=True)]
        assert _by_n(topics.values(names["out"])) == rows

        third = registry.register(subject, V3)
        nobody = (4711).to_bytes(5, "big")
        topics.write(names["more"], [_framed_v3(third, 3), nobody, _framed_v3(third, 4)])
        failure = driver.failure()
        assert (failure.reason, failure.retryable) == (Reason.SCHEMA_ADDED, True)
        assert _by_n(topics.values(names["out"])) == rows

        driver = run(revision, generation=2)
        driver.wait_for("the wrong id", lambda p: p.dead_lettered >= 1)
        assert driver.stop().graceful
    # The columns stay those of the version that was the latest at the first start.
    *first_rows, tombstone = rows
    assert _by_n(topics.values(names["out"])) == [*first_rows, _row(3, "c"), _row(4, "c"), tombstone]
    unknown = f"schema id 4711 is no version of subject {subject} in the registry"
    assert _errors(topics, names["dead"]) == sorted([*wrong.values(), unknown])


def _row(n: int | None, sensor: str | None, unit: str | None = "m", *, gone: bool = False) -> dict[str, Any]:
    return {"n": n, "sensor": sensor, "unit": unit, "gone": gone}


def _by_n(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["n"] is None, row["n"]))


def _framed_v3(id_: int, n: int) -> bytes:
    return write_framed(id_, V3, {"sensor": "c", "n": n, "unit": "m", "new": True})


def test_a_schema_is_read_with_those_that_it_refers_to(spark: SparkSession) -> None:
    unit = {"type": "enum", "name": "plant.Unit", "symbols": ["M", "KM"]}
    place = record({"name": "height", "type": "int"}, {"name": "unit", "type": "Unit"}, name="Place")
    reading = record({"name": "start", "type": "Place"}, {"name": "unit", "type": "plant.Unit"})
    texts = [json.dumps(schema) for schema in (unit, place, reading)]
    registered = Registered(1, 1, texts[2], tuple(Reference("", text) for text in texts[:2]))
    values = build_framed("readings", Subject("readings", (registered,), registered))
    assert values.schema.simpleString() == "struct<start:struct<height:int,unit:string>,unit:string>"


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ('{"type": "record"}', "No name in schema"),
        ("{", "Unexpected end-of-input"),
        (json.dumps(record({"name": "next", "type": ["null", "Reading"]})), "recursive"),
        (
            json.dumps(record({"name": "a", "type": "int"}, {"name": "A", "type": "int"})),
            "only in case: A, a",
        ),
        ('{"type":"array","items":' * 990 + '"int"' + "}" * 990, r"too deep|depth"),
    ],
    ids=[
        "no schema",
        "no JSON",
        "a schema that contains itself",
        "columns that SQL cannot tell apart",
        "too deep",
    ],
)
def test_an_unusable_schema_is_reported_with_its_source(spark: SparkSession, schema: str, words: str) -> None:
    with pytest.raises(SpecError, match=words) as raised:
        build_bare("readings", schema)
    assert raised.value.reason is Reason.INVALID_SCHEMA
    assert raised.value.message.startswith("source 'readings': ")


def test_a_value_that_is_no_record_is_one_column(spark: SparkSession) -> None:
    values = build_bare("lines", '"string"')
    rows = spark.createDataFrame([(write_bare("string", "a"),), (b"\x09",)], "value BINARY")
    parsed = rows.select("value", values.parse(alert=True).alias("parsed"))
    read = parsed.select(values.columns(f.col("parsed")).alias("row"), values.is_malformed(f.col("parsed")))
    assert read.select("row.*").collect() == [("a",), (None,)]
    assert [row[1] for row in read.collect()] == [False, True]
