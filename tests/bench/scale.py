"""What partitions cost: `python tests/bench/scale.py [--quick] [--partitions 4,40,200,1000] [--part batches,savepoints]`.

`batches`: a driver with two cores reads a topic of so many partitions, with a batch each second, a stateless query and one with windows
in turns. A second has one record in each of four partitions (`few`), or one in every partition (`each`). So the time of a batch and its
processor time are what partitions cost, as records cost next to nothing. Memory is what lives after a collection, and the consumers there.
`--conf KEY=VALUE` changes a setting of Spark, such as `spark.driver.memory=720m`, the heap of a pod of 1,200 MiB.

`savepoints`: a query keeps its state in so many partitions, in a bucket and on a volume. The first savepoint is taken, keys change, and a
second one is taken. Requests to the bucket are counted: those of a batch, and those of a savepoint.

The last line is one JSON object: milliseconds of a batch in the middle, processor milliseconds of the JVM and of Python for each batch,
and seconds of savepoints.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil
from confluent_kafka import Producer

from bench.savepoint import find_done
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.progress import DriverState, Progress, QueryProgress, SavepointProgress
from kappa_crds.revision import Revision
from kappa_crds.stores import BucketConnection
from kappa_operator.pipeline.tuning import build_tuning
from kappa_pipelines.jars import CORE, S3, fetch_jars
from lab.broker import Broker
from lab.s3 import REGION, ObjectStore, Request
from spark.processes import TOKEN, DriverProcess
from spark.revisions import build_revision, source, spark_conf
from spark.topics import Topics

PARTITIONS = (4, 40, 200, 1000)
FEW = 4
"""Records of a second, each in another partition."""
LOADS = ("few", "each")
QUERIES = ("stateless", "window")
STATE_KEYS = 20_000
_PATIENCE = 420.0
_POLL_SECONDS = 0.25
_CONSUMER = "org.apache.kafka.clients.consumer.KafkaConsumer"

_RECORDS = source("records", "k BIGINT, ts TIMESTAMP", eventTime={"column": "ts", "watermark": "10s"})
_SINK = {"name": "out", "from": "rows", "kafka": {"topic": "out", "key": ["k"]}}
_SQL = {
    "stateless": "SELECT k, ts FROM records WHERE k >= 0",
    "window": "SELECT k, window(ts, '1 minute').start AS at, count(*) AS n FROM records"
    " GROUP BY k, window(ts, '1 minute')",
}


def build_spec(query: str, interval: str = "1s", **fields: Any) -> dict[str, Any]:
    """Return the spec of one of the queries."""
    sink = {**_SINK, "mode": "update"} if query == "window" else _SINK
    return {
        "resources": {"driver": {"cpu": "2"}, "executors": {"count": 0}},
        "sources": [_RECORDS],
        "views": [{"name": "rows", "sql": _SQL[query]}],
        "sinks": [sink],
        "trigger": {"interval": interval},
        **fields,
    }


def make_topics(topics: Topics, partitions: int) -> dict[str, str]:
    """Make the topics of a run, and return them once the broker shows all partitions."""
    names = {"records": topics.make("records", partitions), "out": topics.make("out", 4)}
    for _ in range(600):
        known = topics.admin.list_topics(timeout=30).topics
        if [len(known[name].partitions) if name in known else 0 for name in names.values()] == [
            partitions,
            4,
        ]:
            break
        time.sleep(0.1)
    return names


@contextmanager
def feeding(bootstrap: str, topic: str, partitions: int, touched: int, keys: int = 10) -> Iterator[None]:
    """Write a record to each of so many partitions every second, until the context ends."""
    done = threading.Event()

    def feed() -> None:
        producer, begin = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20}), 0
        while not done.wait(1.0):
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            for number in range(begin, begin + touched):
                producer.produce(
                    topic, json.dumps({"k": number % keys, "ts": now}), partition=number % partitions
                )
            begin += touched
            producer.flush()

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def running(revision: Revision, folder: Path) -> Iterator[DriverProcess]:
    """Give a driver that runs."""
    driver = DriverProcess(folder, revision, 1)
    try:
        driver.wait_for("running", lambda p: p.state is DriverState.RUNNING, _PATIENCE)
        yield driver
    finally:
        if driver.process.poll() is None:
            driver.kill()


@dataclass(frozen=True)
class Usage:
    """Processor seconds of a driver so far: of its JVM, and of Python."""

    java: float
    python: float

    @classmethod
    def read(cls, driver: DriverProcess) -> "Usage":
        """Return what the processes of a driver have used."""
        used = {True: 0.0, False: 0.0}
        own = psutil.Process(driver.process.pid)
        for each in (own, *own.children(recursive=True)):
            times = each.cpu_times()
            used[each.name() == "java"] += times.user + times.system
        return cls(used[True], used[False])


def find_jvm(driver: DriverProcess) -> psutil.Process:
    """Return the JVM of a driver."""
    children = psutil.Process(driver.process.pid).children(recursive=True)
    return next(each for each in children if each.name() == "java")


def count_live(jvm: psutil.Process) -> dict[str, int]:
    """Return the megabytes that live in a JVM after a collection, and its consumers."""
    found = subprocess.run(
        ["jcmd", str(jvm.pid), "GC.class_histogram"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    consumers = next((line.split()[1] for line in found if line.split()[3:4] == [_CONSUMER]), "0")
    return {"live_mib": int(found[-1].split()[2]) // 2**20, "consumers": int(consumers)}


def watch(driver: DriverProcess, seconds: float) -> dict[str, Any]:
    """Return what the batches of so many seconds cost, at least three of them."""
    found: dict[int, QueryProgress] = {}
    before, begin, size = Usage.read(driver), time.monotonic(), 0
    while (past := time.monotonic() - begin) < seconds or (len(found) < 4 and past < _PATIENCE):
        text = driver.get("/progress", token=TOKEN)[1]
        query = Progress.model_validate_json(text).queries[0]
        size, found[query.batch_id] = len(text), query
        time.sleep(_POLL_SECONDS)
    after, jvm = Usage.read(driver), find_jvm(driver)
    count = max(found) - min(found)
    return {
        **describe_batches(found),
        "java_ms": round((after.java - before.java) * 1000 / count),
        "python_ms": round((after.python - before.python) * 1000 / count),
        "rss_mib": round(jvm.memory_info().rss / 2**20),
        "files": jvm.num_fds(),
        "threads": jvm.num_threads(),
        **count_live(jvm),
        "report_bytes": size,
    }


def describe_batches(found: Mapping[int, QueryProgress]) -> dict[str, Any]:
    """Return the milliseconds of batches in the middle, with their phases. The first one began before it was watched."""
    batches = [found[number] for number in sorted(found)[1:]]
    return {
        "batches": max(found) - min(found),
        "batch_ms": _middle(batches, "triggerExecution"),
        "rows": round(median(each.input_rows for each in batches)),
        "phases": {
            name: _middle(batches, name)
            for name in ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
        },
    }


def _middle(batches: list[QueryProgress], phase: str) -> int:
    return round(median(each.duration_ms.get(phase, 0) for each in batches))


@dataclass(frozen=True)
class Setting:
    """What all runs have in common."""

    broker: Broker
    seconds: float
    conf: Mapping[str, str]
    loads: tuple[str, ...] = LOADS

    def measure_batches(self, query: str, partitions: int) -> dict[str, dict[str, Any]]:
        """Return what batches of a query cost, by load."""
        topics = Topics(self.broker.bootstrap)
        names = make_topics(topics, partitions)
        spec = build_spec(query)
        figures = {}
        with tempfile.TemporaryDirectory(prefix="kappa-scale-") as kept:
            folder = Path(kept)
            revision = build_revision(
                spec, f"file://{folder}/checkpoint", self.broker.bootstrap, topics=names,
                spark_conf={**spark_conf(), "spark.driver.memory": "2g", **self.conf},
                tuning=build_tuning(PipelineSpec.model_validate(spec), None),
            )  # fmt: skip
            with running(revision, folder) as driver:
                for load in self.loads:
                    touched = FEW if load == "few" else partitions
                    with feeding(self.broker.bootstrap, names["records"], partitions, touched):
                        driver.wait_for("a batch", _has_batch(driver), _PATIENCE)
                        time.sleep(self.seconds / 2)
                        figures[load] = watch(driver, self.seconds)
                    log(f"{query}, {partitions} partitions, {load}: {figures[load]}")
        return figures

    def measure_savepoints(self, place: str, partitions: int) -> dict[str, Any]:
        """Return what batches and two savepoints of a query with so many partitions of its state cost, in a bucket or on a volume."""
        topics = Topics(self.broker.bootstrap)
        names = make_topics(topics, 4)
        with tempfile.TemporaryDirectory(prefix="kappa-scale-") as kept, _store(place, Path(kept)) as store:
            root, bucket, server = store
            jars = ",".join(map(str, fetch_jars(locks=(CORE, S3))))
            spec = build_spec("window", "5s", statePartitions=partitions)
            revision = build_revision(
                spec, f"{root}/checkpoint", self.broker.bootstrap, topics=names, bucket=bucket,
                spark_conf={**spark_conf(), "spark.jars": jars, "spark.driver.memory": "3g", **self.conf},
                tuning=build_tuning(PipelineSpec.model_validate(spec), None),
            )  # fmt: skip
            touched = STATE_KEYS // 10
            with (
                running(revision, Path(kept)) as driver,
                feeding(self.broker.bootstrap, names["records"], 4, touched, STATE_KEYS),
            ):
                driver.wait_for(
                    "three batches", lambda p: p.queries and p.queries[0].batch_id >= 2, _PATIENCE
                )
                counted = Requests(server)
                figures: dict[str, Any] = watch(driver, self.seconds)
                figures["batch_requests"] = round(counted.read_jvm() / figures["batches"])
                log(f"batches, {place}, {partitions} partitions of state: {figures}")
                for name in ("first", "second"):
                    counted = Requests(server)
                    seconds, taken = take(driver, name, f"{root}/savepoints")
                    figures[name] = {
                        "s": round(seconds, 2),
                        "files": taken.files,
                        "mb": round(taken.size_bytes / 1e6, 1),
                        "copied_mb": round(taken.copied_bytes / 1e6, 1),
                        "requests": counted.read_python(),
                    }
                    log(f"{name} savepoint: {figures[name]}")
        log(f"savepoints, {place}, {partitions} partitions: {figures}")
        return figures


def _has_batch(driver: DriverProcess) -> Any:
    known = driver.progress
    before = known.queries[0].batch_id if known is not None and known.queries else -1
    return lambda p: p.queries and p.queries[0].batch_id > before


@contextmanager
def _store(place: str, folder: Path) -> Iterator[tuple[str, BucketConnection | None, ObjectStore | None]]:
    """Give the root of checkpoints and savepoints, and how a bucket is reached."""
    if place == "volume":
        yield f"file://{folder}/store", None, None
        return
    with ObjectStore() as server:
        server.create_bucket("state")
        os.environ.update(AWS_ACCESS_KEY_ID=server.access_key, AWS_SECRET_ACCESS_KEY=server.secret_key)
        yield "s3a://state/scale", BucketConnection(endpoint=server.endpoint, region=REGION), server


class Requests:
    """The requests to a bucket from now on; none on a volume."""

    def __init__(self, server: ObjectStore | None) -> None:
        self._server = server
        self._begin = 0 if server is None else len(server.list_requests())

    def read_jvm(self) -> int:
        """Return those of the JVM, for batches."""
        return sum(each.of_jvm for each in self._list())

    def read_python(self) -> int:
        """Return those of the driver's Python, for savepoints."""
        return sum(not each.of_jvm for each in self._list())

    def _list(self) -> list[Request]:
        return [] if self._server is None else self._server.list_requests(self._begin)


def take(driver: DriverProcess, name: str, location: str) -> tuple[float, SavepointProgress]:
    """Have a savepoint taken; return its seconds and what the driver reports of it."""
    begin = time.monotonic()
    status = driver.post(f"/savepoints/{name}?location={location}")
    if status != 202:
        raise SystemExit(f"the driver takes no savepoint: {status}")
    done = driver.wait_for(f"savepoint {name}", lambda p: find_done(p, name), _PATIENCE)
    found = find_done(done, name)
    if found is None or found.failure is not None:
        raise SystemExit(f"{name} was not taken: {found}")
    return time.monotonic() - begin, found


def log(text: str) -> None:
    """Print progress to the user."""
    sys.stderr.write(text + "\n")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="4 and 1,000 partitions, ten seconds each")
    parser.add_argument("--partitions", default=",".join(map(str, PARTITIONS)))
    parser.add_argument("--part", default="batches,savepoints")
    parser.add_argument("--queries", default=",".join(QUERIES))
    parser.add_argument("--loads", default=",".join(LOADS))
    parser.add_argument("--places", default="volume,bucket")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="settings of Spark")
    asked = parser.parse_args()
    counts = [4, 1000] if asked.quick else [int(each) for each in asked.partitions.split(",")]
    result: dict[str, Any] = {"load": round(os.getloadavg()[0], 1)}
    with Broker(heap_mib=512) as broker:
        conf = dict(each.split("=", 1) for each in asked.conf)
        setting = Setting(broker, 10.0 if asked.quick else asked.seconds, conf, tuple(asked.loads.split(",")))
        if "batches" in asked.part:
            for query in asked.queries.split(","):
                result[query] = {each: setting.measure_batches(query, each) for each in counts}
        if "savepoints" in asked.part:
            for place in asked.places.split(","):
                result[place] = {each: setting.measure_savepoints(place, each) for each in counts}
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
