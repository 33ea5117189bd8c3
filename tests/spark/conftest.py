"""Real Spark and real Kafka: one session and one broker for a test process, topics and checkpoints for each test."""

import gc
import os
import runpy
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pyspark.sql import SparkSession

from kappa_crds.progress import DriverExit, DriverRole, DriverState, Progress
from kappa_crds.replay import ReplayProfile
from kappa_crds.revision import Revision
from kappa_pipelines.driver.driver import Driver
from kappa_pipelines.driver.session import start_session
from kappa_pipelines.errors import DriverError
from kappa_pipelines.revision.environment import Environment
from kappa_pipelines.revision.settings import DEFAULTS, LOCAL_FILES
from lab import spark_home
from lab.broker import Broker
from lab.paths import REPOSITORY
from spark.bases import Bases
from spark.processes import DriverProcess
from spark.revisions import spark_conf
from spark.topics import Topics

DEADLINE = 90.0
# `make setup` builds it too; a test that is started by itself must not run with an old one.
runpy.run_path(str(REPOSITORY / "pipelines" / "jvm" / "build.py"))["build"]()
_SPARK = spark_home.environment()
"""Empty without `make spark`: then each JVM loads all classes from jars, and takes half again as long to start."""
# A test's JVM lives for minutes at most: compiling well takes it more time than that saves, nearly half of all.
# So compiled, the JVM keeps room for 48 MiB of code; where that is full it compiles no more, and is slower by far.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
if _SPARK:
    for name in ("SPARK_HOME", "LD_LIBRARY_PATH"):
        os.environ.setdefault(name, _SPARK[name])
    _JAVA_OPTIONS += (
        f" -XX:SharedArchiveFile={_SPARK['KAPPA_CLASS_ARCHIVE']} -Xlog:cds=off -Xlog:cds+dynamic=off"
        " -XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
    )
os.environ.setdefault("SPARK_SUBMIT_OPTS", _JAVA_OPTIONS)

T = TypeVar("T")


def wait_for(what: str, condition: Callable[[], T | None], seconds: float = DEADLINE) -> T:
    """Poll until the condition gives something true, and return it."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"not in {seconds} s: {what}"
        time.sleep(0.05)


class DriverThread:
    """A driver that runs in this process, on the shared session."""

    def __init__(self, revision: Revision, environment: Environment) -> None:
        self.driver = Driver(revision, environment)
        self.ended: DriverExit | DriverError | BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.ended = self.driver.run()
        except BaseException as error:
            self.ended = error

    @property
    def progress(self) -> Progress:
        return self.driver.snapshot()

    def wait_for(
        self, what: str, condition: Callable[[Progress], Any], seconds: float = DEADLINE
    ) -> Progress:
        def holds() -> Progress | None:
            assert self.ended is None, f"the driver ended while waiting for {what}: {self.ended}"
            progress = self.progress
            return progress if condition(progress) else None

        return wait_for(what, holds, seconds)

    def wait_for_records(self, count: int) -> Progress:
        return self.wait_for(
            f"{count} records",
            lambda p: p.queries and all(q.total_input_rows >= count for q in p.queries),
        )

    def wait_until_running(self) -> Progress:
        return self.wait_for("running", lambda p: p.state is DriverState.RUNNING)

    def stop(self) -> DriverExit:
        self.driver.request_stop()
        self._thread.join(DEADLINE)
        assert isinstance(self.ended, DriverExit), self.ended
        return self.ended

    def end(self) -> None:
        """Stop it however it takes it."""
        self.driver.request_stop()
        self._thread.join(DEADLINE)

    def failure(self) -> DriverError:
        self._thread.join(DEADLINE)
        assert isinstance(self.ended, DriverError), self.ended
        return self.ended


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker() as started:
        yield started


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    interface = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    session = start_session({**DEFAULTS, **LOCAL_FILES, **spark_conf(), **interface})
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    _close_clients(session)


def _close_clients(session: SparkSession) -> None:
    """End the threads of Kafka's clients before the process ends: one that connects to a broker meanwhile crashes it in OpenSSL.

    Each driver of a test has clients, and its listener is kept until the JVM releases it.
    """
    session.sparkContext._gateway.gateway_property.pool.dict.clear()  # type: ignore[union-attr]
    gc.collect()


@pytest.fixture
def topics(broker: Broker) -> Topics:
    return Topics(broker.bootstrap)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


@pytest.fixture
def run(spark: SparkSession) -> Iterator[Callable[..., DriverThread]]:
    """Starts drivers in this process and ends those that a test left running."""
    started: list[DriverThread] = []

    def start(
        revision: Revision,
        generation: int = 1,
        *,
        standby: bool = False,
        role: DriverRole = DriverRole.ACTIVE,
        replay: ReplayProfile | None = None,
    ) -> DriverThread:
        environment = Environment(generation, standby=standby, role=role, replay=replay)
        started.append(DriverThread(revision, environment))
        return started[-1]

    yield start
    for driver in started:
        driver.driver.request_stop()
    for query in spark.streams.active:
        query.stop()
    for driver in started:
        driver.end()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[Revision, int], DriverProcess]]:
    started: list[DriverProcess] = []

    def start_driver(revision: Revision, generation: int, **options: Any) -> DriverProcess:
        started.append(DriverProcess(tmp_path, revision, generation, **options))
        return started[-1]

    yield start_driver
    for driver in started:
        if driver.process.poll() is None:
            driver.kill()


@pytest.fixture(scope="module")
def bases(spark: Any, broker: Any, tmp_path_factory: pytest.TempPathFactory) -> Bases:
    return Bases(spark, broker, Topics(broker.bootstrap), tmp_path_factory.mktemp("bases"))
