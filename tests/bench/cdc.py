"""Change data capture: `python tests/bench/cdc.py [--quick] [--part …]` with a real PostgreSQL, Debezium and broker; no cluster.

Parts: `snapshot` is the rate of a snapshot as a share of that of a bare connector (`cdc_snapshot`), `live` the time from the commit of a
change to the row of a view, at 1,000 changes a second (`cdc_live`), and `reconcile` the time of a proof. All run where none is named.

For the proof, a table of a million rows (100,000 with `--quick`) is read by Debezium's snapshot into a topic of four partitions without schemas, and a
tenth of the rows is updated. Then 50 differences are planted in the topic, and `kappa cdc reconcile` runs as a process of its own while
rows are updated: it has to find these 50 and nothing else, or the bench fails. The last line is one JSON object: `reconcile_s` is the time
of the whole command, `records` how many records it read, `peak_mb` its peak of resident memory, `cpu_s` its processor time.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "monitoring" / "src"))

import psycopg
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from bench.cdc_live import measure_all as live
from bench.cdc_snapshot import compare
from lab.broker import Broker
from lab.connect import ConnectWorker
from lab.debezium import configure_postgres, write_json
from lab.postgres import DATABASE, USER, Postgres
from lab.shell import wait_until

PARTS = ("snapshot", "live", "reconcile")
PREFIX, TABLE, PARTITIONS, PLANTED = "bench", "orders", 4, 50
TOPIC = f"{PREFIX}.public.{TABLE}"
_CREATE = """
    CREATE TABLE orders (
        id BIGINT PRIMARY KEY, customer INT NOT NULL, total NUMERIC(10, 2), placed TIMESTAMPTZ, paid BOOLEAN, note TEXT, at TIMESTAMP)
"""
_FILL = """
    INSERT INTO orders SELECT n, n %% 9973, n / 7.0, '2026-01-01'::timestamptz + n * interval '1.234567 s', n %% 3 = 0, 'note ' || md5(n::text),
        '2026-01-01'::timestamp + n * interval '1 s' FROM generate_series(1, %s) n
"""
_UPDATE = "UPDATE orders SET total = total + 1 WHERE id % 10 = 0"
_TOUCH = "UPDATE orders SET paid = NOT paid WHERE id = %s"


def configure(database: Postgres) -> dict[str, str]:
    """Return the configuration of the connector."""
    return {
        **configure_postgres(database, PREFIX),
        "topic.creation.default.partitions": str(PARTITIONS),
        "heartbeat.interval.ms": "1000",
        **write_json(keys_with_schemas=False, values_with_schemas=False),
    }


class Topic:
    """The topic, as the bench reads and damages it."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def count(self) -> int:
        """Return how many records it has; 0 where it does not exist."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "none", "log_level": "0"})
        try:
            at = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
            return sum(consumer.get_watermark_offsets(each, timeout=5)[1] for each in at)
        except Exception:
            return 0
        finally:
            consumer.close()

    def sample(self, count: int) -> list[Message]:
        """Return the first rows of the topic, which no update has replaced."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "none"})
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
        found: list[Message] = []
        while len(found) < count:
            found += [each for each in consumer.consume(1000, 5) if read_id(each) % 10]
        consumer.close()
        return found[:count]

    def plant(self) -> dict[str, set[str]]:
        """Plant the differences; return their keys by kind."""
        producer = Producer({"bootstrap.servers": self._bootstrap})
        found: dict[str, set[str]] = {"only-in-database": set(), "only-in-topic": set(), "changed": set()}
        for number, each in enumerate(self.sample(PLANTED)):
            kind = list(found)[number % 3]
            key, event = read_id(each), json.loads(each.value() or b"")
            if kind == "only-in-topic":
                key = -key
                event["after"]["id"] = key
            elif kind == "changed":
                event["after"]["note"] = "planted"
            value = None if kind == "only-in-database" else json.dumps(event)
            producer.produce(TOPIC, value, json.dumps({"id": key}), each.partition() or 0)
            found[kind].add(str(key))
        producer.flush(30)
        return found


def read_id(message: Message) -> int:
    """Return the key of a record."""
    key: int = json.loads(message.key() or b"")["id"]
    return key


@contextmanager
def touching(database: Postgres, rows: int) -> Iterator[None]:
    """Update 50 rows a second."""
    stop = threading.Event()

    def touch() -> None:
        with psycopg.connect(database.address, autocommit=True) as connection:
            while not stop.wait(0.02):
                connection.execute(_TOUCH, (rows - int(time.monotonic() * 1000) % 1000,))

    thread = threading.Thread(target=touch)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def reconcile(database: Postgres, bootstrap: str) -> tuple[dict[str, Any], dict[str, float]]:
    """Return the result of the command, and what it took."""
    url = f"postgresql://{USER}@127.0.0.1:{database.port}/{DATABASE}"
    program = [sys.executable, "-c", "from kappa_operator.cli import main; main()", "cdc", "reconcile", url]
    options = ["--table", TABLE, "--topic", TOPIC, "--bootstrap", bootstrap, "-o", "json"]
    started = time.monotonic()
    process = subprocess.Popen([*program, *options], stdout=subprocess.PIPE)
    assert process.stdout is not None
    output = process.stdout.read()
    _, _, usage = os.wait4(process.pid, 0)
    took = {
        "reconcile_s": round(time.monotonic() - started, 1),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_mb": round(usage.ru_maxrss / 1024),
    }
    return json.loads(output), took


def measure(rows: int) -> dict[str, float]:
    """Return the measurements; end the program where the differences are not those that were planted."""
    with Broker(heap_mib=512) as broker, Postgres() as database:
        topic = Topic(broker.bootstrap)
        database.execute(_CREATE)
        database.execute(_FILL, rows)
        database.execute("ANALYZE orders")
        started = time.monotonic()
        with ConnectWorker(broker.bootstrap, PREFIX, configure(database)):
            wait_until(lambda: topic.count() >= rows, "the snapshot is in the topic", seconds=900, every=1)
            print(f"snapshot: {time.monotonic() - started:.0f} s with the start of Connect", flush=True)
            database.execute(_UPDATE)
            wait_until(lambda: topic.count() >= rows * 11 // 10, "the updates are too", seconds=300, every=1)
            planted = topic.plant()
            with touching(database, rows):
                found, took = reconcile(database, broker.bootstrap)
    kinds: dict[str, set[str]] = {kind: set() for kind in planted}
    for each in found["differences"]:
        kinds[each["kind"]].add(each["key"][0])
    if kinds != planted or found["undecided"]:
        raise SystemExit(
            f"the differences are not those that were planted: {found['counts']}, {found['notes']}"
        )
    return {**took, "rows": found["rows"], "records": found["records"]}


def measure_snapshot(rows: int, rounds: int) -> dict[str, float]:
    """Return the rates of snapshots of a table with so many rows."""
    with Broker(heap_mib=512) as broker, Postgres() as database:
        database.execute(_CREATE)
        database.execute(_FILL, rows)
        database.execute("ANALYZE orders")
        return compare(broker, database, rows, rounds)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100,000 rows, and 15 seconds of changes")
    parser.add_argument("--part", action="append", choices=PARTS, help="repeat it; default: all")
    parser.add_argument("--rounds", type=int, default=3, help="snapshots of each connector")
    asked = parser.parse_args()
    rows, seconds = (100_000, 15.0) if asked.quick else (1_000_000, 60.0)
    found: dict[str, float] = {}
    for part in asked.part or PARTS:
        match part:
            case "snapshot":
                found |= measure_snapshot(rows, asked.rounds)
            case "live":
                found |= live(seconds)
            case _:
                found |= measure(rows)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
