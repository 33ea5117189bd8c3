"""Carries out the comparisons that a driver is requested to make, one after another, while its queries run."""

import queue
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from kappa_crds.comparison import ComparisonRequest, ComparisonSummary
from kappa_crds.progress import ComparisonProgress, ComparisonState
from kappa_pipelines.compare.compare import Say
from kappa_pipelines.failures.diagnose import explain

CompareOne = Callable[[ComparisonRequest, Say], ComparisonSummary]
"""Carries out a request, and reports what it does; DriverError if it fails."""

_MOST_KNOWN = 100

log = structlog.get_logger()


class ComparisonWorker:
    """Compares in a thread, which starts with the first request. Every method is thread-safe."""

    def __init__(self, compare: CompareOne) -> None:
        self._compare = compare
        self._lock = threading.Lock()
        self._known: dict[str, ComparisonProgress] = {}
        self._requests: queue.SimpleQueue[ComparisonRequest | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def request(self, request: ComparisonRequest) -> None:
        """Request a comparison. A repeated request has no effect unless the comparison failed."""
        with self._lock:
            known = self._known.get(request.name)
            if known is not None and known.state is not ComparisonState.FAILED:
                return
            self._known[request.name] = ComparisonProgress(name=request.name)
            self._forget()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="comparisons", daemon=True)
                self._thread.start()
        self._requests.put(request)

    def _forget(self) -> None:
        """Forget the oldest results, so that the report of a driver that lives for long does not grow."""
        ended = [name for name, each in self._known.items() if each.ended is not None]
        for name in ended[: max(0, len(self._known) - _MOST_KNOWN)]:
            del self._known[name]

    def abandon(self) -> None:
        """End the thread after the present comparison. The operator requests the others from the next driver."""
        self._requests.put(None)

    def snapshot(self) -> tuple[ComparisonProgress, ...]:
        """Return the progress of all requested comparisons."""
        with self._lock:
            return tuple(self._known.values())

    def _run(self) -> None:
        while (request := self._requests.get()) is not None:
            name = request.name
            log.info("comparison started", comparison=name, old=request.old.topic, new=request.new.topic)
            self._note(name, state=ComparisonState.RUNNING, started=datetime.now(UTC))
            try:
                found = self._compare(request, self._say(name))
            except Exception as error:  # an error is reported and never stops the pipeline
                failure = explain(error)
                log.warning("comparison failed", comparison=name, error=failure.message)
                self._end(name, ComparisonState.FAILED, failure=failure.to_exit())
                continue
            self._end(name, ComparisonState.DONE, summary=found.shorten())
            log.info("compared", comparison=name, differing=found.differing, seconds=found.seconds)

    def _say(self, name: str) -> Say:
        return lambda step: self._note(name, step=step)

    def _end(self, name: str, state: ComparisonState, **fields: object) -> None:
        self._note(name, state=state, step="", ended=datetime.now(UTC), **fields)

    def _note(self, name: str, **fields: object) -> None:
        with self._lock:
            self._known[name] = self._known[name].model_copy(update=fields)
