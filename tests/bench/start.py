"""How long a driver takes from the start of its process to its first committed batch: `python tests/bench/start.py [--quick] [--rounds N]`.

The driver is started as its pod starts it: by the entrypoint of the pipelines image, with the image as its root. The image is built first. The
driver reads a small topic of a real broker. Two pipelines take turns: one without state, and one that counts in windows and keeps its state in
RocksDB. Each start is cold: processes, checkpoint and output are new; only the pages of files are in memory.

With `--before IMAGE` the drivers of another image take turns with those of this one. `python tests/bench/start.py --build IMAGE` builds the
image of a checkout of another commit, into which this file was copied. With `--cluster` the start of a pipeline on the local cluster is measured
too, by `first_output.py`.

The phases come from the lines that the driver logs, and the times of files in the checkpoint:

- `imports`: until the driver logs its first line
- `checks`: until Kafka and the permissions are checked
- `session`: until there is a Spark session (starts the JVM)
- `compile`: until the views are compiled and the checkpoint is acquired
- `query`: until all queries are started
- `batch`: until the first batch is committed

The last line is one JSON object: the median seconds of each pipeline; `process_s` is the greater of the two, and `process_ratio` is that by the
one of before.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil

from bench.spark_queries import SPECS, build_revision
from bench.throughput import drop_topic, log, make_topic, produce
from kappa_crds.revision import Revision
from lab import buildah, images
from lab.broker import Broker
from lab.shell import run as run_program
from spark.processes import DriverProcess

RECORDS = 10_000
ROUNDS, QUICK_ROUNDS = 7, 3
_CONF = {"spark.master": "local[2]", "spark.driver.memory": "1g"}
_DEADLINE = 120.0
_OWN = "localhost/kappa/start:now"
_ENTER = """
set -e
for each in /proc /dev /etc/hosts /etc/resolv.conf "$1"; do
    if [ -d "$each" ]; then mkdir -p "$0$each"; else touch "$0$each"; fi
    mount --rbind "$each" "$0$each"
done
exec chroot "$0" "${@:2}"
"""
"""Runs a program with another root. Its arguments are the root, a folder, and the program."""
PHASES = {
    "imports": "control server started",
    "checks": "kafka is available",
    "session": "session started",
    "compile": "plan compiled",
    "query": "queries started",
}
"""The line of the driver's log that ends each phase."""


@dataclass(frozen=True)
class Side:
    """An image whose files are at `root`, and its environment."""

    name: str
    root: Path
    environment: dict[str, str]

    def build_command(self, folder: Path) -> list[str]:
        """Return the command that runs the entrypoint with the image as its root, and a folder of the machine at the same place in it."""
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        # With the folder of the machine's bytecode, Python would compile all modules of the image at each start.
        without = ["/usr/bin/env", "-u", "PYTHONPYCACHEPREFIX"]
        entrypoint = [*without, *variables, "bash", "-p", "/opt/entrypoint.sh", "driver"]
        return ["unshare", "--mount", "bash", "-c", _ENTER, str(self.root), str(folder), *entrypoint]


@contextmanager
def open_sides(now: str | None, before: str | None) -> Iterator[list[Side]]:
    """Give an image, by default the one of this checkout, which is built; and, if it is measured, the one of before."""
    if now is None:
        build_image(_OWN)
    found = {"now": now or _OWN, **({} if before is None else {"before": before})}
    with ExitStack() as stack:
        yield [stack.enter_context(_open_image(name, image)) for name, image in found.items()]


def build_image(reference: str) -> None:
    """Build the pipelines image of this checkout."""
    images.build_own_jar()
    images._build(images.choose(["pipelines"])[0], reference)


@contextmanager
def _open_image(name: str, image: str) -> Iterator[Side]:
    container = run_program(buildah._buildah("from", "--pull-never", image)).strip()
    try:
        config = json.loads(run_program(buildah._buildah("inspect", container)))["OCIv1"]["config"]
        root = run_program(buildah._buildah("mount", container)).strip()
        yield Side(name, Path(root), dict(each.split("=", 1) for each in config["Env"]))
    finally:
        run_program(buildah._buildah("rm", container))


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


def measure_start(side: Side, revision: Revision, folder: Path) -> Start:
    """Start a driver, wait for its first commit, and kill it."""
    begin = time.time()
    driver = DriverProcess(folder, revision, 1, command=side.build_command(folder))
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


def run(sides: Sequence[Side], rounds: int) -> dict[tuple[str, str], list[Start]]:
    """Return the starts of each side and pipeline, which take turns."""
    found: dict[tuple[str, str], list[Start]] = {}
    with Broker() as broker:
        source = make_topic(broker.bootstrap, "records")
        produce(broker.bootstrap, source, RECORDS)
        for _, name, side in product(range(rounds), SPECS, sides):
            start = _run_once(side, name, broker.bootstrap, source)
            found.setdefault((side.name, name), []).append(start)
            log(f"{side.name} {name}: {start.ends['batch']:.2f} s, {_show(start)}, cpu {start.cpu:.1f}")
    return found


def _run_once(side: Side, name: str, bootstrap: str, source: str) -> Start:
    out = make_topic(bootstrap, "out")
    with tempfile.TemporaryDirectory(prefix="kappa-start-") as folder:
        topics = {"records": source, "out": out}
        revision = build_revision(SPECS[name], bootstrap, topics, f"{folder}/checkpoint")
        update = {"uid": str(uuid.uuid4()), "spark_conf": _CONF}
        start = measure_start(side, revision.model_copy(update=update), Path(folder))
    drop_topic(bootstrap, out)
    return start


def _show(start: Start) -> str:
    return ", ".join(f"{name} {seconds:.2f}" for name, seconds in start.phases.items())


def summarize(starts: dict[str, list[Start]]) -> dict[str, object]:
    """Return the medians of one side."""
    result: dict[str, object] = {
        "process_s": max(
            round(_median(each, lambda start: start.ends["batch"]), 2) for each in starts.values()
        )
    }
    for name, each in starts.items():
        result[f"{name}_s"] = round(_median(each, lambda start: start.ends["batch"]), 2)
        result[f"{name}_cpu_s"] = round(_median(each, lambda start: start.cpu), 1)
        phases = {part: statistics.median(start.phases[part] for start in each) for part in each[0].phases}
        result[f"{name}_phases"] = {part: round(seconds, 2) for part, seconds in phases.items()}
    return result


def _median(starts: Sequence[Start], of: Callable[[Start], float]) -> float:
    return statistics.median(map(of, starts))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_ROUNDS} starts of each instead of {ROUNDS}"
    )
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--now", default=None, metavar="IMAGE", help="measure an image that was built")
    parser.add_argument("--before", default=None, metavar="IMAGE", help="the image of another commit")
    parser.add_argument(
        "--build", default=None, metavar="IMAGE", help="only build the image of this checkout"
    )
    parser.add_argument("--cluster", action="store_true", help="measure on the local cluster too")
    arguments = parser.parse_args()
    rounds = arguments.rounds or (QUICK_ROUNDS if arguments.quick else ROUNDS)
    if arguments.build:
        build_image(arguments.build)
        return
    with open_sides(arguments.now, arguments.before) as sides:
        found = run(sides, rounds)
    results = {
        side.name: summarize({name: starts for (of, name), starts in found.items() if of == side.name})
        for side in sides
    }
    result = results["now"]
    if "before" in results:
        ratio = float(str(result["process_s"])) / float(str(results["before"]["process_s"]))
        result = {"process_ratio": round(ratio, 2), **result, "before": results["before"]}
    if arguments.cluster:
        from bench import first_output  # noqa: PLC0415 - needs the files of a cluster

        result = {**first_output.run(rounds), **result}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
