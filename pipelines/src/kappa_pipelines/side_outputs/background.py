"""A background thread. A failed run is counted and repeated until the driver stops; it never stops the pipeline."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

_RETRY_SECONDS = 5.0
_IDLE_SECONDS = 1.0

log = structlog.get_logger()


@dataclass
class Totals:
    """Counters since the driver started: written records, failed runs, and records deleted before they were read."""

    written: int = 0
    errors: int = 0
    lost: int = 0


class Background:
    """Calls `work(ending)` when something is pending, and every second. The condition `changed` guards shared data."""

    def __init__(
        self, name: str, is_pending: Callable[[], bool], work: Callable[[bool], None], totals: Totals
    ) -> None:
        self.changed = threading.Condition()
        self._is_pending = is_pending
        self._work = work
        self._totals = totals
        self._ending = False
        self._abandoned = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def finish(self, timeout: float) -> bool:
        """Process everything that is pending, until a run fails, and end the thread; False after the timeout."""
        with self.changed:
            self._ending = True
            self.changed.notify()
        self._thread.join(max(0.0, timeout))
        return not self._thread.is_alive()

    def abandon(self) -> None:
        """End the thread after the present run. The next start resumes at the stored position."""
        with self.changed:
            self._abandoned = True
            self.changed.notify()

    def _run(self) -> None:
        while True:
            with self.changed:
                if not self._is_pending() and not self._ending and not self._abandoned:
                    self.changed.wait(timeout=_IDLE_SECONDS)
                ending = self._ending
            if self._abandoned:
                return
            try:
                self._work(ending)
            except Exception as error:  # the records are written by a later run
                self._totals.errors += 1
                log.warning(
                    "records could not be written; retrying",
                    work=self._thread.name,
                    error=str(error)[:500],
                )
                if ending:  # a stop does not wait; the next start resumes at the stored position
                    return
                time.sleep(_RETRY_SECONDS)
                continue
            if ending and not self._is_pending():
                return
