"""Watches the driver pods of a namespace all the time, and knows how many were ever alive at once."""

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any, Self

from kappa_operator.pipeline.objects import REVISION_LABEL
from lab.paths import BIN, KUBECONFIG

_STANDBY = "kappa-platform.io/standby"
_GENERATION = "kappa-platform.io/generation"
_SELECTOR = "kappa-platform.io/role=driver"


_PAUSE = 0.2
"""Seconds before a watch is begun again, while the API server is away."""


@dataclass(frozen=True)
class Driver:
    """A driver pod that is alive."""

    name: str
    generation: int
    stands_by: bool
    revision: str = ""


class DriverWatch:
    """A context. A driver counts as alive from the moment its pod exists until its container has ended.

    One that stands by does nothing while the one that it is made beside is alive, so it counts once none of an older generation is.
    With `by_revision` the drivers of each revision count by themselves: a reprocessing has two runs, of two revisions.
    """

    def __init__(self, namespace: str, *, by_revision: bool = False) -> None:
        self._by_revision = by_revision
        self.history: list[str] = []
        self.most_alive = 0
        self._alive: dict[str, Driver] = {}
        self._command = [
            *(str(BIN / "kubectl"), f"--kubeconfig={KUBECONFIG}", "get", "pods", "-n", namespace),
            *(f"--selector={_SELECTOR}", "--watch", "--output-watch-events", "-o", "json"),
        ]
        self._process: subprocess.Popen[str] | None = None
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="driver-watch", daemon=True)

    def __enter__(self) -> Self:
        self._process = self._start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._thread.join(10)

    def check(self) -> None:
        """Raise AssertionError with the whole history if two drivers were ever alive at once."""
        assert self._thread.is_alive(), "the watch of the driver pods has ended"
        assert self.most_alive <= 1, "two drivers at once:\n" + "\n".join(self.history)

    def _start(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def _run(self) -> None:
        while not self._ended:
            process = self._process
            assert process is not None
            assert process.stdout is not None
            for event in read_documents(process.stdout):
                self._note(event["type"], event["object"])
            process.wait()
            if not self._ended:
                time.sleep(_PAUSE)
                self._alive.clear()  # a new watch begins with all that there is, and whatever went in between is not in it
                self._process = self._start()

    def _note(self, kind: str, pod: dict[str, Any]) -> None:
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        state = describe(pod)
        if kind == "DELETED" or state == "ended":
            self._alive.pop(uid, None)
        else:
            notes = pod["metadata"].get("annotations", {})
            revision = pod["metadata"]["labels"][REVISION_LABEL] if self._by_revision else ""
            self._alive[uid] = Driver(name, int(notes[_GENERATION]), _STANDBY in notes, revision)
        self.history.append(
            f"{kind} {name} {state}; alive: {', '.join(each.name for each in self._alive.values()) or 'none'}"
        )
        for revision in {each.revision for each in self._alive.values()}:
            self._count([each for each in self._alive.values() if each.revision == revision])

    def _count(self, drivers: list[Driver]) -> None:
        oldest = min((each.generation for each in drivers), default=0)
        waiting = [each for each in drivers if each.stands_by and each.generation > oldest]
        self.most_alive = max(self.most_alive, len(drivers) - len(waiting))


def describe(pod: dict[str, Any]) -> str:
    """Return `ended` for a driver whose container will never run again, or the pod's phase."""
    status = pod.get("status", {})
    containers = status.get("containerStatuses", [])
    ended = any("terminated" in container["state"] for container in containers)
    return (
        "ended" if ended or status.get("phase") in ("Succeeded", "Failed") else status.get("phase", "Pending")
    )


def read_documents(stream: IO[str]) -> Iterator[dict[str, Any]]:
    """Yield the JSON documents of a stream in which they follow each other, indented."""
    lines: list[str] = []
    for line in stream:
        lines.append(line)
        if line.startswith("}"):
            yield json.loads("".join(lines))
            lines.clear()
