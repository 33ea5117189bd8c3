"""Which settings make the runtime faster: `python tests/bench/variants.py [--quick] [--records N] [--rounds N] [--only NAME,…]`.

The queries of `throughput.py`, as the operator would run them, read the same records with the defaults and with one setting changed, in
turns: task slots, input splits, and settings of producers and consumers. All run in one warm JVM, but for other task slots, which have a
JVM of their own on the same cores. The defaults run twice in each round, so `again` is what chance does.

Each round gives the ratio of the rate of a variant to that of the defaults; the first round is not counted. The last line is one JSON
object with the ratio in the middle, the least and the greatest one of each variant, by query.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from bench.spark_queries import BASE, CORES, SPECS, build_revision, create_session
from bench.throughput import drop_topic, ends, log, make_topic, produce
from kappa_crds.revision import Revision
from kappa_pipelines.plan.compile import compile_revision
from kappa_pipelines.revision.settings import build_spark_settings
from lab.broker import Broker

DEFAULTS, AGAIN = "defaults", "again"
KILO, MEGA = 1024, 1024 * 1024


@dataclass(frozen=True)
class Variant:
    """What differs from the defaults."""

    slots: int = CORES
    splits: int | None = None
    consumer: Mapping[str, Any] = field(default_factory=dict)
    producer: Mapping[str, Any] = field(default_factory=dict)

    def apply(self, revision: Revision) -> Revision:
        """Return the revision with it."""
        tuning = revision.tuning
        changes = {
            "consumer": tuning.consumer | _as_text(self.consumer),
            "producer": tuning.producer | _as_text(self.producer),
            "min_partitions": self.splits,
        }
        return revision.model_copy(update={"tuning": tuning.model_copy(update=changes)})


def _as_text(settings: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in settings.items()}


VARIANTS = {
    DEFAULTS: Variant(),
    "slots-4": Variant(slots=4),
    "splits-8": Variant(splits=8),
    "splits-16": Variant(splits=16),
    "linger-0": Variant(producer={"linger.ms": 0}),
    "linger-500": Variant(producer={"linger.ms": 500}),
    "batch-128k": Variant(producer={"batch.size": 128 * KILO}),
    "batch-1m": Variant(producer={"batch.size": MEGA}),
    "buffer-128m": Variant(producer={"buffer.memory": 128 * MEGA, "batch.size": MEGA}),
    "uncompressed": Variant(producer={"compression.type": "none"}),
    "zstd": Variant(producer={"compression.type": "zstd"}),
    "receive-1m": Variant(consumer={"receive.buffer.bytes": MEGA}),
    "receive-kernel": Variant(consumer={"receive.buffer.bytes": -1}),
    "fetch-1m": Variant(consumer={"max.partition.fetch.bytes": MEGA}),
    "fetch-32m": Variant(consumer={"max.partition.fetch.bytes": 32 * MEGA}),
    AGAIN: Variant(),
}


def run(session: SparkSession, query: str, variant: Variant, bootstrap: str, topics: dict[str, str]) -> float:
    """Read the whole topic with a query, and return the seconds until its last batch is committed."""
    own = session.newSession()
    with tempfile.TemporaryDirectory(prefix="kappa-bench-") as checkpoint:
        revision = variant.apply(build_revision(SPECS[query], bootstrap, topics, checkpoint))
        for key, value in build_spark_settings(revision).items():
            if key.startswith("spark.sql.") and own.conf.isModifiable(key):
                own.conf.set(key, value)
        writer = compile_revision(own, revision).sinks[0].writer.trigger(availableNow=True)
        begin = time.monotonic()
        writer.start().awaitTermination()
        return time.monotonic() - begin


def work(slots: int) -> None:
    """Run what the lines of the input name, each with its seconds as an answer."""
    BASE["spark.master"] = f"local[{slots}]"
    session = create_session()
    for line in sys.stdin:
        name, query, bootstrap, topics = json.loads(line)
        seconds = run(session, query, VARIANTS[name], bootstrap, topics)
        sys.stdout.write(f"\nseconds {seconds}\n")
        sys.stdout.flush()


class Worker:
    """A JVM with so many task slots."""

    def __init__(self, slots: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--slots", str(slots)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, *wanted: Any) -> float:
        """Return the seconds of a query with a variant."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(wanted) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("seconds "):
                return float(line.split()[1])
        raise SystemExit(f"{wanted} failed: the process ended with {self.process.wait()}")


@contextmanager
def workers(names: list[str]) -> Iterator[dict[int, Worker]]:
    """Give a JVM for each number of task slots."""
    found = {slots: Worker(slots) for slots in sorted({VARIANTS[name].slots for name in names})}
    try:
        yield found
    finally:
        for each in found.values():
            each.process.communicate()


def measure(broker: Broker, names: list[str], count: int, rounds: int) -> dict[str, Any]:
    """Return the ratios to the defaults, by query and variant."""
    source = make_topic(broker.bootstrap, "records")
    produce(broker.bootstrap, source, count)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    ratios: dict[str, dict[str, list[float]]] = {query: {name: [] for name in names} for query in SPECS}
    rates: dict[str, list[float]] = {query: [] for query in SPECS}
    with workers(names) as by_slots:
        for turn in range(rounds + 1):
            for query in SPECS:
                seconds = {}
                for name in names if turn % 2 else [names[0], *reversed(names[1:])]:
                    topics = {"records": source, "out": make_topic(broker.bootstrap, "out")}
                    seconds[name] = by_slots[VARIANTS[name].slots].run(name, query, broker.bootstrap, topics)
                    written = sum(ends(admin, topics["out"]).values())
                    log(f"{query} {name} round {turn}: {seconds[name]:.2f} s, {written} records")
                    if written < count and query == "passthrough":
                        raise SystemExit(f"{name} has lost records")
                    drop_topic(broker.bootstrap, topics["out"])
                if turn > 0:
                    rates[query].append(count / seconds[DEFAULTS])
                    for name in names:
                        ratios[query][name].append(seconds[DEFAULTS] / seconds[name])
    return {
        query: {
            "records_s": round(statistics.median(rates[query])),
            **{name: _describe(found) for name, found in ratios[query].items() if name != DEFAULTS},
        }
        for query in SPECS
    }


def _describe(found: list[float]) -> list[float]:
    return [round(each, 3) for each in (statistics.median(found), min(found), max(found))]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="200,000 records, one round")
    parser.add_argument("--records", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", default=",".join(VARIANTS), help="variants, besides the defaults")
    parser.add_argument("--slots", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.slots is not None:
        work(asked.slots)
        return
    names = [name for name in VARIANTS if name in (DEFAULTS, AGAIN, *asked.only.split(","))]
    count = asked.records or (200_000 if asked.quick else 1_000_000)
    rounds = asked.rounds or (1 if asked.quick else 5)
    load = round(os.getloadavg()[0], 1)
    with Broker(heap_mib=512) as broker:
        found = measure(broker, names, count, rounds)
    sys.stdout.write(json.dumps({"load": load, "records": count, "rounds": rounds, **found}) + "\n")


if __name__ == "__main__":
    main()
