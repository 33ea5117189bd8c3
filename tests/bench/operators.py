"""How fast operators are: `python tests/bench/operators.py [--quick]`, on this machine alone; no cluster, no Kafka.

Each batch has one row for each of 20,000 keys, a minute after the one before: the hardest case for state, for every row
is another key. Records have Kafka's shape and come in two files a batch, as from two partitions; rows go nowhere, so what is measured
is parsing, the operator and its state. The pipeline (manifest → runtime) runs beside the same plan hand-written in PySpark with the
same settings, in one JVM. Who goes first changes from round to round, and the first round is not counted: a JVM takes
six runs of nine batches to compile what they need, and still gets faster after ten. Rates are those of the batches after the first three, by
Spark's own clock. Two runs of the same plan differ by a tenth, so a ratio is the geometric mean of many rounds, an even number of them.

The last line is one JSON object: `native_min_ratio` is the smallest ratio of the two, `stateful_min_rows_per_s` the
smallest rate of a join, sliding window or pattern, `operators` has each.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kappa_crds import API_VERSION
from kappa_crds.revision import Revision
from kappa_crds.sink import Sink
from kappa_pipelines.laptop.endpoints import FileEndpoints, input_folder
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.session import start_spark
from kappa_pipelines.plan.compile import compile_revision
from kappa_pipelines.sinks.kafka import JSON_OPTIONS
from kappa_pipelines.sources.kafka import RECORD_SCHEMA, KafkaSource

SCHEMA = "k BIGINT, v DOUBLE, ts TIMESTAMP"
START = datetime(2026, 1, 1, tzinfo=UTC)
COLD = 3
"""Batches that are not counted: classes load, code is compiled."""
SLOW_ROUNDS, FAST_ROUNDS, QUICK_ROUNDS = 4, 12, 2
"""Rounds of operators whose batches take a second and more, and of all others."""
PARTITIONS = 2


@dataclass(frozen=True)
class Operator:
    """A view, the same as SQL where SQL has words for it, and how many rows of input a batch has for each key."""

    view: dict[str, Any]
    by_hand: str | None
    sources: int = 1
    stateful: bool = True


def sql(text: str, **fields: Any) -> Operator:
    """Return an operator that is SQL in both."""
    return Operator({"sql": text}, text, **fields)


OPERATORS = {
    "filter": sql("SELECT k, v * 2 AS v, ts FROM a WHERE v >= 0", stateful=False),
    "tumbling window": sql(
        "SELECT k, window.start AS t, avg(v) AS mean FROM a GROUP BY k, window(ts, '5 minutes')",
        stateful=False,
    ),
    "hopping window": sql(
        "SELECT k, window.start AS t, avg(v) AS mean FROM a GROUP BY k, window(ts, '4 minutes', '2 minutes')",
        stateful=False,
    ),
    "session window": sql(
        "SELECT k, session_window.start AS t, count(*) AS n FROM a GROUP BY k, session_window(ts, '90 seconds')",
        stateful=False,
    ),
    "join within a window": sql(
        "SELECT a.k, a.v, b.v AS w, b.ts FROM a JOIN b ON a.k = b.k"
        " AND b.ts >= a.ts - INTERVAL 1 MINUTE AND b.ts <= a.ts",
        sources=2,
    ),
    "sliding window": Operator(
        {
            "sliding": {
                "from": "a",
                "key": ["k"],
                "length": "3m",
                "aggregates": {"n": "count(*)", "mean": "avg(v)"},
            }
        },
        "WITH s AS (SELECT * FROM a)"
        " SELECT e.k, e.v, t AS ts, n, mean FROM (SELECT t, any_value(e) AS e, count(*) AS n, avg(v) AS mean FROM"
        " (SELECT ts AS t, uuid() AS id, struct(k, v) AS e, k AS key FROM s) JOIN s ON key <=> k"
        " AND ts BETWEEN t - INTERVAL 3 MINUTES AND t GROUP BY t, id)",
    ),
    "as-of join": Operator(
        {"asOf": {"from": "a", "table": "b", "key": {"k": "k"}, "columns": {"w": "v"}, "maxAge": "2m"}},
        "SELECT e.k, e.v, t AS ts, w.v AS w FROM (SELECT t, any_value(e) AS e, max_by(w, struct(since, w)) AS w FROM"
        " (SELECT ts AS t, uuid() AS id, struct(k, v) AS e, k AS key FROM a) LEFT JOIN"
        " (SELECT ts AS since, struct(v) AS w, k AS other FROM b)"
        " ON key = other AND since <= t AND since >= t - INTERVAL 2 MINUTES GROUP BY t, id)",
        sources=2,
    ),
    "pattern": Operator(
        {
            "pattern": {
                "from": "a",
                "key": ["k"],
                "steps": "A B C",
                "define": {
                    "A": "pmod(k + minute(ts), 3) = 0",  # a match of a third of the keys with each batch
                    "B": "v >= PREV(v)",
                    "C": "v >= LAST(A.v)",
                },
                "measures": {"first": "A.v", "last": "C.v", "n": "COUNT(*)"},
                "within": "5m",
            }
        },
        None,
    ),
}


class NoopEndpoints(FileEndpoints):
    """Files in, and rows that are computed and dropped."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(spark, folder, lambda sink, batch, outputs: None)

    def write(self, sink: Sink, records: DataFrame) -> DataStreamWriter:
        """Return the query that computes the rows."""
        return drop_rows(records)


class Partitioned(NoopEndpoints):
    """The same, each batch in a file for each partition."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(spark, folder)
        self._spark, self._folder = spark, folder

    def read(self, source: KafkaSource) -> DataFrame:
        """Return the records of a source."""
        return read_records(self._spark, self._folder, source.name)


def read_records(spark: SparkSession, folder: Path, source: str) -> DataFrame:
    """Return the stream of a source's records."""
    reader = spark.readStream.schema(RECORD_SCHEMA).format("parquet").name(source)
    return reader.option("maxFilesPerTrigger", PARTITIONS).load(str(input_folder(folder, source)))


def drop_rows(records: DataFrame) -> DataStreamWriter:
    """Return the query that computes rows and drops them."""
    return records.writeStream.format("noop").outputMode("append")


def write_input(spark: SparkSession, folder: Path, keys: int, batches: int) -> None:
    """Write the records of both sources: batch after batch, for Spark takes files in the order of their times."""
    empty = spark.createDataFrame([], RECORD_SCHEMA)
    for source in ("a", "b"):
        for batch in range(batches):
            records = pd.DataFrame({"value": list(build_values(keys, batch))})
            rows = empty.unionByName(spark.createDataFrame(records), allowMissingColumns=True)
            rows.repartition(PARTITIONS).write.mode("append").parquet(str(input_folder(folder, source)))


def build_values(keys: int, batch: int) -> Iterator[bytes]:
    """Yield a row for each key."""
    for key in range(keys):
        moment = START + timedelta(minutes=batch, seconds=key % 50)
        yield json.dumps({"k": key, "v": key / 4, "ts": moment.isoformat()}).encode()


def build_revision(operator: Operator) -> Revision:
    """Return a pipeline with the operator."""
    time = {"column": "ts", "watermark": "10s"}
    sources = [
        {"name": n, "topic": n, "format": {"json": {"schema": SCHEMA}}, "eventTime": time}
        for n in ("a", "b")[: operator.sources]
    ]
    spec = {
        "sources": sources,
        "views": [{"name": "answer", **operator.view}],
        "sinks": [{"name": "answer", "from": "answer", "kafka": {"topic": "answer"}}],
    }
    metadata = {"name": "bench", "namespace": "bench"}
    revision = build_local_revision(
        {"apiVersion": API_VERSION, "kind": "Pipeline", "metadata": metadata, "spec": spec}
    )
    conf = {**revision.spark_conf, "spark.master": "local[2]", "spark.driver.memory": "2g"}
    return revision.replace(spark_conf=conf)


def build_pipeline(operator: Operator, folder: Path) -> tuple[SparkSession, DataStreamWriter]:
    """Return the query of a pipeline with the operator."""
    revision = build_revision(operator)
    spark = start_spark(revision)
    return spark, compile_revision(spark, revision, Partitioned(spark, folder)).sinks[0].writer


def build_by_hand(spark: SparkSession, statement: str, sources: int, folder: Path) -> DataStreamWriter:
    """Return the same query as a good hand would write it."""
    for name in ("a", "b")[:sources]:
        parsed = f.from_json(f.col("value").cast("string"), SCHEMA).alias("row")
        rows = read_records(spark, folder, name).select(parsed).select("row.*")
        rows.withWatermark("ts", "10 seconds").createOrReplaceTempView(name)
    rows = spark.sql(statement)
    return drop_rows(rows.select(f.to_json(f.struct("*"), JSON_OPTIONS).alias("value")))


def measure(query: DataStreamWriter, folder: Path, rows: int) -> float:
    """Run a query over the whole input; return its rate in rows a second."""
    checkpoint = Path(tempfile.mkdtemp(dir=folder))
    running: StreamingQuery = (
        query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    )
    running.awaitTermination()
    warm = [p for p in running.recentProgress if p.batchId >= COLD and p.numInputRows > 0]
    shutil.rmtree(checkpoint, ignore_errors=True)  # Spark may be writing a snapshot of the state still
    return rows / (statistics.median(p.durationMs["triggerExecution"] for p in warm) / 1000)


def compare(operator: Operator, folder: Path, keys: int, rounds: int) -> dict[str, float]:
    """Return the rates of both, medians of rounds, and the mean of their ratios, if there are both; the first round is left out."""
    rows = keys * operator.sources
    rates: dict[str, list[float]] = {"kappa": [], "by_hand": []}
    for number in range(rounds + 1):
        spark, query = build_pipeline(operator, folder)
        sides = {"kappa": query}
        if operator.by_hand is not None:
            sides["by_hand"] = build_by_hand(spark, operator.by_hand, operator.sources, folder)
        for side in sorted(sides, reverse=number % 2 == 0):
            rates[side].append(measure(sides[side], folder, rows))
    rates = {side: values[1:] for side, values in rates.items()}
    if operator.by_hand is None:
        return {"rows_per_s": round(statistics.median(rates["kappa"]))}
    kappa, by_hand = (statistics.median(rates[side]) for side in ("kappa", "by_hand"))
    return {
        "rows_per_s": round(kappa),
        "by_hand": round(by_hand),
        "ratio": round(statistics.geometric_mean(k / b for k, b in zip(*rates.values(), strict=True)), 2),
    }


def main() -> None:
    """Measure each operator."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    keys, batches = (5_000, 6) if given.quick else (20_000, 9)
    folder = Path(tempfile.mkdtemp(prefix="kappa-operators-"))
    results: dict[str, dict[str, float]] = {}
    try:
        write_input(start_spark(build_revision(OPERATORS["filter"])), folder, keys, batches)
        for name, operator in OPERATORS.items():
            if given.only in name:
                rounds = SLOW_ROUNDS if operator.stateful else FAST_ROUNDS
                results[name] = compare(operator, folder, keys, QUICK_ROUNDS if given.quick else rounds)
                print(f"{name}: {results[name]}", flush=True)
    finally:
        start_spark(build_revision(OPERATORS["filter"])).stop()
        shutil.rmtree(folder)
    stateful = [result["rows_per_s"] for name, result in results.items() if OPERATORS[name].stateful]
    summary = {
        "native_min_ratio": min(
            (result["ratio"] for result in results.values() if "ratio" in result), default=None
        ),
        "stateful_min_rows_per_s": min(stateful, default=None),
        "operators": results,
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
