"""The sides of the comparison with other engines: each is a process that runs a query for every line of its input, and answers with seconds.

A side's first run is cold: its time starts with the process. All others run in a JVM that is warm.
"""

import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.driver_runs import measure_run
from bench.peer_queries import QUERIES, Query, write_flink_sql, write_streams_properties
from bench.spark_queries import BASE, SCHEMA, build_revision, create_session
from bench.throughput import ends
from kappa_pipelines.driver.driver import Driver
from kappa_pipelines.jars import fetch_jars
from kappa_pipelines.revision.environment import Environment
from lab import spark_home
from lab.maven import Jars
from lab.shell import run

HERE = Path(__file__).parent / "peers"
BENCH = Path(__file__).with_name("peers.py")
_HEAP = "-Xmx2g"
_DEADLINE = 900.0
_CODE_SOURCES = {"flink": "FlinkPeer", "streams": "StreamsPeer"}


@dataclass(frozen=True)
class Job:
    """One run of a query: where its records are, how many, and where the results go."""

    query: Query
    bootstrap: str
    topics: Mapping[str, str]
    out: str
    count: int
    folder: str

    def to_line(self) -> str:
        """Write the job as a line for a Python side."""
        named = ",".join(f"{name}={topic}" for name, topic in self.topics.items())
        return " ".join([self.query.name, self.bootstrap, named, self.out, str(self.count), self.folder])

    @classmethod
    def from_line(cls, line: str) -> Self:
        """Read a job."""
        name, bootstrap, named, out, count, folder = line.split()
        query = next(each for each in QUERIES if each.name == name)
        topics = dict(each.split("=") for each in named.split(","))
        return cls(query, bootstrap, topics, out, int(count), folder)


@dataclass(frozen=True)
class Run:
    """What a run took: seconds by the side's own clock and by that of this process, and processor seconds."""

    seconds: float
    wall: float
    cpu: float


class Side:
    """A context manager: the process of one side. `log` has what it writes to its standard error."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._folder = tempfile.TemporaryDirectory(prefix=f"kappa-peer-{name}-")
        self._process: subprocess.Popen[str] | None = None
        self._begin = 0.0
        self._used = 0.0
        self._peak: dict[int, float] = {}

    def __enter__(self) -> Self:
        command = _COMMANDS[self.name]()
        # Spark's environment has its RocksDB library, which that of Flink would load.
        spark = {} if self.name in _CODE_SOURCES else spark_home.environment()
        log = Path(self._folder.name, "log").open("w")
        self._begin = time.monotonic()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, **spark},
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        children = psutil.Process(self._process.pid).children(recursive=True)
        self._process.kill()
        for child in children:
            child.kill()
        self._process.wait(30)
        self._folder.cleanup()

    def run(self, job: Job) -> Run:
        """Run one query; SystemExit with the end of the log where it fails."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        begin = self._begin or time.monotonic()
        self._begin = 0.0
        self._process.stdin.write(self._write_request(job) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        wall = time.monotonic() - begin
        if not answer:
            text = Path(self._folder.name, "log").read_text()
            raise SystemExit(f"{self.name} failed with {job.query.name}:\n{text[-5000:]}")
        used, before = self.measure(), self._used
        self._used = used
        return Run(float(answer), wall, used - before)

    def begin(self, request: str) -> None:
        """Send a request that has no end."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()

    @property
    def peak_mib(self) -> float:
        """Return the largest memory that the processes had, together."""
        return sum(self._peak.values())

    def _write_request(self, job: Job) -> str:
        if self.name not in _CODE_SOURCES:
            return job.to_line()
        arguments = job.query, job.bootstrap, job.topics, job.out, job.folder
        text = (
            write_flink_sql(*arguments)
            if self.name == "flink"
            else write_streams_properties(*arguments, job.count)
        )
        file = Path(job.folder, "request")
        file.write_text(text)
        return str(file)

    def measure(self) -> float:
        """Return the processor seconds of the processes so far, and note their peak of memory."""
        assert self._process is not None
        process = psutil.Process(self._process.pid)
        used = 0.0
        for each in [process, *process.children(recursive=True)]:
            times = each.cpu_times()
            used += times.user + times.system
            self._peak[each.pid] = read_peak(each.pid)
        return used


def read_peak(pid: int) -> float:
    """Return the largest memory that a process had, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def _build_java(name: str) -> Sequence[str]:
    jars = Jars(name, HERE / f"{name}.xml", HERE / f"{name}.sha256").fetch()
    main = _CODE_SOURCES[name]
    source = HERE / f"{main}.java"
    classes = jars.with_name(f"{jars.name}-classes")
    if not classes.exists() or (classes / f"{main}.class").stat().st_mtime < source.stat().st_mtime:
        run(["javac", "-d", classes, "-cp", f"{jars}/*", source])
    opened = [f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in ("java.util", "java.lang", "java.nio")]
    return ["java", _HEAP, *opened, "-cp", f"{classes}:{jars}/*", main]


_COMMANDS: Mapping[str, Callable[[], Sequence[str]]] = {
    "flink": lambda: _build_java("flink"),
    "streams": lambda: _build_java("streams"),
    "kappa": lambda: [sys.executable, str(BENCH), "--serve", "kappa"],
    "plain": lambda: [sys.executable, str(BENCH), "--serve", "plain"],
}


def serve(side: str) -> None:
    """Run a query for each line of the standard input, in this process. What drivers log goes to the standard error."""
    execute = {"kappa": run_kappa, "plain": run_plain}[side]
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        for line in sys.stdin:
            seconds = execute(Job.from_line(line))
            answers.write(f"{seconds}\n")
            answers.flush()


def run_kappa(job: Job) -> float:
    """Run a whole driver until all records are committed, and all results are there; return the seconds since its query started."""
    topics = {**job.topics, "out": job.out}
    revision = build_revision(dict(job.query.spec), job.bootstrap, topics, f"{job.folder}/checkpoint")
    conf = {**BASE, "spark.jars": ",".join(map(str, fetch_jars()))}
    revision = revision.model_copy(update={"uid": uuid.uuid4().hex, "spark_conf": conf})
    wanted = job.query.results(job.count)
    admin = AdminClient({"bootstrap.servers": job.bootstrap})

    def is_complete() -> bool:
        return wanted is None or sum(ends(admin, job.out).values()) >= wanted

    return measure_run(Driver(revision, Environment(generation=1)), job.count, _DEADLINE, is_complete)


def run_plain(job: Job) -> float:
    """Run the query as Spark's manual has it, with nothing set, until all records are committed."""
    spark = create_session().newSession()
    records = _read(spark, job)
    rows: DataFrame = records
    if job.query.name == "window":
        mean = records.groupBy("k", f.window("ts", "1 minute").alias("w")).agg(f.avg("v").alias("mean"))
        rows = mean.select("k", f.col("w.start").alias("start"), "mean")
    begin = time.monotonic()
    query = (
        rows.select(f.col("k").cast("string").alias("key"), f.to_json(f.struct("*")).alias("value"))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", job.bootstrap)
        .option("topic", job.out)
        .option("checkpointLocation", f"{job.folder}/checkpoint")
        .outputMode("update" if job.query.name == "window" else "append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return time.monotonic() - begin


def _read(spark: SparkSession, job: Job) -> DataFrame:
    options: dict[str, Any] = {
        "kafka.bootstrap.servers": job.bootstrap,
        "subscribe": job.topics["records"],
        "startingOffsets": "earliest",
    }
    return (
        spark.readStream.format("kafka")
        .options(**options)
        .load()
        .select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("r"))
        .select("r.*")
        .withWatermark("ts", "10 minutes")
    )
