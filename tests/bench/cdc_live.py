"""From the commit of a change in the database to its row in the topic of a view.

PostgreSQL, a `CDCSource` as the operator renders it, and a pipeline in the driver as a process of its own, which joins two tables. A
procedure in the database commits each change in a transaction of its own, at an even rate, with the time of this moment in the row. The
same clock is read when a reader of committed records has the row of the view.
"""

import json
import statistics
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import psycopg
import yaml
from confluent_kafka import Consumer

from bench.cdc_rig import PRODUCT, Side, run_connector
from bench.cdc_snapshot import Tail
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.progress import DriverState
from kappa_operator.pipeline.tuning import build_tuning
from lab.broker import Broker
from lab.postgres import Postgres
from lab.shell import wait_until
from spark.processes import DriverProcess
from spark.revisions import build_revision, spark_conf
from spark.topics import Topics

ROWS, CUSTOMERS, RATE = 10_000, 100, 1000
WARM_UP_SECONDS = 20.0
_SHOWN = ("p50_ms", "p99_ms")
_PATIENCE_SECONDS = 300.0
_JOINED = """
sources:
  - name: customers
    topic: live.public.customers
    format: {json: {schema: "id INT, name STRING"}}
    envelope: {debezium: {columns: {deleted: deleted, version: version}}}
  - name: orders
    topic: live.public.orders
    format: {json: {schema: "id BIGINT, customer INT, total DECIMAL(10,2), sent BIGINT"}}
    envelope: {debezium: {columns: {deleted: deleted, version: version}}}
views:
  - name: joined
    tableJoin:
      left: {from: orders, order: version, deleted: deleted}
      key: [id]
      right: {from: customers, order: version, deleted: deleted}
      foreignKey: {customer: id}
      columns: {name: name}
  - {name: lines, sql: "SELECT * EXCEPT (version) FROM joined"}
sinks: [{name: lines, from: lines, kafka: {topic: lines, key: [id], tombstones: deleted}}]
resources: {driver: {cpu: "2"}, executors: {count: 0}}
"""
_PLAIN = """
sources:
  - name: orders
    topic: live.public.orders
    format: {json: {schema: "id BIGINT, customer INT, total DECIMAL(10,2), sent BIGINT"}}
    envelope: {debezium: {columns: {deleted: deleted}}}
views: [{name: lines, sql: "SELECT id, customer, total, sent, deleted FROM orders"}]
sinks: [{name: lines, from: lines, kafka: {topic: lines, key: [id], tombstones: deleted}}]
resources: {driver: {cpu: "2"}, executors: {count: 0}}
"""
_TABLES = """
    CREATE TABLE customers (id INT PRIMARY KEY, name TEXT);
    CREATE TABLE orders (id BIGINT PRIMARY KEY, customer INT NOT NULL, total NUMERIC(10, 2), sent BIGINT);
    INSERT INTO customers SELECT n, 'customer ' || n FROM generate_series(0, 99) n;
    INSERT INTO orders SELECT n, n % 100, n / 7.0, 0 FROM generate_series(0, 9999) n;
    CREATE PROCEDURE change(rate INT, seconds DOUBLE PRECISION, INOUT done BIGINT) LANGUAGE plpgsql AS $$
    DECLARE
        begun CONSTANT TIMESTAMPTZ := clock_timestamp();
        elapsed DOUBLE PRECISION := 0;
    BEGIN
        WHILE elapsed < seconds LOOP
            WHILE done < elapsed * rate LOOP
                UPDATE orders SET total = total + 1, sent = (extract(epoch FROM clock_timestamp()) * 1000000)::BIGINT
                    WHERE id = done * 7919 % 10000;
                COMMIT;
                done := done + 1;
            END LOOP;
            PERFORM pg_sleep(0.001);
            elapsed := extract(epoch FROM clock_timestamp() - begun);
        END LOOP;
    END $$
"""


class Reader(threading.Thread):
    """Notes for each record of a topic when its change was committed, in microseconds, and how long it took, in milliseconds."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.taken: list[tuple[int, float]] = []
        self.is_ending = False
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": f"live-{topic}",
            "auto.offset.reset": "earliest",
        }
        self._consumer = Consumer(
            {**settings, "isolation.level": "read_committed", "fetch.wait.max.ms": 10, "log_level": "0",
             "topic.metadata.refresh.interval.ms": 1000, "allow.auto.create.topics": False}
        )  # fmt: skip
        self._consumer.subscribe([topic])

    def run(self) -> None:
        """Read until the end is requested."""
        while not self.is_ending:
            for message in self._consumer.consume(1000, timeout=0.02):
                if message.error() is None:
                    row = json.loads(message.value() or b"{}")
                    sent = row.get("after", row).get("sent", 0)
                    self.taken.append((sent, time.time() * 1000 - sent / 1000))
        self._consumer.close()

    def wait_for(self, begin: int, count: int) -> list[float]:
        """Return how long so many changes took that were committed at a time or later; end the program where they do not come."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while len(found := self.since(begin)) < count:
            if time.monotonic() > deadline:
                raise SystemExit(f"{count - len(found)} of {count} changes did not come")
            time.sleep(0.2)
        return found

    def since(self, begin: int) -> list[float]:
        """Return how long the changes took that were committed at a time, in microseconds, or later."""
        return [ms for sent, ms in self.taken if sent >= begin]


def change(database: Postgres, rate: int, seconds: float) -> tuple[int, float]:
    """Commit changes at a rate; return how many, and how many per second that were."""
    begin = time.monotonic()
    with psycopg.connect(database.address, autocommit=True) as connection:
        row = connection.execute("CALL change(%s, %s, 0)", (rate, seconds)).fetchone()
    count = int(row[0]) if row else 0
    return count, count / (time.monotonic() - begin)


def summarize(milliseconds: list[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile."""
    cuts = statistics.quantiles(milliseconds, n=100, method="inclusive")
    return round(cuts[49], 1), round(cuts[98], 1)


def _measure(database: Postgres, bootstrap: str, view: str, seconds: float) -> dict[str, float]:
    readers = {"view": Reader(bootstrap, view), "topic": Reader(bootstrap, "live.public.orders")}
    for reader in readers.values():
        reader.start()
    # The first batch has all rows of the snapshot, and what it compiles is slow: neither is a live change.
    warm, _ = change(database, RATE, WARM_UP_SECONDS)
    readers["view"].wait_for(1, warm)
    begin = time.time_ns() // 1000
    count, reached = change(database, RATE, seconds)
    found = readers["view"].wait_for(begin, count)
    for reader in readers.values():
        reader.is_ending = True
        reader.join()
    (p50, p99), (topic_p50, topic_p99) = summarize(found), summarize(readers["topic"].since(begin))
    return {
        "p50_ms": p50, "p99_ms": p99, "changes_per_s": round(reached, 1), "changes": count,
        "topic_p50_ms": topic_p50, "topic_p99_ms": topic_p99,
    }  # fmt: skip


def measure(
    manifest: str, seconds: float, *, is_real_time: bool = False, side: Side | None = None
) -> dict[str, float]:
    """Return the figures of a view; `topic_…` are those until the change event."""
    with (
        Broker(heap_mib=512) as broker,
        Postgres() as database,
        tempfile.TemporaryDirectory(prefix="kappa-live-") as folder,
    ):
        database.execute(_TABLES)
        names = {f"live.public.{name}": f"live.public.{name}" for name in ("orders", "customers")}
        names["lines"] = Topics(broker.bootstrap).make("lines", 2)
        spec = yaml.load(manifest, yaml.CSafeLoader)
        if is_real_time:
            spec["trigger"] = {"realTime": {"checkpointInterval": "1m"}}
        tuning = build_tuning(PipelineSpec.model_validate(spec), None)
        checkpoint = Path(folder) / "checkpoint"
        conf = {**spark_conf(), **spec.get("sparkConf", {})}
        revision = build_revision(
            spec, checkpoint, broker.bootstrap, topics=names, tuning=tuning, spark_conf=conf
        )
        with run_connector(side or Side(PRODUCT), broker, database, "live", ("orders", "customers")):
            for topic, rows in (("live.public.customers", CUSTOMERS), ("live.public.orders", ROWS)):
                tail = Tail(broker.bootstrap, topic)
                wait_until(partial(tail.has, rows), f"{topic} has its rows")
            driver = DriverProcess(Path(folder), revision, 1)
            try:
                driver.wait_for("running", lambda p: p.state is DriverState.RUNNING, _PATIENCE_SECONDS)
                return _measure(database, broker.bootstrap, names["lines"], seconds)
            finally:
                driver.kill()


def measure_all(seconds: float) -> dict[str, float]:
    """Return the figures of a view of one table in real-time mode, and with prefixes those of other views."""
    found = measure(_PLAIN, seconds, is_real_time=True)
    for prefix, manifest in (("batches", _PLAIN), ("joined", _JOINED)):
        print(json.dumps(found), flush=True)
        found |= {f"{prefix}_{name}": ms for name, ms in measure(manifest, seconds).items() if name in _SHOWN}
    return found
