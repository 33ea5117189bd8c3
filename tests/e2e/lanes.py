"""Two lanes: `pytest -n 2` runs the tests on the whole cluster in two processes, each with pipelines of its own.

A driver takes 20 to 30 seconds to start, most of which is waiting. Tests that share a pipeline are in one lane. A test that restarts
the operator or changes the chart does that alone: it waits until the other lane has ended its test, and the next test there waits for
it. What changes all pipelines runs before those of the other lane are created. Tests that judge what the whole session did wait for the
end of the other lane.

The locks are files, and go with the process that holds them: a killed session leaves none. Their names are fixed, because one session
at a time has the cluster (`platform_switch`).
"""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Self

from lab.paths import CACHE

FOLDER = CACHE / "lanes"


class Lane:
    """The tests of one process. Waiting has no time limit: each test has one."""

    def __init__(self, folder: Path = FOLDER) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._turnstile, self._room = _open(folder / "turnstile.lock"), _open(folder / "room.lock")
        self._running, self._prepared = _open(folder / "running.lock"), _open(folder / "prepared")
        self._pipelines = _open(folder / "pipelines.lock")
        self._is_alone = False

    def begin(self) -> Self:
        """Count as a lane that runs, until `close` or the end of the process."""
        fcntl.flock(self._running, fcntl.LOCK_SH)
        return self

    def close(self) -> None:
        """Give back all locks."""
        for file in (self._turnstile, self._room, self._running, self._prepared, self._pipelines):
            file.close()

    def forget(self) -> None:
        """Forget what a session before prepared."""
        self._prepared.truncate(0)

    def prepare_once(self, prepare: Callable[[], str]) -> str:
        """Return what `prepare` returned in the lane that called this first; the others wait for it."""
        with _locked(self._prepared):
            self._prepared.seek(0)
            found = self._prepared.read()
            if not found:
                found = prepare()
                self._prepared.write(found)
                self._prepared.flush()
            return found

    @contextmanager
    def testing(self) -> Iterator[None]:
        """Run a test beside those of other lanes, or alone where the test before had this for more tests."""
        if not self._is_alone:
            self._enter()
        try:
            yield
        finally:
            if not self._is_alone:
                self._leave()

    def have_pipelines(self) -> None:
        """Count as a lane with pipelines from now on. Between tests."""
        fcntl.flock(self._pipelines, fcntl.LOCK_SH)

    @contextmanager
    def before_pipelines(self) -> Iterator[None]:
        """Let no other lane have pipelines meanwhile. Within a test, which gives way while this waits."""
        self._leave()
        fcntl.flock(self._pipelines, fcntl.LOCK_EX)
        self._enter()
        try:
            yield
        finally:
            fcntl.flock(self._pipelines, fcntl.LOCK_UN)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let no other lane run a test meanwhile. Within a test, which gives way while this waits."""
        self._leave()
        with _locked(self._turnstile):
            fcntl.flock(self._room, fcntl.LOCK_EX)
        self._is_alone = True
        try:
            yield
        finally:
            self._is_alone = False
            self._enter()

    def await_others(self) -> None:
        """Wait until no other lane runs, within a test."""
        self._leave()
        fcntl.flock(self._running, fcntl.LOCK_EX)
        self._enter()

    def _enter(self) -> None:
        with _locked(self._turnstile):  # the lane that waits to be alone is before this one
            pass
        fcntl.flock(self._room, fcntl.LOCK_SH)

    def _leave(self) -> None:
        fcntl.flock(self._room, fcntl.LOCK_UN)


def _open(path: Path) -> IO[str]:
    return path.open("a+")


@contextmanager
def _locked(file: IO[str]) -> Iterator[None]:
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
