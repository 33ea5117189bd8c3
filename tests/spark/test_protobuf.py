"""Protobuf on real Spark and Kafka: kinds of fields, schemas that evolve, schemas that come later, and bytes that are none."""

from pathlib import Path
from typing import Any

import pytest

from kappa_crds.reasons import Reason
from lab.registry import RegistryDouble
from spark.protobuf_values import build_schema, write_framed, write_message
from spark.revisions import build_revision

SCHEMA = """
syntax = "proto3";
package plant;
import "google/protobuf/timestamp.proto";
message Reading {
  enum State { OFF = 0; ON = 1; }
  message Place { double lat = 1; repeated string tags = 2; }
  string sensor = 1; optional double mean = 2; uint64 total = 3; State state = 4; Place place = 5; map<string, int32> counts = 6;
  bytes raw = 7; google.protobuf.Timestamp at = 8; oneof how { string name = 9; int64 number = 10; }
}
"""
READING = {
    "sensor": "ä",
    "mean": 1.5,
    "total": "18446744073709551615",
    "state": "ON",
    "place": {"lat": 0.5, "tags": ["a", "b"]},
    "counts": {"x": 1},
    "raw": "AQI=",
    "at": "2026-01-02T03:04:05.678Z",
    "number": 0,
}
ROW = {**READING, "total": 18446744073709551615, "at": "2026-01-02T03:04:05.678000Z", "name": None}
NOTHING: dict[str, Any] = {
    "sensor": "", "mean": None, "total": 0, "state": "OFF", "place": None, "counts": {}, "raw": "", "at": None, "name": None, "number": None,
}  # fmt: skip
_HUGE = 1_048_400  # a topic takes a value of this size, and no letter with it


def _protobuf(protobuf: dict[str, Any], **reads: Any) -> dict[str, Any]:
    return {
        "sources": [{"name": "readings", "format": {"protobuf": protobuf}, **reads}],
        "sinks": [{"name": "out", "from": "readings", "kafka": {"topic": "out"}}],
        "deadLetter": "dead",
    }


def _errors(topics: Any, topic: str) -> list[str]:
    return sorted(dict(m.headers())["kappa.error"].decode() for m in topics.read(topic))


def test_bare_messages_become_columns_and_other_bytes_dead_letters_with_the_error(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name, 1) for name in ("readings", "out", "dead")}
    good = write_message(build_schema(SCHEMA, "plant.Reading"), READING)
    wrong = {
        good[:-1]: f"the {len(good) - 1} bytes are no plant.Reading: wire format was corrupt",
        b"\x08\x01": "the 2 bytes are no plant.Reading: field sensor (1) is a varint, and the schema wants bytes with a length",
        b"\xff" * _HUGE: f"the {_HUGE} bytes are no plant.Reading: wire format was corrupt",
        None: "value is null",
    }  # fmt: skip
    topics.write(names["readings"], [good, *wrong, b""])
    spec = _protobuf({"schema": SCHEMA, "message": "plant.Reading"}, topic="readings")
    driver = run(build_revision(spec, checkpoint, broker.bootstrap, topics=names))
    driver.wait_for("dead letters", lambda p: p.dead_lettered == len(wrong))
    assert driver.stop().graceful
    assert topics.values(names["out"]) == [ROW, NOTHING]
    assert _errors(topics, names["dead"]) == sorted(wrong.values())


HEAD = 'syntax = "proto3"; package plant; '
V1 = HEAD + "message Reading { string sensor = 1; int32 n = 2; }"
V2 = (
    HEAD
    + 'import "plant/unit.proto"; message Other {} message Reading { string sensor = 1; int64 n = 2; Unit unit = 3; }'
)
V3 = V2.replace("Unit unit = 3;", "Unit unit = 3; bool fresh = 4;")
UNIT = HEAD + "enum Unit { M = 0; KM = 1; }"
SECOND = b"\x02\x02"  # the indexes of the second message


def _by_n(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["n"] is None, row["n"]))


@pytest.mark.chaos  # `make test` has the same story in Avro, and versions read as one in the unit tests
def test_messages_of_all_versions_are_read_as_one_and_a_schema_that_comes_later_loses_no_record(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name, 1) for name in ("readings", "out", "dead")}
    with RegistryDouble() as registry:
        registry.register("unit", UNIT, kind="PROTOBUF")
        refer = [{"name": "plant/unit.proto", "subject": "unit", "version": 1}]
        subject = f"{names['readings']}-value"
        first = registry.register(subject, V1, kind="PROTOBUF")
        second = registry.register(subject, V2, kind="PROTOBUF", references=refer)
        one = build_schema(V1, "plant.Reading")
        newer = build_schema(
            V3.replace('import "plant/unit.proto";', "") + UNIT.removeprefix(HEAD), "plant.Reading"
        )
        reads = {"topic": "readings", "tombstones": "gone"}
        spec = _protobuf({"registry": {"url": registry.url}, "message": "plant.Reading"}, **reads)
        revision = build_revision(spec, checkpoint, broker.bootstrap, topics=names)
        good = [
            write_framed(first, one, {"sensor": "a", "n": 1}),
            write_framed(second, newer, {"sensor": "b", "n": 2, "unit": "KM"}, SECOND),
        ]
        wrong = {
            b"\0\0": "value has 2 bytes, and the schema id that it should start with takes 5",
            b'{"sensor": 1}': "value starts with byte 7B, and one with a schema id starts with 00",
            good[1][:5] + b"\0": "value is a plant.Other, but the source reads plant.Reading",
            good[1][:-1]: "the 6 bytes are no plant.Reading: wire format was corrupt",
        }
        topics.write(names["readings"], [good[0], *wrong, good[1], None])
        driver = run(revision)
        driver.wait_for("dead letters", lambda p: p.dead_lettered == len(wrong))
        rows = [_row(1, "a", "M"), _row(2, "b", "KM"), _row(None, None, None, gone=True)]
        assert _by_n(topics.values(names["out"])) == rows

        third = registry.register(subject, V3, kind="PROTOBUF", references=refer)
        fresh = write_framed(third, newer, {"sensor": "c", "n": 3, "fresh": True}, SECOND)
        topics.write(names["readings"], [fresh, (4711).to_bytes(5, "big")])
        failure = driver.failure()
        assert (failure.reason, failure.retryable) == (Reason.SCHEMA_ADDED, True)

        driver = run(revision, generation=2)
        driver.wait_for("the wrong id", lambda p: p.dead_lettered >= 1)
        assert driver.stop().graceful
    *first_rows, tombstone = rows
    assert _by_n(topics.values(names["out"])) == [*first_rows, _row(3, "c", "M"), tombstone]
    unknown = f"schema id 4711 is no version of subject {subject} in the registry"
    assert _errors(topics, names["dead"]) == sorted([*wrong.values(), unknown])


def _row(n: int | None, sensor: str | None, unit: str | None, *, gone: bool = False) -> dict[str, Any]:
    return {"n": n, "sensor": sensor, "unit": unit, "gone": gone}
