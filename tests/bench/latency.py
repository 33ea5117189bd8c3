"""From a record's production to its row's consumption: `python tests/bench/latency.py [--quick] [--rate 100] [--sides kafka,kappa,streams]`.

A pipeline in real-time mode, from a manifest, runs in the driver as a process of its own, with what the operator would size for it, and a
topology of Kafka Streams does the same, with the same settings of producers; both write at least once. The sides run in turns on one broker,
each with topics of its own: `kafka` is the time without any of them. `batches` is the same pipeline in batches as fast as they come.

This process produces records at an even rate and consumes the rows; each record carries the time at which it was handed to the producer,
and the same clock is read when its row is in hand. With `--seconds 300` a whole period of checkpoints is measured, so that the pause
between two batches is in the figures. Each row is checked, and that none is missing.

The last line is one JSON object: milliseconds by side over all rounds, and `p50_ratio` and `p99_ratio`, those of Kappa by those of Kafka Streams.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil
import yaml
from confluent_kafka import Consumer, Producer

from bench.peer_sides import Side
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.progress import DriverState
from kappa_operator.pipeline.tuning import PRODUCER, REAL_TIME, build_tuning
from lab.broker import Broker
from spark.processes import DriverProcess
from spark.revisions import build_revision
from spark.topics import Topics

MANIFEST = """
apiVersion: kappa-platform.io/v1alpha1
kind: Pipeline
metadata: {name: latency}
spec:
  sources: [{name: events, topic: events, format: {json: {schema: "n BIGINT, sent BIGINT, note STRING"}}}]
  views: [{name: marked, sql: "SELECT *, upper(note) AS mark FROM events WHERE n >= 0"}]
  sinks: [{name: rows, from: marked, kafka: {topic: rows, key: [n]}}]
  trigger: {realTime: {checkpointInterval: 5m}}
  stopTimeout: 6m
  resources: {driver: {cpu: "2"}, executors: {count: 0}}
"""
PARTITIONS = 2
NOTE = "delayed by weather"
WARM_UP_SECONDS = 20.0
PATIENCE_SECONDS = 60.0
WANTED_MS = 50.0
_SWITCH_SECONDS = 0.0005
"""How long a thread of this process waits for another one at most; Python's default of 5 ms would be in each figure."""


class Reader(threading.Thread):
    """Notes for each record of a topic how long it took, in milliseconds, with its number and the moment at which it was sent."""

    def __init__(self, bootstrap: str, topic: str, *, is_marked: bool) -> None:
        super().__init__(daemon=True)
        self.taken: list[tuple[int, int, float]] = []
        self.wrong = 0
        self.ending = False
        self._is_marked = is_marked
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": f"latency-{topic}",
            "auto.offset.reset": "earliest",
        }
        self._consumer = Consumer(settings)
        self._consumer.subscribe([topic])

    def run(self) -> None:
        """Read until the end is requested."""
        while not self.ending:
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                now = time.monotonic_ns()
                row = json.loads(message.value() or b"{}")
                self.taken.append((row["n"], row["sent"], (now - row["sent"]) / 1e6))
                if self._is_marked and row.get("mark") != NOTE.upper():
                    self.wrong += 1
        self._consumer.close()

    def since(self, begin: int) -> dict[int, tuple[int, float]]:
        """Return what was noted first of each record that was sent at a moment or later, by its number."""
        found: dict[int, tuple[int, float]] = {}
        for number, sent, ms in self.taken:
            if sent >= begin:
                found.setdefault(number, (sent, ms))
        return found


def produce(bootstrap: str, topic: str, rate: float, seconds: float) -> int:
    """Write records at an even rate, each with the moment at which it is sent; return how many."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
    begin, count = time.monotonic(), 0
    while (now := time.monotonic() - begin) < seconds:
        while count < now * rate:
            value = {"n": count, "sent": time.monotonic_ns(), "note": NOTE}
            producer.produce(topic, json.dumps(value), partition=count % PARTITIONS)
            count += 1
        producer.poll(0)
        time.sleep(0.001)
    assert producer.flush(30) == 0
    return count


def summarize(milliseconds: list[float]) -> dict[str, float]:
    """Return the quantiles of all records."""
    cuts = statistics.quantiles(milliseconds, n=1000, method="inclusive")
    quantiles = {"p50_ms": cuts[499], "p95_ms": cuts[949], "p99_ms": cuts[989], "p999_ms": cuts[998]}
    return {name: round(value, 1) for name, value in {**quantiles, "max_ms": max(milliseconds)}.items()}


def count_slow_seconds(taken: list[tuple[int, float]]) -> int:
    """Return in how many of the seconds a record took longer than wanted: few, with a pause between batches; many, with a busy machine."""
    return len({sent // 1_000_000_000 for sent, ms in taken if ms > WANTED_MS})


def measure(
    bootstrap: str, source: str, out: str, rate: float, seconds: float, used: Callable[[], float]
) -> tuple[list[tuple[int, float]], dict[str, float]]:
    """Produce and consume through what runs between two topics: first to warm up, then to measure.

    Return when each record was sent and what it took, and figures of the run. `used` returns the processor seconds of what runs.
    """
    reader = Reader(bootstrap, out, is_marked=out != source)
    reader.start()
    produce(bootstrap, source, rate, WARM_UP_SECONDS)
    begin, before = time.monotonic_ns(), used()
    sent = produce(bootstrap, source, rate, seconds)
    cpu = used() - before
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(found := reader.since(begin)) < sent:
        if time.monotonic() > deadline:
            raise SystemExit(f"{sent - len(found)} of {sent} records did not come")
        time.sleep(0.2)
    reader.ending = True
    reader.join()
    if reader.wrong:
        raise SystemExit(f"{reader.wrong} rows are wrong")
    return list(found.values()), {"cpu": round(cpu / seconds, 2)}


def build_spec(*, batches: bool) -> dict[str, Any]:
    """Return the manifest's spec, or the same pipeline in batches as fast as they come."""
    spec: dict[str, Any] = yaml.load(MANIFEST, yaml.CSafeLoader)["spec"]
    return {**spec, "trigger": {}} if batches else spec


@contextmanager
def run_driver(
    bootstrap: str, names: Mapping[str, str], folder: Path, *, batches: bool
) -> Iterator[Callable[[], float]]:
    """Run a driver; the context is a function that returns its processor seconds."""
    spec = build_spec(batches=batches)
    tuning = build_tuning(PipelineSpec.model_validate(spec), None)
    revision = build_revision(spec, folder / "checkpoint", bootstrap, topics=names, tuning=tuning)
    driver = DriverProcess(folder, revision, 1)
    try:
        driver.wait_for("running", lambda p: p.state is DriverState.RUNNING)
        yield lambda: _measure_cpu(driver.process.pid)
    finally:
        driver.kill()


@contextmanager
def run_streams(bootstrap: str, names: Mapping[str, str], folder: Path) -> Iterator[Callable[[], float]]:
    """Run the topology of Kafka Streams, with its own defaults except for the settings that a driver has as well."""
    options = {
        "query": "latency",
        "source": names["events"],
        "out": names["rows"],
        "records": str(2**62),
        "application.id": names["rows"],
        "bootstrap.servers": bootstrap,
        "num.stream.threads": str(PARTITIONS),
        "state.dir": f"{folder}/state",
        "consumer.auto.offset.reset": "earliest",
        "consumer.isolation.level": "read_committed",
        **{f"producer.{name}": value for name, value in {**PRODUCER, **REAL_TIME}.items()},
    }
    request = folder / "request"
    request.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    with Side("streams") as side:
        side.begin(str(request))
        yield side.measure


def run_nothing() -> AbstractContextManager[Callable[[], float]]:
    """Have the records read where they are written."""

    @contextmanager
    def give() -> Iterator[Callable[[], float]]:
        yield lambda: 0.0

    return give()


def _measure_cpu(pid: int) -> float:
    own = psutil.Process(pid)
    times = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def run(
    broker: Broker, side: str, rate: float, seconds: float
) -> tuple[list[tuple[int, float]], dict[str, float]]:
    """Start one side and measure it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kappa-latency-")))
        topics = Topics(broker.bootstrap)
        names = {name: topics.make(name, PARTITIONS) for name in ("events", "rows")}
        if side == "kafka":
            names["rows"] = names["events"]
            used = stack.enter_context(run_nothing())
        elif side == "streams":
            used = stack.enter_context(run_streams(broker.bootstrap, names, folder))
        else:
            used = stack.enter_context(run_driver(broker.bootstrap, names, folder, batches=side == "batches"))
        return measure(broker.bootstrap, names["events"], names["rows"], rate, seconds, used)


def main() -> None:
    """Measure and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--rate", type=float, default=100.0, help="records a second")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--sides", default="kafka,kappa,streams")
    parser.add_argument(
        "--quick", action="store_true", help="twenty seconds, which no pause between batches is in"
    )
    asked = parser.parse_args()
    sys.setswitchinterval(_SWITCH_SECONDS)
    seconds, sides = 20.0 if asked.quick else asked.seconds, asked.sides.split(",")
    taken: dict[str, list[tuple[int, float]]] = {side: [] for side in sides}
    result: dict[str, Any] = {"rate": asked.rate, "seconds": seconds}
    with Broker(heap_mib=512) as broker:
        for _ in range(asked.rounds):
            for side in sides:
                found, further = run(broker, side, asked.rate, seconds)
                taken[side] += found
                result[side] = summarize([ms for _, ms in taken[side]]) | further
                result[side]["slow_seconds"] = count_slow_seconds(taken[side])
                sys.stderr.write(f"{side}: {summarize([ms for _, ms in found])} {further}\n")
    if "kappa" in result and "streams" in result:
        for name in ("p50", "p99"):
            kappa, streams = (result[side][f"{name}_ms"] for side in ("kappa", "streams"))
            result[f"{name}_ratio"] = round(kappa / streams, 2)
    print(json.dumps({**result, "load": round(os.getloadavg()[0], 1)}))


if __name__ == "__main__":
    main()
