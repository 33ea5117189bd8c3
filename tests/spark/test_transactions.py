"""Topics that are written in Kafka's transactions: which of their records a pipeline reads."""

import json
import random
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from lab.broker import Broker
from lab.transactions import end_transaction
from spark.revisions import build_revision, source

COPY: dict[str, Any] = {
    "sources": [source("events", "k BIGINT")],
    "sinks": [{"name": "out", "from": "events", "kafka": {"topic": "out"}}],
    "deadLetter": "dead",
}


def write(topics: Any, topic: str, values: list[str], *, commit: bool | None) -> Producer:
    """Write the values in a transaction, which is left open where `commit` is None."""
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value=value)
    producer.flush(30)
    if commit is not None:
        end_transaction(producer, topics.admin, topic, commit=commit)
    return producer


def encode(*keys: int) -> list[str]:
    return [json.dumps({"k": key}) for key in keys]


def specify(**fields: Any) -> dict[str, Any]:
    return {**COPY, "sources": [{**COPY["sources"][0], **fields}]}


@pytest.mark.parametrize(
    ("fields", "rows", "letters"),
    [({}, [1, 2, 7, 8], 1), ({"isolationLevel": "ReadUncommitted"}, [1, 2, 5, 6, 7, 8], 2)],
    ids=["committed", "uncommitted"],
)
def test_records_of_aborted_transactions_are_read_only_if_configured(
    run: Any,
    broker: Broker,
    topics: Any,
    checkpoint: Path,
    fields: dict[str, Any],
    rows: list[int],
    letters: int,
) -> None:
    names = {name: topics.make(name, partitions=1) for name in ("events", "out", "dead")}
    write(topics, names["events"], encode(1, 2), commit=True)
    write(topics, names["events"], [*encode(5, 6), "aborted and no JSON"], commit=False)
    write(topics, names["events"], [*encode(7, 8), "no JSON"], commit=True)
    driver = run(build_revision(specify(**fields), checkpoint, broker.bootstrap, topics=names))
    driver.wait_for("no lag", lambda p: p.lag == 0 and p.queries and p.queries[0].batch_id >= 0)
    driver.wait_for("dead letters", lambda p: p.dead_lettered == letters)
    assert driver.stop().graceful
    assert [row["k"] for row in topics.values(names["out"])] == rows
    assert len(topics.read(names["dead"])) == letters


def test_an_open_transaction_holds_back_its_records_until_it_is_committed(
    run: Any, broker: Broker, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name, partitions=1) for name in ("events", "out", "dead")}
    write(topics, names["events"], encode(1), commit=True)
    open_one = write(topics, names["events"], encode(2), commit=None)
    driver = run(build_revision(COPY, checkpoint, broker.bootstrap, topics=names))
    driver.wait_for("no lag", lambda p: p.lag == 0 and p.queries and p.queries[0].batch_id >= 0)
    assert [row["k"] for row in topics.values(names["out"])] == [1]
    open_one.commit_transaction(30)
    driver.wait_for("the record", lambda p: len(topics.values(names["out"])) == 2)
    assert driver.stop().graceful


@pytest.mark.chaos
def test_two_pipelines_that_write_exactly_once_in_a_row_count_each_record_once_though_both_are_killed(
    start: Any, broker: Broker, topics: Any, tmp_path: Path
) -> None:
    names = {name: topics.make(name, partitions=1) for name in ("events", "out", "dead", "counts")}
    exact = {"key": ["k"], "delivery": "ExactlyOnce"}
    sink = {**COPY["sinks"][0], "kafka": {"topic": "out", **exact}}
    first = {**COPY, "sinks": [sink], "trigger": {"maxRecords": 300}}
    counts = {"name": "counts", "sql": "SELECT k, count(*) AS n FROM copied GROUP BY k"}
    second = {
        "sources": [{**source("copied", "k BIGINT"), "topic": "out"}],
        "views": [{**counts, "allowUnboundedState": True}],
        "sinks": [{"name": "counted", "from": "counts", "kafka": {"topic": "counts", **exact}, "mode": "update"}],
        "trigger": {"maxRecords": 300},
    }  # fmt: skip

    def build(name: str, spec: dict[str, Any]) -> Any:
        at = f"file://{tmp_path}/{name}"
        return build_revision(spec, at, broker.bootstrap, topics=names, pipeline=name, uid=name)

    dice, keys, written = random.Random(5), 7, 0
    specs = {"first": first, "second": second}
    drivers = {name: start(build(name, spec), 1) for name, spec in specs.items()}
    for generation in range(2, 6):
        topics.write(names["events"], encode(*(number % keys for number in range(written, written + 3000))))
        written += 3000
        for name, spec in specs.items():
            drivers[name].wait_for("a batch", lambda p: p.queries and p.queries[0].batch_id >= 0)
            time.sleep(dice.uniform(0, 1))
            drivers[name].kill()
            drivers[name] = start(build(name, spec), generation)
    for driver in drivers.values():
        driver.wait_for(
            "no lag", lambda p: p.lag == 0 and p.queries and p.queries[0].batch_id >= 0, seconds=180
        )
        driver.process.terminate()
        assert driver.wait().graceful
    newest = {}
    for record in topics.read_committed(names["counts"]):
        row = json.loads(record.value() or b"")
        newest[row["k"]] = row["n"]
    assert newest == {key: len(range(key, written, keys)) for key in range(keys)}
