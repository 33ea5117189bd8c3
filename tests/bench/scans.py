"""What a query gains that names a source twice and reads it once: `python tests/bench/scans.py [--quick] [--records N] [--rounds N]`.

Each query reads the same records in one warm JVM, with a source that is read once and with one that is read for each of its names, in turns;
the first round is not counted. A join within an interval is one of Spark where the source is read twice. The last line is one JSON object
with the ratio of the rates, in the middle, the least and the greatest one, and the rate when read once, by query.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from bench.spark_queries import SPECS, build_revision, create_session
from bench.throughput import drop_topic, ends, log, make_topic, produce
from kappa_pipelines.plan.compile import compile_revision
from kappa_pipelines.revision.settings import SHARED_SCANS, build_spark_settings
from lab.broker import Broker

QUERIES = {
    "union": "SELECT k, v, ts, note FROM records WHERE v < 60000"
    " UNION ALL SELECT k, -v AS v, ts, upper(note) AS note FROM records WHERE v >= 60000",
    "join": "SELECT l.k, l.v, r.v AS w, r.ts FROM records l JOIN records r ON l.k = r.k"
    " AND r.ts BETWEEN l.ts AND l.ts + INTERVAL 20 SECONDS WHERE l.v < 60000 AND r.v >= 60000",
}
ONCE, TWICE = "true", "false"


def build_spec(sql: str) -> dict[str, Any]:
    """Return a pipeline with one view."""
    own = {**SPECS["passthrough"]["sources"][0], "eventTime": {"column": "ts", "watermark": "10s"}}
    sink = {"name": "out", "from": "answer", "kafka": {"topic": "out", "key": ["k"]}}
    view = {"name": "answer", "sql": sql, "allowUnboundedState": True}
    return {**SPECS["passthrough"], "sources": [own], "views": [view], "sinks": [sink]}


def run(session: SparkSession, sql: str, shared: str, bootstrap: str, topics: dict[str, str]) -> float:
    """Read the whole topic with a query, and return the seconds until its last batch is committed."""
    own = session.newSession()
    with tempfile.TemporaryDirectory(prefix="kappa-bench-") as checkpoint:
        revision = build_revision(build_spec(sql), bootstrap, topics, checkpoint)
        for key, value in build_spark_settings(revision).items():
            if key.startswith("spark.sql.") and own.conf.isModifiable(key):
                own.conf.set(key, value)
        own.conf.set(SHARED_SCANS, shared)
        [compiled] = compile_revision(own, revision).sinks
        if len(compiled.scans) != (1 if shared == ONCE else 2):
            raise SystemExit(f"the query has the scans {compiled.scans}")
        writer = compiled.writer.trigger(availableNow=True)
        begin = time.monotonic()
        writer.start().awaitTermination()
        return time.monotonic() - begin


def measure(broker: Broker, count: int, rounds: int) -> dict[str, Any]:
    """Return the ratios and the rates, by query."""
    source, session = make_topic(broker.bootstrap, "records"), create_session()
    produce(broker.bootstrap, source, count)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in QUERIES}
    for turn in range(rounds + 1):
        for name, sql in QUERIES.items():
            seconds, written = {}, {}
            for shared in (ONCE, TWICE) if turn % 2 else (TWICE, ONCE):
                topics = {"records": source, "out": make_topic(broker.bootstrap, "out")}
                seconds[shared] = run(session, sql, shared, broker.bootstrap, topics)
                written[shared] = sum(ends(admin, topics["out"]).values())
                log(f"{name} once={shared} round {turn}: {seconds[shared]:.2f} s, {written[shared]} records")
                drop_topic(broker.bootstrap, topics["out"])
            if written[ONCE] != written[TWICE]:
                raise SystemExit(f"{name} has {written[ONCE]} records, and {written[TWICE]} with two scans")
            if turn > 0:
                found[name].append((seconds[TWICE] / seconds[ONCE], count / seconds[ONCE]))
    return {name: _describe(runs) for name, runs in found.items()}


def _describe(runs: list[tuple[float, float]]) -> dict[str, Any]:
    ratios = [ratio for ratio, _ in runs]
    spread = [round(each, 2) for each in (statistics.median(ratios), min(ratios), max(ratios))]
    return {"ratio": spread, "records_s": round(statistics.median(rate for _, rate in runs))}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="200,000 records, one round")
    parser.add_argument("--records", type=int)
    parser.add_argument("--rounds", type=int)
    asked = parser.parse_args()
    count = asked.records or (200_000 if asked.quick else 1_000_000)
    load = round(os.getloadavg()[0], 1)
    with Broker(heap_mib=512) as broker:
        found = measure(broker, count, asked.rounds or (1 if asked.quick else 5))
    sys.stdout.write(json.dumps({"load": load, "records": count, **found}) + "\n")


if __name__ == "__main__":
    main()
