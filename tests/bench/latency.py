"""From a record's production to its row's consumption: `python tests/bench/latency.py [--quick] [--rate 100]`.

A pipeline in real-time mode, from a manifest, runs in the driver as a process of its own, with what the operator would size for it,
on a Kafka broker of its own. This process produces records at an even rate and consumes the rows; each record carries
the time at which it was handed to the producer, and the same clock is read when its row is in hand. The measured time is a whole period
of checkpoints or more, so that the pause between two batches is in the figures. With `--batches` the same pipeline
runs in batches as fast as they come, for comparison. `kafka_p99_ms` is the time from production to consumption without the pipeline,
in the same run. The last line is one JSON object, in milliseconds.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import yaml
from confluent_kafka import Consumer, Producer

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.progress import DriverState
from kappa_operator.pipeline.tuning import build_tuning
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
WARM_UP_SECONDS = 20.0
PATIENCE_SECONDS = 30.0
WANTED_MS = 50.0


class Reader(threading.Thread):
    """Notes for each record of a topic how long it took, in milliseconds, with the moment at which it was sent."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.taken: list[tuple[int, float]] = []
        self.ending = False
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": f"latency-{topic}",
            "auto.offset.reset": "earliest",
        }
        self._consumer = Consumer({**settings, "fetch.wait.max.ms": 5})
        self._consumer.subscribe([topic])

    def run(self) -> None:
        """Read until the end is requested."""
        while not self.ending:
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                sent = json.loads(message.value() or b"{}")["sent"]
                self.taken.append((sent, (time.monotonic_ns() - sent) / 1e6))
        self._consumer.close()

    def since(self, begin: int) -> list[tuple[int, float]]:
        """Return what was noted of records that were sent at a moment or later."""
        return [(sent, ms) for sent, ms in self.taken if sent >= begin]


def produce(bootstrap: str, topic: str, rate: float, seconds: float) -> int:
    """Write records at an even rate, each with the moment at which it is sent; return how many."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    begin, count = time.monotonic(), 0
    while (now := time.monotonic() - begin) < seconds:
        while count < now * rate:
            value = {"n": count, "sent": time.monotonic_ns(), "note": "delayed by weather"}
            producer.produce(topic, json.dumps(value), partition=count % PARTITIONS)
            count += 1
        producer.poll(0)
        time.sleep(0.0005)
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


def measure(bootstrap: str, names: dict[str, str], rate: float, seconds: float) -> dict[str, Any]:
    """Produce and consume through a driver that runs: first to warm up, then to measure.

    The records are also read where they were written, for what Kafka and this process take of the time.
    """
    rows, events = readers = [Reader(bootstrap, names[topic]) for topic in ("rows", "events")]
    for reader in readers:
        reader.start()
    produce(bootstrap, names["events"], rate, WARM_UP_SECONDS)
    begin = time.monotonic_ns()
    sent = produce(bootstrap, names["events"], rate, seconds)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(found := rows.since(begin)) < sent:
        if time.monotonic() > deadline:
            raise SystemExit(f"{sent - len(found)} of {sent} records did not come")
        time.sleep(0.2)
    for reader in readers:
        reader.ending = True
        reader.join()
    kafka = summarize([ms for _, ms in events.since(begin)])
    counts = {"records": sent, "slow_seconds": count_slow_seconds(found), "kafka_p99_ms": kafka["p99_ms"]}
    return summarize([ms for _, ms in found]) | counts


def build_spec(*, batches: bool) -> dict[str, Any]:
    """Return the manifest's spec, or the same pipeline in batches as fast as they come."""
    spec: dict[str, Any] = yaml.load(MANIFEST, yaml.CSafeLoader)["spec"]
    return {**spec, "trigger": {}} if batches else spec


def run(spec: dict[str, Any], rate: float, seconds: float) -> dict[str, Any]:
    """Start broker and driver, and measure."""
    with Broker() as broker, tempfile.TemporaryDirectory(prefix="kappa-latency-") as folder:
        topics = Topics(broker.bootstrap)
        names = {name: topics.make(name, PARTITIONS) for name in ("events", "rows")}
        tuning = build_tuning(PipelineSpec.model_validate(spec), None)
        checkpoint = Path(folder) / "checkpoint"
        revision = build_revision(spec, checkpoint, broker.bootstrap, topics=names, tuning=tuning)
        driver = DriverProcess(Path(folder), revision, 1)
        try:
            driver.wait_for("running", lambda p: p.state is DriverState.RUNNING)
            return measure(broker.bootstrap, names, rate, seconds)
        finally:
            driver.kill()


def main() -> None:
    """Measure and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--rate", type=float, default=100.0, help="records a second")
    parser.add_argument("--batches", action="store_true", help="batches instead of real-time mode")
    parser.add_argument(
        "--quick", action="store_true", help="twenty seconds, which no pause between batches is in"
    )
    asked = parser.parse_args()
    seconds = 20.0 if asked.quick else asked.seconds
    figures = run(build_spec(batches=asked.batches), asked.rate, seconds)
    print(json.dumps({**figures, "rate": asked.rate, "load": round(os.getloadavg()[0], 1)}))


if __name__ == "__main__":
    main()
