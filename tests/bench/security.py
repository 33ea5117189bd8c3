"""What the encryption of Spark costs: the same queries with and without it, on two executors that exchange rows over the network.

`python tests/bench/security.py [--quick] [--records N] [--rounds N]`. Each side is a process of its own with a warm session: `off`, `network`
(RPC and blocks are authenticated and encrypted, as the operator sets it), and `local` (shuffle and spill files as well). The sides take
turns, in another order each round, and the first round is dropped. Executors read blocks of each other over TCP even on one host. The
last line is one JSON object; `encrypted_ratio` is the smallest ratio over the queries of the throughput of `network` to that of `off`, each
the median of the ratios of single rounds. `cpu_ratio` is the same of processor time, which depends less on what else the machine does.
"""

import argparse
import json
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pyspark.sql import SparkSession

from bench.spark_queries import BASE, build_revision
from bench.throughput import digest, drop_topic, log, make_topic, produce
from kappa_operator.pipeline.revision import AUTHENTICATED, LOCAL_DATA
from kappa_pipelines.jars import fetch_jars
from kappa_pipelines.plan.compile import compile_revision
from kappa_pipelines.revision.settings import build_spark_settings
from lab.broker import Broker

SCHEMA = "k BIGINT, v DOUBLE, ts TIMESTAMP, note STRING"
SOURCE = {
    "name": "records",
    "topic": "records",
    "format": {"json": {"schema": SCHEMA}},
    "eventTime": {"column": "ts", "watermark": "10m"},
}
VIEWS = {
    # Rows are aggregated before the shuffle, as in most pipelines.
    "window": "SELECT window(ts, '1 minute') AS w, k, avg(v) AS mean FROM records GROUP BY 1, 2",
    # Every row is shuffled, whole.
    "distinct": "SELECT DISTINCT k, v, ts, note FROM records",
}
SIDES: dict[str, dict[str, str]] = {
    "off": {},
    "network": {**AUTHENTICATED},
    "local": {**AUTHENTICATED, **LOCAL_DATA},
}
EXECUTORS = 2


@dataclass(frozen=True)
class Run:
    """What a query took: seconds, and seconds of processor time of driver and executors."""

    seconds: float
    cpu: float


Runs = dict[str, dict[str, list[Run]]]
"""Runs by query and side."""


def build_spec(view: str) -> dict[str, Any]:
    """Return the pipeline of a query."""
    return {
        "resources": {"executors": {"count": EXECUTORS, "cpu": "1"}},
        "trigger": {"maxRecords": 250_000},
        "sources": [SOURCE],
        "views": [{"name": "result", "sql": VIEWS[view]}],
        "sinks": [
            {"name": "out", "from": "result", "kafka": {"topic": "out", "key": ["k"]}, "mode": "update"}
        ],
    }


def create_session(side: str) -> SparkSession:
    """Return a session with two executor processes. A standalone cluster has the secret as a property, not as a file."""
    chosen = {key: value for key, value in SIDES[side].items() if not key.endswith("secret.file")}
    conf = BASE | {
        "spark.master": f"local-cluster[{EXECUTORS},1,1024]",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1g",
        "spark.shuffle.readHostLocalDisk": "false",
        "spark.jars": ",".join(map(str, fetch_jars())),
        **chosen,
        **({"spark.authenticate.secret": secrets.token_hex(32)} if chosen else {}),
    }
    builder = SparkSession.Builder()
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def run_query(spark: SparkSession, view: str, bootstrap: str, source: str, out: str) -> float:
    """Read the whole topic; return the seconds."""
    session = spark.newSession()
    with tempfile.TemporaryDirectory(prefix="kappa-bench-") as checkpoint:
        topics = {"records": source, "out": out}
        revision = build_revision(build_spec(view), bootstrap, topics, checkpoint)
        for key, value in build_spark_settings(revision).items():
            if key.startswith("spark.sql.") and session.conf.isModifiable(key):
                session.conf.set(key, value)
        writer = compile_revision(session, revision).sinks[0].writer.trigger(availableNow=True)
        begin = time.monotonic()
        query = writer.start()
        query.awaitTermination()
        return time.monotonic() - begin


def serve(side: str) -> None:
    """Run queries that standard input names, one a line; print the seconds of each."""
    spark = create_session(side)
    for line in sys.stdin:
        sys.stdout.write(f"{run_query(spark, *line.split())}\n")
        sys.stdout.flush()
    spark.stop()


class Side:
    """The process of a side."""

    def __init__(self, name: str) -> None:
        command = [sys.executable, __file__, "--serve", name]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._root = psutil.Process(self._process.pid)

    def _measure_cpu(self) -> float:
        """Return the seconds of processor time that its processes have used. None of them ends between two queries."""
        times = [each.cpu_times() for each in (self._root, *self._root.children(recursive=True))]
        return sum(each.user + each.system for each in times)

    def run(self, *words: str) -> Run:
        """Run a query; the first one starts the session."""
        cpu = self._measure_cpu()
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise AssertionError("the process has pipes")
        stdin.write(" ".join(words) + "\n")
        stdin.flush()
        return Run(float(stdout.readline()), self._measure_cpu() - cpu)

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=60)


def measure(bootstrap: str, source: str, rounds: int) -> Runs:
    """Return the runs, the first round dropped; fails if results differ."""
    sides = {name: Side(name) for name in SIDES}
    runs: Runs = {view: {name: [] for name in SIDES} for view in VIEWS}
    names = list(SIDES)
    for turn in range(rounds):
        for view in VIEWS:
            digests = {}
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                out = make_topic(bootstrap, "out")
                took = sides[name].run(view, bootstrap, source, out)
                log(f"{view} {name} round {turn}: {took.seconds:.2f} s, {took.cpu:.2f} s of processor time")
                if turn > 0:
                    runs[view][name].append(took)
                if turn == rounds - 1:
                    digests[name] = digest(bootstrap, out, view)
                drop_topic(bootstrap, out)
            if digests and len(set(digests.values())) != 1:
                raise SystemExit(f"the results of {view} differ: {digests}")
    for side in sides.values():
        side.close()
    return runs


def compare(runs: Runs, side: str, field: str) -> dict[str, float]:
    """Return, by query, how much less a side takes than `off`: 1 is as much, 0.5 twice as much."""
    return {
        view: round(
            statistics.median(
                getattr(off, field) / getattr(on, field)
                for off, on in zip(each["off"], each[side], strict=True)
            ),
            3,
        )
        for view, each in runs.items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="250,000 records, three rounds")
    parser.add_argument("--records", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--serve", choices=SIDES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    count = given.records or (250_000 if given.quick else 1_000_000)
    rounds = given.rounds or (3 if given.quick else 6)
    with Broker(heap_mib=512) as broker:
        source = make_topic(broker.bootstrap, "records")
        size = produce(broker.bootstrap, source, count)
        runs = measure(broker.bootstrap, source, rounds)
    network, local = compare(runs, "network", "seconds"), compare(runs, "local", "seconds")
    network_cpu, local_cpu = compare(runs, "network", "cpu"), compare(runs, "local", "cpu")
    result = {
        "records": count, "bytes": size, "rounds": rounds - 1,
        "encrypted_ratio": min(network.values()), "cpu_ratio": min(network_cpu.values()), "local_ratio": min(local.values()),
        "network": network, "local": local, "network_cpu": network_cpu, "local_cpu": local_cpu,
        "rates": {
            f"{view}_{name}": round(count / statistics.median(run.seconds for run in side))
            for view, each in runs.items()
            for name, side in each.items()
        },
    }  # fmt: skip
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
