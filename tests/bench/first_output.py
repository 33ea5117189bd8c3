"""How long it takes on the local cluster from `kubectl apply` of a Pipeline to the first record in its output topic.

Kafka cluster, topics, state store and records are there before. The installation has the chart's default options of the JVM. Each round applies
a pipeline of its own name, which counts in windows, and deletes it. The phases come from a watch of its driver pod and the lines that the
driver logs:

- `decide`: until the operator has created the pod
- `container`: until the container runs
- `imports` … `query`: the phases of the driver, as `start.py` has them; `imports` begins when the container runs
- `output`: until a consumer has the first record

Times of the watch are those of arrival. `bench.start --cluster` runs it. To measure an earlier commit, copy this file into a checkout of it and run
`PYTHONPATH=tests python -m bench.first_output` there: that builds its images, and installs its chart.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from lab.paths import BIN, KUBECONFIG

os.environ["KUBECONFIG"] = str(KUBECONFIG)  # the Kubernetes client reads it when it is imported

from confluent_kafka import Consumer, TopicPartition

import platform_switch
from bench.throughput import produce
from e2e.driver_watch import read_documents
from e2e.installation import change_values, install, remove_places
from e2e.place import Place
from lab import kafka

RECORDS = 10_000
ROUNDS, QUICK_ROUNDS = 5, 2
PARTITIONS = 4
_DEADLINE = 240.0
_EVENTS = {
    "imports": "control server started",
    "checks": "kafka is available",
    "session": "session started",
    "compile": "plan compiled",
    "query": "queries started",
}
SURROUNDINGS = """
apiVersion: kappa-platform.io/v1alpha1
kind: KafkaCluster
metadata: {name: main}
spec: {bootstrapServers: ["kafka.kafka.svc:9092"]}
---
apiVersion: kappa-platform.io/v1alpha1
kind: StateStore
metadata: {name: default}
spec: {pvc: {size: 1Gi}}
"""
_TOPIC = """
---
apiVersion: kappa-platform.io/v1alpha1
kind: Topic
metadata: {name: NAME}
spec: {topicName: SPACE-NAME, partitions: 4, deletionPolicy: Delete}
"""
_PIPELINE = """
apiVersion: kappa-platform.io/v1alpha1
kind: Pipeline
metadata: {name: first-NUMBER}
spec:
  sources:
    - name: records
      topic: records
      format: {json: {schema: "k BIGINT, v DOUBLE, ts TIMESTAMP, note STRING"}}
      eventTime: {column: ts, watermark: 10m}
  views:
    - {name: means, sql: "SELECT window(ts, '1 minute') AS w, k, avg(v) AS mean FROM records GROUP BY 1, 2"}
  sinks:
    - {name: out, from: means, kafka: {topic: out-NUMBER, key: [k]}, mode: update}
  resources:
    driver: {cpu: 500m, memory: 1600Mi}
    executors: {count: 0}
"""


class PodWatch(threading.Thread):
    """Notes when the driver pod was created, and when its container runs. Use as a context."""

    def __init__(self, namespace: str) -> None:
        super().__init__(daemon=True)
        self.times: dict[str, float] = {}
        self._process = subprocess.Popen(
            [
                *(str(BIN / "kubectl"), f"--kubeconfig={KUBECONFIG}", "get", "pods", "-n", namespace),
                *("--selector=kappa-platform.io/role=driver", "--watch", "-o", "json"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "PodWatch":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def run(self) -> None:
        """Read the watch until it is ended."""
        assert self._process.stdout is not None
        for pod in read_documents(self._process.stdout):
            self.times.setdefault("decide", time.time())
            states = [each["state"] for each in pod.get("status", {}).get("containerStatuses", [])]
            if any("running" in state for state in states):
                self.times.setdefault("container", time.time())


def log(text: str) -> None:
    """Print progress to the user."""
    sys.stderr.write(text + "\n")


@contextmanager
def prepare_place(rounds: int) -> Iterator[Place]:
    """Give a namespace with everything but the pipelines."""
    place = Place.create("redeploy")
    names = ["records", *(f"out-{number}" for number in range(rounds))]
    topics = "".join(_TOPIC.replace("NAME", name).replace("SPACE", place.name) for name in names)
    place.apply(SURROUNDINGS + topics)
    for name in names:
        place.await_ready(f"topics.kappa-platform.io/{name}", 60)
    place.await_ready("statestore/default", 120)
    produce(kafka.host_bootstrap(), f"{place.name}-records", RECORDS)
    yield place
    place.empty()


def measure_first_output(place: Place, number: int) -> dict[str, float]:
    """Apply a pipeline, wait for its first record, and return the seconds until the end of each phase."""
    consumer = Consumer({"bootstrap.servers": kafka.host_bootstrap(), "group.id": "first-output"})
    out = f"{place.name}-out-{number}"
    consumer.assign([TopicPartition(out, part, 0) for part in range(PARTITIONS)])
    consumer.poll(1.0)
    with PodWatch(place.name) as watch:
        begin = time.time()
        place.apply(_PIPELINE.replace("NUMBER", str(number)))
        while (message := consumer.poll(1.0)) is None or message.error() is not None:
            if time.time() - begin > _DEADLINE:
                place.fail("there was no output")
        output = time.time()
    consumer.close()
    ends = {**watch.times, **_read_log(place, f"first-{number}-driver-1"), "output": output}
    place.kubectl("delete", "pipeline", f"first-{number}", "--timeout=60s")
    return {name: at - begin for name, at in ends.items()}


def _read_log(place: Place, pod: str) -> dict[str, float]:
    lines = place.kubectl("logs", pod).splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    at = {each["event"]: datetime.fromisoformat(each["timestamp"]).timestamp() for each in found}
    return {name: at[text] for name, text in _EVENTS.items()}


def run(rounds: int, *, build: bool = True) -> dict[str, Any]:
    """Return `first_output_s`, the median of all rounds, and the medians of their phases. One round before them fills the page cache.

    Without `build` the cluster runs the images that it has.
    """
    found: list[dict[str, float]] = []
    with platform_switch.with_operator():
        if build:
            install()
        change_values({"pipelines.javaOptions": ""})
        try:
            with prepare_place(rounds + 1) as place:
                for number in range(rounds + 1):
                    ends = measure_first_output(place, number)
                    log(", ".join(f"{name} {at:.2f}" for name, at in ends.items()))
                    found.append(ends)
        finally:
            remove_places(of_this_session=True)
    measured = found[1:] or found
    phases: dict[str, float] = {}
    for before, name in zip([None, *measured[0]], measured[0], strict=False):
        lengths = [ends[name] - (ends[before] if before else 0.0) for ends in measured]
        phases[name] = round(statistics.median(lengths), 2)
    return {
        "first_output_s": round(statistics.median(ends["output"] for ends in measured), 2),
        "first_output_phases": phases,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds instead of {ROUNDS}")
    parser.add_argument("--installed", action="store_true", help="measure the images that the cluster has")
    arguments = parser.parse_args()
    print(json.dumps(run(QUICK_ROUNDS if arguments.quick else ROUNDS, build=not arguments.installed)))


if __name__ == "__main__":
    main()
