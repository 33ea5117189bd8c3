"""Long-running servers: started detached, found again by process id *and* start time, never by name.

A server's record is written by the child itself just before it becomes the server, so a lab that dies at any
moment leaves no server that the next one doesn't know. A process id alone may have been given to another
program since; with its start time (field 22 of /proc/PID/stat, in ticks since boot) it can't be mistaken.
"""

import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab import cgroups
from lab.errors import LabError
from lab.paths import LOGS, RECORDS, write_file

# Joins the lab's control group, records itself, and becomes the server.
_LAUNCH = (
    'echo $$ > "$1/cgroup.procs" && cat /proc/$$/stat > "$0.part" && mv "$0.part" "$0" && shift && exec "$@"'
)


@dataclass(frozen=True)
class Server:
    """A server of the lab: how to start it, and how to check that it serves."""

    name: str
    command: Sequence[str | Path]
    is_ready: Callable[[], bool]
    env: Mapping[str, str] = field(default_factory=dict)
    configuration: str = ""  # texts whose change calls for a restart
    ready_seconds: float = 60

    @property
    def fingerprint(self) -> str:
        """Changes when the server would be started differently now."""
        parts = [
            *map(str, self.command),
            *sorted(f"{k}={v}" for k, v in self.env.items()),
            self.configuration,
        ]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    @property
    def log(self) -> Path:
        """Where its output goes."""
        return LOGS / f"{self.name}.log"


def start_time(pid: int) -> int | None:
    """Ticks between boot and the start of the process; none if there is no such (living) process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else int(fields[19])


def _recorded(name: str) -> tuple[int, int] | None:
    try:
        stat = (RECORDS / name).read_text()
    except FileNotFoundError:
        return None
    return int(stat.split(" ", 1)[0]), int(stat.rpartition(")")[2].split()[19])


def running_pid(name: str) -> int | None:
    """The process id of a server that we started and that still runs."""
    record = _recorded(name)
    if record is None or start_time(record[0]) != record[1]:
        return None
    return record[0]


def start(server: Server) -> bool:
    """Make the server run as described and wait until it is ready; false if it did already."""
    marker = RECORDS / f"{server.name}.fingerprint"
    if running_pid(server.name) is not None:
        if marker.exists() and marker.read_text() == server.fingerprint and _answers(server):
            return False
        stop(server.name)
    write_file(marker, server.fingerprint)
    LOGS.mkdir(parents=True, exist_ok=True)
    with server.log.open("ab") as log:
        child = subprocess.Popen(
            ["/bin/sh", "-c", _LAUNCH, RECORDS / server.name, cgroups.host_group(), *server.command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **server.env},
            cwd="/",
            start_new_session=True,
        )
    deadline = time.monotonic() + server.ready_seconds
    while not server.is_ready():
        if child.poll() is not None:
            raise LabError(f"{server.name} ended with {child.returncode}\n{_tail(server.log)}")
        if time.monotonic() > deadline:
            raise LabError(
                f"{server.name} is not ready after {server.ready_seconds:.0f} s\n{_tail(server.log)}"
            )
        time.sleep(0.1)
    return True


def _answers(server: Server) -> bool:
    """Whether a running server is ready, given that it may be just starting (an `up` was killed)."""
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline and running_pid(server.name) is not None:
        if server.is_ready():
            return True
        time.sleep(0.2)
    return False


def _tail(log: Path) -> str:
    return f"last lines of {log}:\n" + "\n".join(log.read_text(errors="replace").splitlines()[-15:])


def stop(name: str, grace_seconds: float = 10) -> None:
    """End a server that we started: ask first, then kill; nothing happens if it doesn't run."""
    pid = running_pid(name)
    if pid is not None:
        end_process(pid, grace_seconds)
    (RECORDS / name).unlink(missing_ok=True)


def end_process(pid: int, grace_seconds: float) -> None:
    """SIGTERM, then SIGKILL after the grace time; each only while the process is still the same one."""
    started = start_time(pid)
    for sign, seconds in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, 10.0)):
        if started is None or start_time(pid) != started:
            return
        os.kill(pid, sign)
        deadline = time.monotonic() + seconds
        while start_time(pid) == started and time.monotonic() < deadline:
            time.sleep(0.05)


def recorded_names() -> list[str]:
    """Every server with a record, running or not."""
    if not RECORDS.is_dir():
        return []
    return sorted(path.name for path in RECORDS.iterdir() if path.suffix not in {".fingerprint", ".part"})
