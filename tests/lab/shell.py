"""Running other programs: their output when they succeed, a clear error with it when they don't."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab.errors import LabError


def run(
    command: Sequence[str | Path],
    *,
    stdin: str | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> str:
    """Run a program to its end and return what it printed; `env` is added to our own environment."""
    done = subprocess.run(
        [str(part) for part in command],
        input=stdin,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        timeout=timeout,
        text=True,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        tail = (done.stderr + done.stdout).strip()[-2000:]
        raise LabError(f"{' '.join(str(part) for part in command)[:300]}: exit {done.returncode}\n{tail}")
    return done.stdout


def succeeds(command: Sequence[str | Path], timeout: float = 30) -> bool:
    """Whether the program exists and exits with 0 in time."""
    try:
        done = subprocess.run(
            [str(part) for part in command], capture_output=True, check=False, timeout=timeout
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 60, every: float = 0.1) -> None:
    """Poll until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise LabError(f"{what}: not so after {seconds:.0f} s")
        time.sleep(every)
