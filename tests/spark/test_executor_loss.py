"""Savepoints while executors are lost: four executor processes, of which one is killed with each savepoint. The counts stay exact."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyspark
import pytest
from confluent_kafka import Producer

from bench.savepoint import find_done
from kappa_crds.progress import DriverState, SavepointProgress
from kappa_crds.revision import Tuning
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.savepoint.restore import restore_savepoint
from kappa_pipelines.savepoint.store import SavepointStore
from spark.processes import DriverProcess
from spark.revisions import CONSUMER, PRODUCER, build_revision, source, spark_conf

EXECUTORS, PARTITIONS, KEYS, KILLS = 4, 20, 50, 3
SETTINGS = {
    **spark_conf(),
    "spark.master": f"local-cluster[{EXECUTORS},1,700]",
    "spark.executor.instances": str(EXECUTORS),
    "spark.executor.cores": "1",
    "spark.executor.memory": "600m",
}
SPEC: dict[str, Any] = {
    "sources": [source("events", "k BIGINT")],
    "views": [
        {
            "name": "counts",
            "sql": "SELECT k, count(*) AS n FROM events GROUP BY k",
            "allowUnboundedState": True,
        }
    ],
    "sinks": [{"name": "out", "from": "counts", "kafka": {"topic": "out", "key": ["k"]}, "mode": "update"}],
}


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of executors start from a folder with Spark's scripts and jars."""
    installed, home = Path(pyspark.__file__).parent, tmp_path / "spark"
    home.mkdir()
    for name in ("bin", "jars"):
        (home / name).symlink_to(installed / name)
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setenv("SPARK_SCALA_VERSION", "2.13")


def list_executors(driver: DriverProcess) -> list[psutil.Process]:
    children = psutil.Process(driver.process.pid).children(recursive=True)
    return [each for each in children if "CoarseGrainedExecutorBackend" in " ".join(each.cmdline())]


@contextmanager
def feeding(topics: Any, topic: str) -> Iterator[list[int]]:
    """Write a record to each partition again and again; give the numbers of the records by key."""
    written, done = [0] * KEYS, threading.Event()

    def feed() -> None:
        producer, number = Producer({"bootstrap.servers": topics.bootstrap}), 0
        while not done.wait(0.1):
            for partition in range(PARTITIONS):
                key = number % KEYS
                producer.produce(topic, json.dumps({"k": key}), partition=partition)
                written[key] += 1
                number += 1
            assert producer.flush(30) == 0

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield written
    finally:
        done.set()
        thread.join()


def take_while_one_is_killed(driver: DriverProcess, name: str, location: str) -> SavepointProgress:
    """Request a savepoint during a batch, and kill the executor that is the oldest one."""
    known = driver.progress
    assert known is not None
    before = known.queries[0].batch_id
    driver.wait_for("a batch", lambda p: p.state is DriverState.RUNNING and p.queries[0].batch_id > before)
    victim = min(list_executors(driver), key=psutil.Process.create_time)
    assert driver.post(f"/savepoints/{name}?location={location}") == 202
    victim.kill()
    found = find_done(driver.wait_for(name, lambda p: find_done(p, name)), name)
    assert found is not None
    return found


def read_counts(topics: Any, topic: str) -> list[int]:
    counts = {row["k"]: row["n"] for row in topics.values(topic)}
    return [counts.get(key, 0) for key in range(KEYS)]


@pytest.mark.chaos  # a JVM for the driver, and seven for executors
@pytest.mark.timeout(400)
def test_a_savepoint_is_whole_and_no_record_is_lost(
    spark_home: None, start: Any, broker: Any, topics: Any, tmp_path: Path
) -> None:
    names = {"events": topics.make("events", PARTITIONS), "out": topics.make("out", 1)}
    tuning = Tuning(shuffle_partitions=EXECUTORS, consumer=CONSUMER, producer=PRODUCER)
    root = f"file://{tmp_path}"
    revision = build_revision(
        SPEC, f"{root}/checkpoint", broker.bootstrap, topics=names, spark_conf=SETTINGS, tuning=tuning
    )
    driver = start(revision, 1)
    with feeding(topics, names["events"]) as written:
        driver.wait_for("all executors", lambda p: p.queries and len(list_executors(driver)) == EXECUTORS)
        taken = [
            take_while_one_is_killed(driver, f"savepoint-{number}", f"{root}/savepoints")
            for number in range(KILLS)
        ]
        for each in taken:
            assert each.failure is None or each.failure.message, each
        before = driver.wait_for("a batch", lambda p: p.queries).queries[0].batch_id
        driver.wait_for("batches after the last one", lambda p: p.queries[0].batch_id > before + 1)
    driver.wait_for("no lag", lambda p: p.lag == 0 and read_counts(topics, names["out"]) == written)
    driver.kill()

    complete = [each.name for each in taken if each.failure is None]
    assert complete, taken
    other = names | {"out": topics.make("out", 1)}
    again = build_revision(
        SPEC, f"{root}/second", broker.bootstrap, topics=other, pipeline="restored", tuning=tuning
    )
    store = SavepointStore(LocalFolder(f"{root}/savepoints"))
    manifest = store.read(complete[-1])
    assert list(store.find_damage(manifest)) == []
    assert restore_savepoint(store, manifest, LocalFolder(again.checkpoint), fork=True)
    topics.write(names["events"], [json.dumps({"k": key}) for key in range(KEYS)])
    restored = start(again, 1)
    expected = [count + 1 for count in written]
    restored.wait_for("the counts", lambda _: read_counts(topics, other["out"]) == expected)
