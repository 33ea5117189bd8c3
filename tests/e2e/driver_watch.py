"""Watches the driver pods of a namespace all the time, and knows how many were ever alive at once."""

import json
import subprocess
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import IO, Any, Self

from lab.paths import BIN, KUBECONFIG

_STANDBY = "kappa-platform.io/standby"
_SELECTOR = "kappa-platform.io/role=driver"


class DriverWatch:
    """A context. A driver counts as alive from the moment its pod exists until its container has ended.

    One that stands by does nothing while the one that it is made beside is alive, so it counts once that has ended.
    """

    def __init__(self, namespace: str) -> None:
        self.history: list[str] = []
        self.most_alive = 0
        self._alive: dict[str, str] = {}
        self._beside: dict[str, set[str]] = {}
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
                self._process = self._start()

    def _note(self, kind: str, pod: dict[str, Any]) -> None:
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        state = describe(pod)
        if kind == "DELETED" or state == "ended":
            self._alive.pop(uid, None)
        else:
            if uid not in self._alive and _STANDBY in pod["metadata"].get("annotations", {}):
                self._beside[uid] = set(self._alive)
            self._alive[uid] = name
        self.history.append(f"{kind} {name} {state}; alive: {', '.join(self._alive.values()) or 'none'}")
        counted = [each for each in self._alive if not self._beside.get(each, set()) & self._alive.keys()]
        self.most_alive = max(self.most_alive, len(counted))


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
