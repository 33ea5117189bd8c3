"""A side output with a background thread. A failed run is counted and repeated until the driver stops; it never stops the pipeline."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from kappa_pipelines.checkpoint.format.offsets import Offsets
from kappa_pipelines.checkpoint.store.folder import Folder

_RETRY_SECONDS = 5.0
_IDLE_SECONDS = 1.0
_WRITE_SECONDS = 10.0

log = structlog.get_logger()


@dataclass(frozen=True)
class OutputContext:
    """Parts of the driver that a side output uses: the checkpoint, the check of its fence, and the first offsets of sources."""

    files: Folder
    check_fence: Callable[[], None]
    first_offsets: Callable[[str], Offsets]


@dataclass
class Totals:
    """Counters since the driver started: written records, failed runs, and records deleted before they were read."""

    written: int = 0
    errors: int = 0
    lost: int = 0


class BackgroundOutput(ABC):
    """Calls `_work(ending)` when something is pending, and every second. The condition `_changed` guards shared data."""

    def __init__(self, name: str, context: OutputContext) -> None:
        self.totals = Totals()
        self._context = context
        self._files = context.files
        self._last_write = time.monotonic()
        self._changed = threading.Condition()
        self._ending = False
        self._abandoned = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def _is_pending(self) -> bool:
        """Return whether records must be written."""

    @abstractmethod
    def _work(self, ending: bool) -> None:
        """Write pending records and positions."""

    def abandon(self) -> None:
        """End the thread after the present run. The next start resumes at the stored position."""
        with self._changed:
            self._abandoned = True
            self._changed.notify()

    def _is_write_due(self, ending: bool) -> bool:
        """Return whether to write positions now: every ten seconds, and at the end."""
        is_due = ending or time.monotonic() >= self._last_write + _WRITE_SECONDS
        if is_due:
            self._last_write = time.monotonic()
        return is_due

    def _end(self, timeout: float) -> bool:
        """Process everything that is pending, until a run fails, and end the thread; False after the timeout."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(max(0.0, timeout))
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._is_pending() and not self._ending and not self._abandoned:
                    self._changed.wait(timeout=_IDLE_SECONDS)
                ending = self._ending
            if self._abandoned:
                return
            try:
                self._work(ending)
            except Exception as error:  # the records are written by a later run
                self.totals.errors += 1
                log.warning(
                    "records could not be written; retrying", work=self._thread.name, error=str(error)[:500]
                )
                if ending:  # a stop does not wait; the next start resumes at the stored position
                    return
                time.sleep(_RETRY_SECONDS)
                continue
            if ending and not self._is_pending():
                return
