"""The driver as a process of its own, as a pod runs it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import psutil

from kappa_crds.progress import DriverExit, DriverRole, Progress
from kappa_crds.replay import REPLAY_VARIABLE, ReplayProfile
from kappa_crds.revision import Revision
from lab.broker import free_ports

TOKEN = "let-me-in"


class DriverProcess:
    """`python -m kappa_pipelines` with its files in a folder."""

    def __init__(
        self,
        folder: Path,
        revision: Revision,
        generation: int,
        *,
        standby: bool = False,
        role: DriverRole = DriverRole.ACTIVE,
        replay: ReplayProfile | None = None,
        command: Sequence[str] = (sys.executable, "-m", "kappa_pipelines"),
    ) -> None:
        self.folder = folder
        self.port = free_ports(1)[0]
        name = f"{revision.pipeline}-{generation}"
        self.revision_file = folder / f"{name}-revision.json"
        self.revision_file.write_text(revision.to_json())
        (folder / "token").write_text(TOKEN + "\n")
        self.exit_file = folder / f"{name}-exit"
        self.log = folder / f"{name}-log"
        environment = {
            **os.environ,
            "KAPPA_GENERATION": str(generation),
            "KAPPA_STANDBY": "1" if standby else "0",
            "KAPPA_ROLE": role.value,
            **({} if replay is None else {REPLAY_VARIABLE: replay.model_dump_json()}),
            "KAPPA_CONTROL_PORT": str(self.port),
            "KAPPA_CONTROL_TOKEN_FILE": str(folder / "token"),
            "KAPPA_TERMINATION_FILE": str(self.exit_file),
        }
        started = [*command, str(self.revision_file)]
        self.process = subprocess.Popen(started, env=environment, stderr=self.log.open("wb"))

    def get(
        self, path: str, *, token: str | None = None, method: str = "GET", body: str | None = None
    ) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        data = None if body is None else body.encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", headers=headers, method=method, data=data
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - the loopback
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()
        except (URLError, OSError):
            return 0, ""

    def post(self, path: str, body: str | None = None) -> int:
        """Send a request with the token; return the status."""
        return self.get(path, token=TOKEN, method="POST", body=body)[0]

    @property
    def progress(self) -> Progress | None:
        status, text = self.get("/progress", token=TOKEN)
        return Progress.model_validate_json(text) if status == 200 else None

    def wait_for(self, what: str, condition: Callable[[Progress], Any], seconds: float = 120) -> Progress:
        deadline = time.monotonic() + seconds
        while True:
            progress = self.progress
            if progress is not None and condition(progress):
                return progress
            assert self.process.poll() is None, f"{what}: ended\n{self.log.read_text()[-3000:]}"
            assert time.monotonic() < deadline, f"{what}: not in {seconds} s\n{self.log.read_text()[-3000:]}"
            time.sleep(0.1)

    def wait(self) -> DriverExit:
        self.process.wait(120)
        return DriverExit.model_validate_json(self.exit_file.read_text())

    def kill(self) -> None:
        """End it as a lost node would, with its JVM, in the middle of whatever it does."""
        self._signal(signal.SIGKILL)
        self.process.wait()

    def pause(self) -> None:
        """Let it and its JVM stand still, as on a node that hangs."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it wake up where it stood still."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        """Send a signal to it, its JVM and the JVM's workers in Python."""
        own = psutil.Process(self.process.pid)
        for each in (own, *own.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.send_signal(number)
