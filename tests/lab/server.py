"""A server process of a test: started, awaited, killed and started again on the same data, and gone at the end."""

import os
import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from lab.errors import LabError
from lab.shell import wait_until


class LabServer(ABC):
    """A context manager with a folder of its own, which goes with it. `log` is where its output goes."""

    name: str
    """The server in messages, and of its log."""
    seconds = 90.0
    """How long it may take until it serves."""

    def __init__(self) -> None:
        short = self.name.lower().replace(" ", "-")
        self._home = Path(tempfile.mkdtemp(prefix=f"kappa-{short}-"))
        self.log = self._home / f"{short}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._prepare()
            self.start()
        except BaseException:
            self._clean_up()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clean_up()

    def start(self) -> None:
        """Start it, the first time or again on the same data; returns when it serves."""
        if self._process is not None:
            return
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._build_command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._home,
                env={**os.environ, **self._build_environment()},
                start_new_session=True,
            )
        wait_until(self._is_ready, f"{self.name} serves", seconds=self.seconds)

    def kill(self) -> None:
        """End it at once; its data stay until the context ends."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self, sign: int, seconds: float = 90.0) -> None:
        """End it by a signal."""
        if self._process is not None:
            self._process.send_signal(sign)
            self._process.wait(timeout=seconds)
            self._process = None

    def _prepare(self) -> None:
        """Make what it needs before its first start."""
        self.log.touch()

    @abstractmethod
    def _build_command(self) -> Sequence[str]:
        """Return the command."""

    def _build_environment(self) -> Mapping[str, str]:
        """Return variables besides those of the test."""
        return {}

    @abstractmethod
    def _serves(self) -> bool:
        """Return whether it answers."""

    def _is_ready(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise LabError(f"{self.name} ended while starting:\n{self.log.read_text()[-3000:]}")
        return self._serves()

    def _clean_up(self) -> None:
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)
