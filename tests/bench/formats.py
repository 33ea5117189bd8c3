"""What a format costs: rows a second from bytes to columns, without Kafka, for JSON, Avro and Protobuf, and from columns to JSON.

`python tests/bench/formats.py [--quick] [--rounds N]`. The same rows of five fields (a text, a whole number, a float, a truth value
and a time) are kept in memory as values of each format; a round parses all of them in turn, and makes one hash of all columns, so
that none is pruned. Where hashes differ, it fails. The first round is dropped, the median counts. JSON is read and written in each round by the runtime's module and by Spark's functions. The
last line is one JSON object: thousands of rows a second of each, as `protobuf_ratio` the rate of Protobuf, which is decoded in
Python, through that of JSON, and as `read_ratio` and `write_ratio` those of the module through those of Spark.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import to_avro

from kappa_crds.source import Source
from kappa_pipelines.driver.jvm import use_own_python
from kappa_pipelines.kafka.subscription import Subscription
from kappa_pipelines.revision.settings import DEFAULTS, NATIVE_JSON
from kappa_pipelines.sinks.kafka import JSON_OPTIONS
from kappa_pipelines.sources.formats import build_values
from kappa_pipelines.sources.kafka import KafkaSource, read_stream
from spark.protobuf_values import build_schema, write_message
from spark.revisions import spark_conf

_DISTINCT = 10_000
_DDL = "sensor STRING, n BIGINT, mean DOUBLE, fresh BOOLEAN, at TIMESTAMP"
_PROTO = """syntax = "proto3"; import "google/protobuf/timestamp.proto";
message Reading { string sensor = 1; int64 n = 2; double mean = 3; bool fresh = 4; google.protobuf.Timestamp at = 5; }"""
_AVRO = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "sensor", "type": "string"},
        {"name": "n", "type": "long"},
        {"name": "mean", "type": "double"},
        {"name": "fresh", "type": "boolean"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}


def build_rows() -> list[dict[str, Any]]:
    """Return the distinct rows in JSON form."""
    times = [time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(1_700_000_000 + n)) for n in range(_DISTINCT)]
    return [
        {
            "sensor": f"sensor-{n % 100}",
            "n": n * 1000,
            "mean": n / 7,
            "fresh": n % 2 == 0,
            "at": f"{at}.000005Z",
        }
        for n, at in enumerate(times)
    ]


def keep_values(spark: SparkSession, copies: int) -> dict[str, DataFrame]:
    """Return the values of each format, in memory."""
    rows, schema = build_rows(), build_schema(_PROTO, "Reading")
    pairs = [(json.dumps(row).encode(), write_message(schema, row)) for row in rows]
    both = spark.createDataFrame(pairs, "json BINARY, protobuf BINARY")
    parsed = f.from_json(f.col("json").cast("string"), _DDL)
    all_of_them = both.withColumn("avro", to_avro(parsed, json.dumps(_AVRO))).crossJoin(spark.range(copies))
    frames = {}
    for name in ("json", "avro", "protobuf"):
        values = all_of_them.select(f.col(name).alias("value"), f.current_timestamp().alias("timestamp"))
        frames[name] = values.repartition(2).persist()
        frames[name].count()
    return frames


def build_sources(subscription: Subscription) -> dict[str, KafkaSource]:
    """Return a source of each format."""
    declared: dict[str, dict[str, Any]] = {
        "json": {"schema": _DDL},
        "avro": {"schema": json.dumps(_AVRO)},
        "protobuf": {"schema": _PROTO, "message": "Reading"},
    }
    specs = [
        Source.model_validate({"name": name, "topic": "bench", "format": {name: each}})
        for name, each in declared.items()
    ]
    return {spec.name: KafkaSource(spec, subscription, build_values(spec, None)) for spec in specs}


def measure(rows: DataFrame) -> tuple[float, int]:
    """Return the seconds that it takes to compute all columns of all rows, and a hash of them."""
    hashed = rows.select(f.xxhash64(*map(f.col, rows.columns)).alias("hash")).agg(
        f.sum(f.col("hash").cast("decimal(20)")).alias("all")
    )
    begin = time.perf_counter()
    found = hashed.collect()
    return time.perf_counter() - begin, int(found[0]["all"])


def measure_round(
    spark: SparkSession, frames: dict[str, DataFrame], sources: dict[str, KafkaSource]
) -> dict[str, float]:
    """Return the seconds that each way takes once; ValueError if ways with the same rows differ."""
    found = {name: measure(read_stream(frames[name], sources[name])) for name in sources}
    found["write"] = measure(frames["write"])
    spark.conf.set(NATIVE_JSON, "false")
    found["spark_json"] = measure(read_stream(frames["json"], sources["json"]))
    found["spark_write"] = measure(frames["write"].select("*"))
    spark.conf.set(NATIVE_JSON, "true")
    for same in (("json", "spark_json", "avro", "protobuf"), ("write", "spark_write")):
        if len({found[name][1] for name in same}) > 1:
            raise ValueError(f"these differ: {', '.join(f'{name} {found[name][1]}' for name in same)}")
    return {name: seconds for name, (seconds, _) in found.items()}


def create_session() -> SparkSession:
    """Return a session with the settings of a small pipeline."""
    use_own_python()
    builder = SparkSession.Builder()
    for key, value in {**DEFAULTS, **spark_conf(), "spark.ui.showConsoleProgress": "false"}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    spark, copies = create_session(), 20 if given.quick else 100
    spark.sparkContext.setLogLevel("ERROR")
    frames = keep_values(spark, copies)
    sources = build_sources(Subscription(("bench",)))
    columns = read_stream(frames["json"], sources["json"]).persist()
    columns.count()
    frames["write"] = columns.select(f.to_json(f.struct("*"), JSON_OPTIONS).alias("value"))
    rounds = [measure_round(spark, frames, sources) for _ in range(given.rounds + 1)]
    rates = {
        name: _DISTINCT * copies / statistics.median(each[name] for each in rounds[1:]) for name in rounds[0]
    }
    ratios = {
        "protobuf_ratio": rates["protobuf"] / rates["json"],
        "read_ratio": rates["json"] / rates["spark_json"],
        "write_ratio": rates["write"] / rates["spark_write"],
    }
    shown = {f"{name}_krows_per_s": round(rate / 1000) for name, rate in rates.items()}
    print(json.dumps({**shown, **{k: round(v, 2) for k, v in ratios.items()}, "rows": _DISTINCT * copies}))


if __name__ == "__main__":
    main()
