"""The queries of the comparison with other engines: as Pipelines, as Flink SQL, and for Kafka Streams; their records and results.

Each query reads JSON with typed columns and writes JSON. Times are in milliseconds, of ten minutes. `closed` has the records of `records`,
and then one of an hour later in each partition: it closes all windows, so that a stream that does not end has all results too.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

from confluent_kafka import Producer

from bench.spark_queries import SCHEMA
from bench.throughput import KEYS, PARTITIONS, START, send
from kappa_operator.pipeline.tuning import PRODUCER

SECONDS = 600
END = START + timedelta(seconds=SECONDS)
CLOSING = END + timedelta(hours=1)
_LATEST_SECONDS = 32
"""How much later a record of the right side may be; the join takes 30 seconds."""
CHECKPOINT_SECONDS = 5
"""How often the other engines checkpoint or commit."""
LAST_CHECKPOINT_SECONDS = 1
"""The same of Flink that writes exactly once: the end of its job waits for another checkpoint, which commits the last records."""


@dataclass(frozen=True)
class Query:
    """One query; `topics` are its sources, and `results` is how many rows it has for a number of records, where not every record is one."""

    name: str
    topics: tuple[str, ...]
    spec: Mapping[str, Any]
    columns: str
    select: str
    streams: bool = True
    exactly_once: bool = False
    latest: tuple[str, ...] = ()
    results: Callable[[int], int | None] = lambda count: None

    @property
    def sides(self) -> tuple[str, ...]:
        """Return the engines that run the query."""
        plain = self.name in ("pass", "window")
        return ("kappa", "flink", *(("streams",) if self.streams else ()), *(("plain",) if plain else ()))


def _source(name: str, schema: str, watermark: str) -> dict[str, Any]:
    event_time = {"column": "ts", "watermark": watermark}
    return {"name": name, "topic": name, "format": {"json": {"schema": schema}}, "eventTime": event_time}


def _spec(
    sources: list[dict[str, Any]],
    sql: str | None,
    *,
    key: str | None = "k",
    delivery: str = "AtLeastOnce",
    **sink: Any,
) -> dict[str, Any]:
    kafka = {"topic": "out", "delivery": delivery, **({} if key is None else {"key": [key]})}
    return {
        "resources": {"driver": {"cpu": "2"}, "executors": {"count": 0}},
        "sources": sources,
        "views": [] if sql is None else [{"name": "rows", "sql": sql}],
        "sinks": [{"name": "out", "from": sources[0]["name"] if sql is None else "rows", "kafka": kafka, **sink}],
    }  # fmt: skip


_RECORDS = [_source("records", SCHEMA, "10m")]
_COLUMNS = "k BIGINT, v DOUBLE, ts TIMESTAMP_LTZ(3), note STRING"
_MEAN = (
    "SELECT k, window(ts, '1 minute').start AS start, avg(v) AS mean FROM records"
    " GROUP BY k, window(ts, '1 minute')"
)
_TOP = (
    "SELECT w.start AS start, max(n) AS top FROM"
    " (SELECT window(ts, '10 seconds', '2 seconds') AS w, k, count(*) AS n FROM closed"
    " GROUP BY window(ts, '10 seconds', '2 seconds'), k) GROUP BY w"
)
_PAIRS = (
    "SELECT l.k, l.ts, r.v FROM orders l JOIN payments r"
    " ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + INTERVAL '30' SECOND"
)
_SIDE = "k BIGINT, v DOUBLE, ts TIMESTAMP"

QUERIES = (
    Query(
        name="pass",
        topics=("records",),
        spec=_spec(_RECORDS, None),
        columns=_COLUMNS,
        select="SELECT k, v, ts, note FROM records",
    ),
    Query(
        name="once",
        topics=("records",),
        spec=_spec(_RECORDS, None, delivery="ExactlyOnce"),
        columns=_COLUMNS,
        select="SELECT k, v, ts, note FROM records",
        exactly_once=True,
    ),
    Query(
        name="window",
        topics=("records",),
        spec=_spec(_RECORDS, _MEAN, mode="update"),
        columns="k BIGINT, `start` TIMESTAMP_LTZ(3), mean DOUBLE",
        select=(
            "SELECT k, CAST(window_start AS TIMESTAMP_LTZ(3)), AVG(v) FROM TABLE(TUMBLE(TABLE records,"
            " DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY k, window_start, window_end"
        ),
        latest=("k", "start"),
    ),
    Query(
        name="hop",
        topics=("closed",),
        spec=_spec([_source("closed", SCHEMA, "10s")], _TOP, key=None),
        columns="`start` TIMESTAMP_LTZ(3), top BIGINT",
        select=(
            "SELECT CAST(window_start AS TIMESTAMP_LTZ(3)), MAX(n) FROM (SELECT window_start, window_end, k,"
            " COUNT(*) AS n FROM TABLE(HOP(TABLE closed, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"
            " GROUP BY window_start, window_end, k) GROUP BY window_start, window_end"
        ),
        streams=False,
        results=lambda count: SECONDS // 2 + 4,
    ),
    Query(
        name="join",
        topics=("orders", "payments"),
        spec=_spec([_source("orders", _SIDE, "10s"), _source("payments", _SIDE, "10s")], _PAIRS),
        columns="k BIGINT, ts TIMESTAMP_LTZ(3), v DOUBLE",
        select=_PAIRS,
        streams=False,
    ),
)  # fmt: skip


def write_records(bootstrap: str, topics: Mapping[str, str], count: int) -> dict[str, int]:
    """Write the records of all queries, a quarter of `count` to each side of the join; return the number of records by topic."""
    writers = {
        "records": _records(count),
        "closed": chain(_records(count), _closing()),
        "orders": _side(count // 4, latest=0),
        "payments": _side(count // 4, latest=_LATEST_SECONDS),
    }
    written = {}
    for name, rows in writers.items():
        producer = Producer({"bootstrap.servers": bootstrap, **PRODUCER})
        written[name] = 0
        for number, row in enumerate(rows):
            send(producer, topics[name], row, number % PARTITIONS)
            written[name] += 1
        producer.flush()
    return written


def _records(count: int) -> Iterator[str]:
    rng = random.Random(1)
    for number in range(count):
        key = rng.randrange(KEYS)
        at = _moment(START + timedelta(milliseconds=number * SECONDS * 1000 // count))
        yield f'{{"k":{key},"v":{rng.randrange(10**6) / 8},"ts":"{at}","note":"abcdefghijklmnop-{key:06d}"}}'


def _closing() -> Iterator[str]:
    for _ in range(PARTITIONS):
        yield f'{{"k":0,"v":0.0,"ts":"{_moment(CLOSING)}","note":"abcdefghijklmnop-000000"}}'


def _side(count: int, latest: int) -> Iterator[str]:
    """Two records of each key; those of the right side are up to `latest` seconds later."""
    rng = random.Random(2)
    for number in range(count):
        late = rng.randrange(latest * 1000) if latest else 0
        at = _moment(START + timedelta(milliseconds=number * SECONDS * 1000 // count + late))
        yield f'{{"k":{number // 2},"v":{number / 8},"ts":"{at}"}}'


def _moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def normalize(query: Query, value: bytes) -> tuple[str, dict[str, Any]] | None:
    """Return what identifies a result and its row, with times as seconds; None for the windows of the closing records."""
    row = json.loads(value)
    for name in ("ts", "start"):
        if name in row:
            row[name] = datetime.fromisoformat(row[name].replace(" ", "T")).replace(tzinfo=UTC).timestamp()
    if row.get("start", 0.0) > END.timestamp():
        return None
    return "/".join(str(row[name]) for name in query.latest), row


def write_flink_sql(query: Query, bootstrap: str, topics: Mapping[str, str], out: str, folder: str) -> str:
    """Return the script of a query for `FlinkPeer`."""
    options = {
        "parallelism.default": "2",
        "execution.target": "local",
        "taskmanager.numberOfTaskSlots": "2",
        "taskmanager.memory.managed.size": "512m",
        "taskmanager.memory.network.min": "128m",
        "taskmanager.memory.network.max": "128m",
        "state.backend.type": "rocksdb",
        "state.backend.incremental": "true",
        "execution.checkpointing.interval": f"{LAST_CHECKPOINT_SECONDS if query.exactly_once else CHECKPOINT_SECONDS}s",
        "execution.checkpointing.checkpoints-after-tasks-finish": str(query.exactly_once).lower(),
        "execution.checkpointing.mode": "EXACTLY_ONCE" if query.exactly_once else "AT_LEAST_ONCE",
        "execution.checkpointing.dir": f"file://{folder}/checkpoints",
        "table.local-time-zone": "UTC",
    }
    producer = {f"properties.{name}": value for name, value in PRODUCER.items()}
    once = {
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": out,
        "properties.transaction.timeout.ms": "600000",
    }
    keyed = {"key.format": "json", "key.fields": "k"} if "k BIGINT" in query.columns else {}
    delivery = once if query.exactly_once else {"sink.delivery-guarantee": "at-least-once"}
    tables = [_flink_source(name, query, bootstrap, topics[name]) for name in query.topics]
    sink = _flink_table(
        "sink", query.columns, {**_flink_kafka(bootstrap, out), **keyed, **producer, **delivery}
    )
    statements = [f"SET {name} = {value}" for name, value in options.items()]
    return ";\n".join([*statements, *tables, sink, f"INSERT INTO sink {query.select}"]) + ";\n"


def _flink_source(name: str, query: Query, bootstrap: str, topic: str) -> str:
    columns = _COLUMNS if name in ("records", "closed") else "k BIGINT, v DOUBLE, ts TIMESTAMP_LTZ(3)"
    delay = query.spec["sources"][0]["eventTime"]["watermark"]
    number, unit = delay[:-1], {"m": "MINUTE", "s": "SECOND"}[delay[-1]]
    watermark = f"WATERMARK FOR ts AS ts - INTERVAL '{number}' {unit}"
    bounded = {
        "scan.startup.mode": "earliest-offset",
        "scan.bounded.mode": "latest-offset",
        "properties.isolation.level": "read_committed",
    }
    return _flink_table(name, f"{columns}, {watermark}", {**_flink_kafka(bootstrap, topic), **bounded})


def _flink_kafka(bootstrap: str, topic: str) -> dict[str, str]:
    return {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": bootstrap,
        "value.format": "json",
        "value.json.timestamp-format.standard": "ISO-8601",
    }


def _flink_table(name: str, columns: str, options: Mapping[str, str]) -> str:
    listed = ", ".join(f"'{option}' = '{value}'" for option, value in options.items())
    return f"CREATE TABLE {name} ({columns}) WITH ({listed})"


def write_streams_properties(
    query: Query, bootstrap: str, topics: Mapping[str, str], out: str, folder: str, count: int
) -> str:
    """Return the file of properties of a query for `StreamsPeer`."""
    options = {
        "query": query.name,
        "source": topics["records"],
        "out": out,
        "records": str(count),
        "application.id": out,
        "bootstrap.servers": bootstrap,
        "num.stream.threads": "2",
        "state.dir": f"{folder}/state",
        "commit.interval.ms": str(CHECKPOINT_SECONDS * 1000),
        "processing.guarantee": "exactly_once_v2" if query.exactly_once else "at_least_once",
        "consumer.auto.offset.reset": "earliest",
        "consumer.isolation.level": "read_committed",
        "consumer.max.poll.records": "10000",
        **{f"producer.{name}": value for name, value in PRODUCER.items()},
    }
    return "".join(f"{name}={value}\n" for name, value in options.items())
