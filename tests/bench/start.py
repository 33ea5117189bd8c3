"""How long a driver takes from the start of its process to its first committed batch: `python tests/bench/start.py [--quick] [--rounds N]`.

The driver is started as its pod starts it: `python -m kappa_pipelines`, with Spark's jars in the order and with the archive of classes that
the commands of the image's Dockerfile make, here in a folder of the bench. It reads a small topic of a real broker. Two pipelines take
turns: one without state, and one that counts in windows and keeps its state in RocksDB. Each start is cold: processes, checkpoint and
output are new; only the pages of files are in memory.

The phases come from the lines that the driver logs, the start of its JVM, and the times of files in the checkpoint:

- `imports`: until the driver logs its first line
- `checks`: until Kafka and the permissions are checked
- `session`: until there is a Spark session (starts the JVM)
- `compile`: until the views are compiled and the checkpoint is acquired
- `query`: until all queries are started
- `batch`: until the first batch is committed

The last line is one JSON object: the median seconds of each pipeline; `process_s` is the greater of the two.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil
import pyspark

from bench.spark_queries import SPECS, build_revision
from bench.throughput import drop_topic, log, make_topic, produce
from kappa_crds.revision import Revision
from kappa_pipelines.jars import fetch_jars
from lab.broker import Broker
from lab.paths import REPOSITORY
from spark.processes import DriverProcess

RECORDS = 10_000
ROUNDS, QUICK_ROUNDS = 7, 3
_CONF = {"spark.master": "local[2]", "spark.driver.memory": "1g"}
_DEADLINE = 120.0
PHASES = {
    "imports": "control server started",
    "checks": "kafka is available",
    "session": "session started",
    "compile": "plan compiled",
    "query": "queries started",
}
"""The line of the driver's log that ends each phase."""


@contextmanager
def build_home() -> Iterator[Path]:
    """Give a folder with Spark as the image has it, made by the same commands: jars, their order, and the archive of classes."""
    with tempfile.TemporaryDirectory(dir=sys.prefix, prefix="start-") as folder:
        home = Path(folder, "spark")
        _run_tool("prune_jars", Path(pyspark.__file__).parent, home)
        for jar in fetch_jars():
            shutil.copy(jar, home / "jars")
        log("recording the archive of classes")
        for action in ("order", "record", "check"):
            _run_tool("archive_classes", action, home)
        yield home


def _run_tool(name: str, *arguments: str | Path) -> None:
    command = [sys.executable, REPOSITORY / "pipelines" / f"{name}.py", *arguments]
    subprocess.run(command, check=True, capture_output=True)


@dataclass(frozen=True)
class Start:
    """One start: seconds until the end of each phase, in order, and processor seconds of the driver and its JVM."""

    ends: dict[str, float]
    cpu: float

    @property
    def phases(self) -> dict[str, float]:
        """Return the seconds of each phase."""
        begins = [0.0, *self.ends.values()]
        return {name: end - begin for (name, end), begin in zip(self.ends.items(), begins, strict=False)}


def measure_start(revision: Revision, folder: Path) -> Start:
    """Start a driver, wait for its first commit, and kill it."""
    begin = time.time()
    driver = DriverProcess(folder, revision, 1)
    try:
        commit = _await_commit(driver, Path(revision.checkpoint))
        used = _measure_cpu(driver.process.pid)
    finally:
        driver.kill()
    lines = [json.loads(each) for each in driver.log.read_text().splitlines() if each.startswith('{"')]
    logged = {line["event"]: datetime.fromisoformat(line["timestamp"]).timestamp() for line in lines}
    return Start(
        {**{name: logged[text] - begin for name, text in PHASES.items()}, "batch": commit - begin}, used
    )


def _await_commit(driver: DriverProcess, checkpoint: Path) -> float:
    """Return the time of the first commit. The driver is not asked, as that would be work for it."""
    deadline = time.monotonic() + _DEADLINE
    while time.monotonic() < deadline and driver.process.poll() is None:
        for found in checkpoint.glob("*/commits/0"):
            return found.stat().st_mtime
        time.sleep(0.02)
    raise SystemExit(f"no batch was committed:\n{driver.log.read_text()[-5000:]}")


def _measure_cpu(pid: int) -> float:
    own = psutil.Process(pid)
    times = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def run(home: Path, rounds: int) -> dict[str, list[Start]]:
    """Return the starts of each pipeline, which take turns."""
    archive = home / "classes.jsa"
    os.environ |= {"SPARK_HOME": str(home), "KAPPA_CLASS_ARCHIVE": str(archive), "PYTHONUNBUFFERED": "1"}
    found: dict[str, list[Start]] = {name: [] for name in SPECS}
    with Broker() as broker:
        source = make_topic(broker.bootstrap, "records")
        produce(broker.bootstrap, source, RECORDS)
        for _ in range(rounds):
            for name, starts in found.items():
                starts.append(_run_once(name, broker.bootstrap, source))
                log(
                    f"{name}: {starts[-1].ends['batch']:.2f} s, {_show(starts[-1])}, cpu {starts[-1].cpu:.1f}"
                )
    return found


def _run_once(name: str, bootstrap: str, source: str) -> Start:
    out = make_topic(bootstrap, "out")
    with tempfile.TemporaryDirectory(prefix="kappa-start-") as folder:
        topics = {"records": source, "out": out}
        revision = build_revision(SPECS[name], bootstrap, topics, f"{folder}/checkpoint")
        update = {"uid": str(uuid.uuid4()), "spark_conf": _CONF}
        start = measure_start(revision.model_copy(update=update), Path(folder))
    drop_topic(bootstrap, out)
    return start


def _show(start: Start) -> str:
    return ", ".join(f"{name} {seconds:.2f}" for name, seconds in start.phases.items())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_ROUNDS} starts of each instead of {ROUNDS}"
    )
    parser.add_argument("--rounds", type=int, default=None)
    arguments = parser.parse_args()
    with build_home() as home:
        found = run(home, arguments.rounds or (QUICK_ROUNDS if arguments.quick else ROUNDS))
    result: dict[str, object] = {}
    for name, starts in found.items():
        phases = {each: statistics.median(s.phases[each] for s in starts) for each in starts[0].phases}
        result[f"{name}_s"] = round(statistics.median(s.ends["batch"] for s in starts), 2)
        result[f"{name}_cpu_s"] = round(statistics.median(s.cpu for s in starts), 1)
        result[f"{name}_phases"] = {each: round(seconds, 2) for each, seconds in phases.items()}
    process = max(statistics.median(s.ends["batch"] for s in starts) for starts in found.values())
    print(json.dumps({"process_s": round(process, 2), **result}))


if __name__ == "__main__":
    main()
