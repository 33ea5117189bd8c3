"""Joined tables of change events on real Spark and Kafka: the events that a real Debezium wrote, and drivers that are killed."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer

from kappa_crds.progress import DriverState
from kappa_pipelines.laptop.data import read_topic
from kappa_pipelines.laptop.records import Record
from lab.broker import Broker
from recorded.debezium import EXAMPLE, FOLDER, find_records
from spark.revisions import build_revision
from spark.topics import Topics

SOURCES = "customers", "orders", "items"


def _load(table: str) -> list[Record]:
    topic = f"shop.public.{table}"
    return list(read_topic(find_records(topic), topic))


def _write(topics: Topics, topic: str, records: Sequence[Record]) -> None:
    for record in records:
        topics.write(topic, [record.value], key=record.key)


@pytest.mark.chaos  # `tests/laptop/test_change_events.py` has the same comparison without Kafka
def test_joined_tables_end_as_those_of_the_database_though_drivers_are_killed(
    start: Any, topics: Any, broker: Broker, tmp_path: Path
) -> None:
    documents = yaml.load_all((EXAMPLE.parent / "pipeline.yaml").read_text(), yaml.CSafeLoader)
    spec = next(each for each in documents if each["kind"] == "Pipeline")["spec"] | {
        "trigger": {"maxRecords": 12}
    }
    names = {f"shop.public.{table}": topics.make(table, partitions=2) for table in SOURCES}
    names |= {each: topics.make(each) for each in ("orders-with-customers", "items-with-orders")}
    revision = build_revision(spec, f"file://{tmp_path / 'checkpoint'}", broker.bootstrap, topics=names)
    halves = {table: (records := _load(table), len(records) // 2) for table in SOURCES}
    for table, (records, half) in halves.items():
        _write(topics, names[f"shop.public.{table}"], records[:half])
    first = start(revision, 1)
    first.wait_for("a batch", lambda p: p.queries and p.queries[0].batch_id >= 0)
    first.kill()
    for table, (records, half) in halves.items():
        _write(topics, names[f"shop.public.{table}"], records[half:])
    second = start(revision, 2)
    second.wait_for("no lag", lambda p: p.state is DriverState.RUNNING and p.lag == 0 and len(p.queries) == 2)
    second.kill()
    _expect_rows(topics, names)


def _expect_rows(topics: Topics, names: dict[str, str]) -> None:
    rows = json.loads((FOLDER / "rows.json").read_text())
    customers = {row["id"]: row["name"] for row in rows["customers"]}
    assert _read_table(topics, names["orders-with-customers"], "name") == {
        row["id"]: customers.get(row["customer"]) for row in rows["orders"]
    }
    orders = {row["id"] for row in rows["orders"]}
    assert _read_table(topics, names["items-with-orders"], "order_id") == {
        row["id"]: row["order_id"] for row in rows["items"] if row["order_id"] in orders
    }


def _read_table(topics: Topics, topic: str, column: str) -> dict[int, Any]:
    """Return a column of the last row of each key."""
    last = {record.key(): record.value() for record in topics.read(topic)}
    found = [json.loads(value) for value in last.values() if value is not None]
    return {row["id"]: row.get(column) for row in found}


@pytest.mark.chaos  # seconds of copying; the limits are Spark's own
def test_a_row_of_85_megabytes_is_read(run: Any, broker: Broker, topics: Topics, tmp_path: Path) -> None:
    names = {"notes": topics.make("notes", 1, **{"max.message.bytes": "94371840"}), "out": topics.make("out")}
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 94_371_840})
    for number, size in enumerate((3, 85_000_000, 5)):
        after = {"id": number, "note": "x" * size}
        place = {"connector": "postgresql", "name": "shop", "ts_ms": 1, "lsn": number, "table": "notes"}
        event = {"before": None, "after": after, "source": place, "op": "c", "ts_ms": 1}
        producer.produce(names["notes"], key=json.dumps({"id": number}), value=json.dumps(event))
        assert producer.flush(60) == 0
    notes = {
        "name": "notes",
        "topic": "notes",
        "format": {"json": {"schema": "id BIGINT, note STRING"}},
        "envelope": {"debezium": {"columns": {"deleted": "deleted"}}},
    }
    spec = {
        "sources": [notes],
        "views": [{"name": "sizes", "sql": "SELECT id, length(note) AS size FROM notes"}],
        "sinks": [{"name": "out", "from": "sizes", "kafka": {"topic": "out"}}],
    }
    driver = run(build_revision(spec, f"file://{tmp_path / 'checkpoint'}", broker.bootstrap, topics=names))
    driver.wait_for("no lag", lambda p: p.state is DriverState.RUNNING and p.lag == 0 and bool(p.queries))
    assert driver.stop().graceful
    assert {row["id"]: row["size"] for row in topics.values(names["out"])} == {0: 3, 1: 85_000_000, 2: 5}
