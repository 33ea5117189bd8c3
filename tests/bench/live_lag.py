"""What a replay beside it costs a live driver: its mean lag with a replay under quota, through its mean lag alone, before and after.

A topic is written at a constant rate. A driver in a process of its own reads it in a batch each second; its lag is what was written and is not
committed, sampled ten times a second. Then a second driver replays a long log beside it, on the same two cores and from the same broker, with
a `consumer_byte_rate` as the operator sets it.
"""

import asyncio
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from bench.replay import SIDES, write_log
from bench.spark_queries import SPECS, build_revision
from bench.throughput import START, drop_topic, log, make_topic
from kappa_crds.progress import DriverRole, DriverState
from kappa_crds.replay import ReplayProfile
from kappa_operator.kafka.connection import Connection
from kappa_operator.kafka.model import KafkaAccess, Rate
from kappa_operator.kafka.model import Producer as Client
from kappa_operator.kafka.quotas import QuotaClient
from kappa_pipelines.jars import fetch_jars
from lab.broker import Broker
from spark.processes import DriverProcess

RATE = 2000
"""Records per second of the live topic."""
BYTES_PER_SECOND = 500_000
SECONDS, QUICK_SECONDS = 60.0, 20.0
_REPLAYED = 3_000_000
_WARM, _DEADLINE = 30.0, 300.0
_CLIENT = "kappa-replay.bench.bench"
_LIVE: dict[str, Any] = {**SPECS["window"], "trigger": {"interval": "1s"}}


class Writer(threading.Thread):
    """Writes to the live topic until `stop`; `count` is what was written."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._topic, self._stopping = topic, threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
        self.count = 0

    def run(self) -> None:
        begin = time.monotonic()
        while not self._stopping.wait(0.02):
            while self.count < (time.monotonic() - begin) * RATE:
                at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(START.timestamp() + self.count // RATE))
                value = f'{{"k":{self.count % 1000},"v":1.5,"ts":"{at}","note":"n"}}'
                self._producer.produce(self._topic, value, partition=self.count % 4)
                self.count += 1
            self._producer.poll(0)

    def stop(self) -> None:
        self._stopping.set()
        self.join()
        self._producer.flush()


def start_driver(
    folder: Path, broker: Broker, spec: dict[str, Any], source: str, replay: ReplayProfile | None
) -> DriverProcess:
    """Start a driver as a process with one core's worth of tasks."""
    name = "live" if replay is None else "replay"
    out = make_topic(broker.bootstrap, f"{name}-out")
    revision = build_revision(spec, broker.bootstrap, {"records": source, "out": out}, str(folder / name))
    conf = {
        "spark.master": "local[1]",
        "spark.jars": ",".join(map(str, fetch_jars())),
        "spark.driver.memory": "1g",
    }
    revision = revision.model_copy(update={"pipeline": name, "uid": name, "spark_conf": conf})
    role = DriverRole.ACTIVE if replay is None else DriverRole.SHADOW
    driver = DriverProcess(folder, revision, 1, role=role, replay=replay)
    deadline = time.monotonic() + _DEADLINE
    while count_read(driver) == 0:
        if driver.process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"the {name} driver does not run: {driver.log.read_text()[-2000:]}")
        time.sleep(0.2)
    return driver


def count_read(driver: DriverProcess) -> int:
    """Return the records that it has read and committed."""
    progress = driver.progress
    if progress is None or progress.state is not DriverState.RUNNING:
        return 0
    return sum(query.total_input_rows for query in progress.queries)


def sample_lag(driver: DriverProcess, writer: Writer, seconds: float) -> float:
    """Return the mean of the records that are written and not committed."""
    lags, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        written = writer.count
        lags.append(written - count_read(driver))
        time.sleep(0.1)
    log(f"lag: mean {statistics.mean(lags):.0f}, highest {max(lags)}")
    return statistics.mean(lags)


async def _set_quota(bootstrap: str, rate: float | None) -> None:
    settings = {"bootstrap.servers": bootstrap, "security.protocol": "plaintext", "client.id": "bench"}
    connection = Connection(KafkaAccess.of(settings, ()))
    try:
        await QuotaClient(connection).set(Client(_CLIENT), rate, Rate.CONSUMER)
    finally:
        await connection.close()


def measure_live_lag(broker: Broker, *, quick: bool) -> dict[str, object]:
    """Return `live_lag_growth`, with both lags and the rate of the replay."""
    seconds = QUICK_SECONDS if quick else SECONDS
    source = write_log(broker.bootstrap, _REPLAYED)
    asyncio.run(_set_quota(broker.bootstrap, BYTES_PER_SECOND))
    topic = make_topic(broker.bootstrap, "live")
    writer = Writer(broker.bootstrap, topic)
    drivers: list[DriverProcess] = []
    with tempfile.TemporaryDirectory(prefix="kappa-bench-") as folder:
        try:
            writer.start()
            drivers.append(start_driver(Path(folder), broker, _LIVE, topic, None))
            time.sleep(_WARM)
            before = sample_lag(drivers[0], writer, seconds)
            profile = ReplayProfile(max_records=20_000, client_id=_CLIENT)
            drivers.append(start_driver(Path(folder), broker, SIDES["parsed"], source, profile))
            time.sleep(_WARM)
            begin = count_read(drivers[1])
            beside = sample_lag(drivers[0], writer, seconds)
            replayed = (count_read(drivers[1]) - begin) / seconds
            progress = drivers[1].progress
            if progress is None or not progress.replaying or replayed == 0:
                raise SystemExit(f"the replay did not run all the time: {progress}")
            drivers.pop().kill()
            time.sleep(_WARM / 3)
            alone = statistics.mean((before, sample_lag(drivers[0], writer, seconds)))
        finally:
            for driver in drivers:
                driver.kill()
            writer.stop()
    for each in (source, topic):
        drop_topic(broker.bootstrap, each)
    return {
        "live_lag_growth": round(beside / alone, 2),
        "live_lag_alone": round(alone),
        "live_lag_beside": round(beside),
        "live_replay_rate": round(replayed),
    }
