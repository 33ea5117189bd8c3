"""How a pipeline works off a backlog, with batches of so many records and with those that its time bounds (ADR 96).

`python tests/bench/backlog.py [--quick] [--records N] [--rounds N] [--query NAME]`. Each run is a driver in a new process, as after a downtime.
Both sides read the same log, in turns. `fixed` has the `maxRecords` that was the default before, `timed` has none.

- `window`: a mean by key and minute, some hundred thousand records per second
- `sliding`: for each record a mean of its key over the last three minutes, some hundred thousand at most

The last line is one JSON object, by query and side: `seconds` from the start of the query until all is committed, `longest_s` the longest
batch, for which a stop, a savepoint and a fresh record wait, `batches`, and `peak_mib` of the process and its JVM. Medians over the rounds;
`total_ratio` is `seconds` of `timed` by `fixed`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil

from bench.driver_runs import measure_run
from bench.peer_sides import read_peak
from bench.spark_queries import BASE, SPECS, build_revision, create_session
from bench.throughput import digest, drop_topic, log, make_topic, produce
from kappa_pipelines.driver.driver import Driver
from kappa_pipelines.revision.environment import Environment
from lab import spark_home
from lab.broker import Broker

_DEADLINE = 460.0
_FIXED = {"maxRecords": 4_000_000}
_SLIDING = {
    "from": "records",
    "key": ["k"],
    "length": "3m",
    "aggregates": {"n": "count(*)", "mean": "avg(v)"},
}
QUERIES: dict[str, dict[str, Any]] = {
    "window": SPECS["window"],
    "sliding": {
        **SPECS["window"],
        "views": [{"name": "means", "sliding": _SLIDING}],
        "sinks": [{"name": "out", "from": "means", "kafka": {"topic": "out", "key": ["k"]}}],
    },
}
SIDES: dict[str, dict[str, Any]] = {"fixed": _FIXED, "timed": {}}
RECORDS = {"window": 3_000_000, "sliding": 4_000_000}
QUICK_RECORDS = 200_000


def work_off(query: str, side: str, bootstrap: str, topic: str, out: str, count: int) -> dict[str, float]:
    """Run a driver in this process until it has read the log; return its figures."""
    spec = {**QUERIES[query], "trigger": SIDES[side]}
    spark = create_session()
    batches: list[int] = []

    def note_batches() -> bool:
        found = [each for running in spark.streams.active for each in running.recentProgress]
        batches.extend(each.durationMs["triggerExecution"] for each in found if each.numInputRows > 0)
        return True

    with tempfile.TemporaryDirectory(prefix="kappa-bench-") as checkpoint:
        revision = build_revision(spec, bootstrap, {"records": topic, "out": out}, checkpoint)
        changed = {"uid": uuid.uuid4().hex, "spark_conf": {"spark.master": BASE["spark.master"]}}
        driver = Driver(revision.model_copy(update=changed), Environment(1))
        seconds = measure_run(driver, count, _DEADLINE, note_batches)
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        peak = sum(read_peak(each.pid) for each in processes)
    log(f"{query} {side}: {seconds:.1f} s, batches {batches} ms, {peak:.0f} MiB")
    figures = {
        "seconds": seconds,
        "longest_s": max(batches) / 1000,
        "batches": len(batches),
        "peak_mib": peak,
    }
    return {name: round(value, 2) for name, value in figures.items()}


def measure(query: str, bootstrap: str, count: int, rounds: int) -> dict[str, Any]:
    """Return the median figures of both sides, and their ratio of seconds; SystemExit if their results differ."""
    topic = make_topic(bootstrap, "records")
    produce(bootstrap, topic, count)
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    digests = {}
    for turn in range(rounds):
        for side in SIDES if turn % 2 == 0 else reversed(SIDES):
            out = make_topic(bootstrap, "out")
            command = [sys.executable, __file__, "--one", query, side, bootstrap, topic, out, str(count)]
            environment = {**os.environ, **spark_home.environment()}
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
            found[side].append(json.loads(done.stdout.splitlines()[-1]))
            if turn == 0 and query == "window":
                digests[side] = digest(bootstrap, out, query)
            drop_topic(bootstrap, out)
    if len(set(digests.values())) > 1:
        raise SystemExit(f"the results differ: {digests}")
    drop_topic(bootstrap, topic)
    sides = {
        side: {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        for side, runs in found.items()
    }
    ratio = sides["timed"]["seconds"] / sides["fixed"]["seconds"]
    return {"records": count, "total_ratio": round(ratio, 3), **sides}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_RECORDS} records, one round")
    parser.add_argument("--records", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--query", choices=sorted(QUERIES))
    parser.add_argument("--one", nargs=6, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        query, side, bootstrap, topic, out, count = given.one
        print(json.dumps(work_off(query, side, bootstrap, topic, out, int(count))))
        return
    result = {}
    with Broker(heap_mib=512) as broker:
        for query in [given.query] if given.query else QUERIES:
            records = given.records or (QUICK_RECORDS if given.quick else RECORDS[query])
            rounds = given.rounds or (1 if given.quick else 3)
            result[query] = measure(query, broker.bootstrap, records, rounds)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
