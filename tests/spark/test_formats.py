"""Values that are no JSON: lines of CSV with what is wrong with them, and values as they are."""

import base64
from pathlib import Path
from typing import Any

from spark.revisions import build_revision

_SCHEMA = "faa STRING, lat DOUBLE, since DATE, open BOOLEAN"

# What is written, and the error of its dead letter.
_WRONG: dict[str | None, str] = {
    "EWR;far north;1928-10-01;true": "column lat: far north is not a DOUBLE",
    "EWR;40.7;long ago;perhaps": "column since: long ago is not a DATE; column open: perhaps is not a BOOLEAN",
    "EWR;40.7": "value does not have the 4 fields that the schema declares",
    "EWR;40.7;1928-10-01;true;more": "value does not have the 4 fields that the schema declares",
    "": "value is empty",
    None: "value is null",
}


def test_lines_of_csv_become_columns_and_malformed_ones_dead_letters_with_the_error(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name) for name in ("airports", "out", "dead")}
    good = ["EWR;40.7;1928-10-01;true", '"La; Guardia";-;1939-10-15;false', "JFK;;;"]
    topics.write(names["airports"], [*good, *_WRONG], key="same")
    csv = {"schema": _SCHEMA, "separator": ";", "nullValue": "-"}
    spec = {
        "sources": [{"name": "airports", "topic": "airports", "format": {"csv": csv}}],
        "sinks": [{"name": "out", "from": "airports", "kafka": {"topic": "out"}}],
        "deadLetter": "dead",
    }
    driver = run(build_revision(spec, checkpoint, broker.bootstrap, topics=names))
    driver.wait_for("dead letters", lambda p: p.dead_lettered == len(_WRONG))
    assert driver.stop().graceful
    assert topics.values(names["out"]) == [
        {"faa": "EWR", "lat": 40.7, "since": "1928-10-01", "open": True},
        {"faa": "La; Guardia", "lat": None, "since": "1939-10-15", "open": False},
        {"faa": "JFK", "lat": None, "since": None, "open": None},
    ]
    errors = sorted(dict(m.headers())["kappa.error"].decode() for m in topics.read(names["dead"]))
    assert errors == sorted(_WRONG.values())


def test_a_raw_value_is_taken_as_it_is(run: Any, broker: Any, topics: Any, checkpoint: Path) -> None:
    names = {name: topics.make(name) for name in ("lines", "odd", "out", "copies", "copies-once", "dead")}
    written, odd = ["{", "", None, "zwölf"], [b"\xff\x00\xfe", b"", None, b"{"]
    topics.write(names["lines"], written, key="same")
    topics.write(names["odd"], odd, key="same")
    spec = {
        "sources": [
            {"name": "lines", "topic": "lines", "format": {"raw": {"column": "line", "type": "STRING"}}},
            {"name": "bytes", "topic": "lines", "format": {"raw": {}}},
            {"name": "odd", "topic": "odd", "format": {"raw": {}}, "recordColumns": {"key": "k"}},
        ],
        "views": [
            {
                "name": "both",
                "sql": "SELECT 's' AS kind, line, NULL AS value FROM lines"
                " UNION ALL SELECT 'b', NULL, value FROM bytes",
            }
        ],
        "sinks": [
            {"name": "out", "from": "both", "kafka": {"topic": "out"}},
            {"name": "copies", "from": "odd", "kafka": {"topic": "copies", "raw": "value", "key": ["k"]}},
            {
                "name": "once",
                "from": "odd",
                "kafka": {"topic": "copies-once", "raw": "value", "key": ["k"], "delivery": "ExactlyOnce"},
            },
        ],
        "deadLetter": "dead",
    }
    driver = run(build_revision(spec, checkpoint, broker.bootstrap, topics=names))
    driver.wait_for("all records", lambda p: p.lag == 0 and len(p.queries) == 3 and p.state == "Running")
    assert driver.stop().graceful
    found = topics.values(names["out"])
    assert [row["line"] for row in found if row["kind"] == "s"] == written
    assert [row["value"] for row in found if row["kind"] == "b"] == [
        None if text is None else base64.b64encode(text.encode()).decode() for text in written
    ]
    for topic in (names["copies"], names["copies-once"]):
        assert [message.value() for message in topics.read_committed(topic) if message.key()] == odd
    assert topics.read(names["dead"]) == []
