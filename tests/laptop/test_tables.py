"""Tables as a topic has them: the last record of a key is its row, and a tombstone deletes it."""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kappa_crds import API_VERSION
from kappa_pipelines.laptop.compare import read_rows
from kappa_pipelines.laptop.records import Record
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.runs import LocalRun
from kappa_pipelines.laptop.session import start_spark

MANIFEST: dict[str, Any] = {
    "apiVersion": API_VERSION,
    "kind": "Pipeline",
    "metadata": {"namespace": "test", "name": "fleet"},
    "spec": {
        "sources": [
            {
                "name": "flights",
                "topic": "flights",
                "format": {"json": {"schema": "flight INT, tailnum STRING, at TIMESTAMP"}},
                "eventTime": {"column": "at", "watermark": "1h"},
            },
            {
                "name": "planes",
                "topic": "planes",
                "format": {"json": {"schema": "seats INT"}},
                "recordColumns": {"key": "tail", "offset": "position"},
                "tombstones": "gone",
            },
        ],
        "views": [
            {
                "name": "seated",
                "lookup": {
                    "from": "flights",
                    "table": {"from": "planes", "order": "position", "deleted": "gone"},
                    "key": {"tailnum": "tail"},
                    "columns": {"seats": "seats"},
                },
            },
            {
                "name": "hourly",
                "window": {"from": "seated", "tumbling": "1h", "aggregates": {"seats": "sum(seats)"}},
            },
        ],
        "sinks": [
            {"name": "hourly", "from": "hourly", "kafka": {"topic": "hourly"}},
            {"name": "seated", "from": "seated", "kafka": {"topic": "seated"}},
            {
                "name": "copy",
                "from": "planes",
                "kafka": {"topic": "copy", "key": ["tail"], "tombstones": "gone"},
            },
        ],
    },
}


def flight(number: int, tailnum: str | None) -> Record:
    at = f"2026-01-01T00:{number:02}:00Z"
    return Record(json.dumps({"flight": number, "tailnum": tailnum, "at": at}).encode())


def plane(tail: str, seats: int | None) -> Record:
    return Record(None if seats is None else json.dumps({"seats": seats}).encode(), key=tail.encode())


def test_an_event_finds_the_present_row_and_none_after_its_tombstone(
    spark: SparkSession, tmp_path: Path
) -> None:
    revision = build_local_revision(MANIFEST)
    run = LocalRun(start_spark(revision), revision, tmp_path)
    run.feed({"planes": [plane("N1", 100), plane("N2", 200)], "flights": [flight(1, "N1"), flight(2, None)]})
    assert run.crash()
    run.feed({"planes": [plane("N1", 101), plane("N2", None)], "flights": [flight(3, "N1"), flight(4, "N2")]})
    run.end()
    run.process()
    sinks = {sink.name: sink for sink in revision.spec.sinks}
    seated = read_rows(run.outputs("seated"), sinks["seated"])
    assert sorted((row["flight"], row["seats"]) for row in seated) == [
        (1, 100),
        (2, None),
        (3, 101),
        (4, None),
    ]
    assert [(output.key, output.value) for output in run.outputs("copy")][-1] == ("N2", None)
    copied = read_rows(run.outputs("copy"), sinks["copy"])
    assert [(row["tail"], row["seats"]) for row in copied] == [("N1", 101)]
    hourly = read_rows(run.outputs("hourly"), sinks["hourly"])
    assert [(row["window_start"], row["seats"]) for row in hourly] == [("2026-01-01T00:00:00.000000Z", 201)]
    assert run.letters() == []
