"""What executors cost a driver: `python tests/bench/executors.py [--quick] [--executors 1,2,4,8] [--partitions 1000] [--installed]`.

On the local cluster a Pipeline reads a topic of so many partitions with so many executors of one core, with a batch each second. A second
has one record in each of four partitions (`few`), or one in every partition (`each`). All executors are on the cluster's one node and share
its cores, so rates of records do not grow with them. What is measured is what the driver does for each batch and each task: its processor
time, and the time of a batch.

Each number of executors has a pipeline of its own, and a line on stderr once it is measured. The last line is one JSON object.
"""

import argparse
import base64
import json
import os
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.paths import KUBECONFIG  # isort: skip

os.environ["KUBECONFIG"] = str(KUBECONFIG)  # the Kubernetes client reads it when it is imported

import psutil

import platform_switch
from bench.first_output import SURROUNDINGS
from bench.scale import FEW, describe_batches, feeding, log
from e2e.installation import change_values, install, remove_places
from e2e.place import Place
from kappa_crds.progress import Progress, QueryProgress
from kappa_crds.revision import CONTROL_PORT
from lab import kafka

EXECUTORS = (1, 2, 4, 8)
LOADS = ("few", "each")
_DEADLINE = 300.0
_POLL_SECONDS = 0.5
_WARM_SECONDS = 15.0
_PIPELINE = "scale"
_TOPICS = """
---
apiVersion: kappa-platform.io/v1alpha1
kind: Topic
metadata: {name: records}
spec: {topicName: SPACE-records, partitions: PARTITIONS, deletionPolicy: Delete}
---
apiVersion: kappa-platform.io/v1alpha1
kind: Topic
metadata: {name: out}
spec: {topicName: SPACE-out, partitions: 4, deletionPolicy: Delete}
"""


def build_pipeline(executors: int) -> dict[str, Any]:
    """Return the manifest of the pipeline with so many executors."""
    return {
        "apiVersion": "kappa-platform.io/v1alpha1",
        "kind": "Pipeline",
        "metadata": {"name": _PIPELINE},
        "spec": {
            "sources": [
                {
                    "name": "records",
                    "topic": "records",
                    "format": {"json": {"schema": "k BIGINT, ts TIMESTAMP"}},
                    "eventTime": {"column": "ts", "watermark": "10s"},
                }
            ],
            "views": [{"name": "rows", "sql": "SELECT k, ts FROM records WHERE k >= 0"}],
            "sinks": [{"name": "out", "from": "rows", "kafka": {"topic": "out", "key": ["k"]}}],
            "trigger": {"interval": "1s"},
            "resources": {
                "driver": {"cpu": "200m", "memory": "1600Mi"},
                "executors": {"count": executors, "cpu": "100m", "memory": "2Gi"},
            },
        },
    }


@dataclass(frozen=True)
class DriverPort:
    """The control port of the driver pod, and its processes on this machine."""

    place: Place
    address: str
    token: str

    @classmethod
    def find(cls, place: Place) -> "DriverPort | None":
        """Return that of the driver once its pod has an address."""
        pods = place.find("pods", "kappa-platform.io/role=driver")
        address = next((pod["status"].get("podIP") for pod in pods if "podIP" in pod["status"]), None)
        if address is None:
            return None
        secret = place.kubectl("get", "secret", f"{_PIPELINE}-control", "-o", "jsonpath={.data.token}")
        return cls(place, address, base64.b64decode(secret).decode())

    def send(self, path: str, method: str = "GET") -> str:
        """Return the answer of the driver; OSError where there is none."""
        request = urllib.request.Request(
            f"http://{self.address}:{CONTROL_PORT}{path}",
            headers={"Authorization": f"Bearer {self.token}"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - a pod of this machine
            return str(answer.read().decode())

    def read(self) -> Progress | None:
        """Return the report of the driver, or None while it has none."""
        with suppress(OSError):
            return Progress.model_validate_json(self.send("/progress"))
        return None

    def wait_for(self, what: str, check: Callable[[Progress], Any]) -> Progress:
        """Return the first report that is so."""
        deadline = time.monotonic() + _DEADLINE
        while (found := self.read()) is None or not check(found):
            if time.monotonic() > deadline:
                self.place.fail(f"{what}: not in {_DEADLINE:.0f} s")
            time.sleep(_POLL_SECONDS)
        return found


@dataclass(frozen=True)
class Usage:
    """Processor seconds so far: of the driver's JVM and its Python, and of all executors; and the memory of the driver's JVM in bytes."""

    java: float
    python: float
    executors: float
    rss: int

    @classmethod
    def read(cls, place: Place) -> "Usage":
        """Add up the processes of the pods, which run on this machine."""
        java = python = executors = 0.0
        rss = 0
        roles = {pod["metadata"]["uid"]: _is_driver(pod) for pod in place.find("pods")}
        for process in psutil.process_iter(["pid"]):
            with suppress(psutil.Error, OSError):
                groups = Path(f"/proc/{process.pid}/cgroup").read_text()
                is_driver = next((role for uid, role in roles.items() if uid in groups), None)
                times = process.cpu_times()
                used = times.user + times.system
                if is_driver is None:
                    continue
                if not is_driver:
                    executors += used
                elif process.name() == "java":
                    java, rss = java + used, rss + process.memory_info().rss
                else:
                    python += used
        return cls(java, python, executors, rss)


def _is_driver(pod: dict[str, Any]) -> bool:
    return bool(pod["metadata"].get("labels", {}).get("kappa-platform.io/role") == "driver")


def watch(driver: DriverPort, seconds: float) -> dict[str, Any]:
    """Return what the batches of so many seconds cost, at least three of them."""
    found: dict[int, QueryProgress] = {}
    before, begin = Usage.read(driver.place), time.monotonic()
    while (past := time.monotonic() - begin) < seconds or (len(found) < 4 and past < _DEADLINE):
        progress = driver.read()
        if progress is not None and progress.queries:
            found[progress.queries[0].batch_id] = progress.queries[0]
        time.sleep(_POLL_SECONDS)
    after, count = Usage.read(driver.place), max(found) - min(found)
    return {
        **describe_batches(found),
        "java_ms": round((after.java - before.java) * 1000 / count),
        "python_ms": round((after.python - before.python) * 1000 / count),
        "executors_ms": round((after.executors - before.executors) * 1000 / count),
        "rss_mib": round(after.rss / 2**20),
    }


def measure_sizes(driver: DriverPort) -> dict[str, int]:
    """Return the bytes of what the operator reads and keeps for the pipeline."""
    place = driver.place
    revisions = [each for each in place.find("configmaps") if "revision.json" in each.get("data", {})]
    return {
        "report_bytes": len(driver.send("/progress")),
        "status_bytes": len(json.dumps(place.find("pipelines.kappa-platform.io")[0]["status"])),
        "revision_bytes": max((len(json.dumps(each)) for each in revisions), default=0),
    }


@contextmanager
def running(place: Place, executors: int) -> Iterator[tuple[DriverPort, dict[str, float]]]:
    """Give the driver of a pipeline with so many executors, and the seconds until the first and all of them had registered."""
    begin = time.monotonic()
    place.apply(json.dumps(build_pipeline(executors)))
    try:
        place.wait(lambda: DriverPort.find(place) is not None, "the driver has an address", _DEADLINE)
        driver = DriverPort.find(place)
        assert driver is not None
        seconds = {}
        for name, count in (("first_s", 1), ("all_s", executors)):
            driver.wait_for(f"{count} executors", lambda found, count=count: found.executors >= count)  # type: ignore[misc]
            seconds[name] = round(time.monotonic() - begin, 1)
        yield driver, seconds
    finally:
        place.kubectl("delete", "pipeline", _PIPELINE, "--timeout=120s", timeout=130)
        place.wait(lambda: not place.find("pods"), "all pods are gone", _DEADLINE)


@dataclass(frozen=True)
class Setting:
    """What all runs have in common."""

    place: Place
    partitions: int
    seconds: float
    loads: tuple[str, ...]

    def measure(self, executors: int) -> dict[str, Any]:
        """Return what a number of executors costs."""
        topic = f"{self.place.name}-records"
        with running(self.place, executors) as (driver, found):
            figures: dict[str, Any] = {"registered": found}
            for load in self.loads:
                touched = FEW if load == "few" else self.partitions
                with feeding(kafka.host_bootstrap(), topic, self.partitions, touched):
                    before = driver.wait_for("a query", lambda p: p.queries).queries[0].batch_id
                    driver.wait_for("a batch", lambda p, old=before: p.queries[0].batch_id > old)  # type: ignore[misc]
                    time.sleep(_WARM_SECONDS)
                    figures[load] = watch(driver, self.seconds)
                    log(f"{executors} executors, {load}: {figures[load]}")
            figures["sizes"] = measure_sizes(driver)
        log(f"{executors} executors: {figures}")
        return figures


@contextmanager
def prepared(partitions: int, *, build: bool) -> Iterator[Place]:
    """Give a namespace with everything but the pipeline. Without `build` the cluster runs the images that it has."""
    with platform_switch.with_operator():
        if build:
            install()
        change_values({"pipelines.javaOptions": ""})
        try:
            place = Place.create("redeploy")
            place.apply(
                (SURROUNDINGS + _TOPICS).replace("SPACE", place.name).replace("PARTITIONS", str(partitions))
            )
            for name in ("records", "out"):
                place.await_ready(f"topics.kappa-platform.io/{name}", 120)
            place.await_ready("statestore/default", 120)
            yield place
            place.empty()
        finally:
            remove_places(of_this_session=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="1 and 4 executors")
    parser.add_argument("--executors", default=",".join(map(str, EXECUTORS)))
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--loads", default=",".join(LOADS))
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--installed", action="store_true", help="measure the images that the cluster has")
    asked = parser.parse_args()
    counts = [1, 4] if asked.quick else [int(each) for each in asked.executors.split(",")]
    result: dict[str, Any] = {"load": round(os.getloadavg()[0], 1)}
    with prepared(asked.partitions, build=not asked.installed) as place:
        setting = Setting(place, asked.partitions, asked.seconds, tuple(asked.loads.split(",")))
        result |= {str(each): setting.measure(each) for each in counts}
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
