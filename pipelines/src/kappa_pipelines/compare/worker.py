"""Carries out the comparisons that a driver is requested to make."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from kappa_crds.comparison import ComparisonRequest, ComparisonSummary
from kappa_crds.progress import ComparisonProgress, ComparisonState
from kappa_pipelines.background import BackgroundWorker
from kappa_pipelines.exits import describe_exit
from kappa_pipelines.failures.diagnose import explain

NoteStep = Callable[[str], None]
"""Notes the present step of a comparison, for people."""
CompareOne = Callable[[ComparisonRequest, NoteStep], ComparisonSummary]
"""Carries out a request, and reports what it does; DriverError if it fails."""

_MOST_KNOWN = 100
_PAUSES = (5.0, 20.0, 60.0)
"""Seconds before each further attempt: a broker that restarts is away for a part of them."""

log = structlog.get_logger()


class ComparisonWorker(BackgroundWorker[ComparisonRequest, ComparisonProgress]):
    """Compares outputs by the names of requests. After a retryable error it waits for one of the `pauses`, and tries again."""

    def __init__(self, compare: CompareOne, pauses: tuple[float, ...] = _PAUSES) -> None:
        super().__init__("comparisons")
        self._compare = compare
        self._pauses = pauses
        self._abandoned = threading.Event()

    def abandon(self) -> None:
        """End the thread after the present attempt."""
        self._abandoned.set()
        super().abandon()

    def request(self, request: ComparisonRequest) -> None:
        """Request a comparison. A repeated request has no effect unless the comparison failed."""
        self._submit(request.name, request, ComparisonProgress(name=request.name))
        self._forget()

    def _forget(self) -> None:
        """Forget the oldest results, so that the report of a driver that lives for long does not grow."""
        with self._lock:
            ended = [name for name, each in self._known.items() if each.ended is not None]
            for name in ended[: max(0, len(self._known) - _MOST_KNOWN)]:
                del self._known[name]

    def _has_failed(self, progress: ComparisonProgress) -> bool:
        return progress.state is ComparisonState.FAILED

    def _carry_out(self, work: ComparisonRequest) -> None:
        name = work.name
        log.info("comparison started", comparison=name, old=work.old.topic, new=work.new.topic)
        self._note(name, state=ComparisonState.RUNNING, started=datetime.now(UTC))
        for pause in (*self._pauses, None):
            try:
                found = self._compare(work, self._follow(name))
            except Exception as error:  # an error is reported and never stops the pipeline
                failure = explain(error)
                log.warning("comparison failed", comparison=name, error=failure.message)
                if failure.retryable and pause is not None and not self._wait(name, failure.message, pause):
                    continue
                self._end(name, ComparisonState.FAILED, failure=describe_exit(failure))
                return
            self._end(name, ComparisonState.DONE, summary=found.shorten())
            log.info("compared", comparison=name, differing=found.differing, seconds=found.seconds)
            return

    def _wait(self, name: str, why: str, seconds: float) -> bool:
        """Wait for the next attempt; return whether the driver ends instead."""
        self._note(name, step=f"it is tried again after an error: {why}")
        return self._abandoned.wait(seconds)

    def _follow(self, name: str) -> NoteStep:
        return lambda step: self._note(name, step=step)

    def _end(self, name: str, state: ComparisonState, **fields: object) -> None:
        self._note(name, state=state, step="", ended=datetime.now(UTC), **fields)
