"""Carries out what a driver is requested to do beside its queries: one request after another, in a thread."""

import queue
import threading
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from kappa_crds.model import Model

Work = TypeVar("Work")
Progress = TypeVar("Progress", bound=Model)


class BackgroundWorker(ABC, Generic[Work, Progress]):
    """Carries out requests by their names, and knows the progress of each. Every method is thread-safe.

    The thread starts with the first request. `_carry_out` reports errors as progress: they never stop the pipeline.
    """

    def __init__(self, thread: str) -> None:
        self._name = thread
        self._lock = threading.Lock()
        self._known: dict[str, Progress] = {}
        self._requests: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def abandon(self) -> None:
        """End the thread after the present request. The operator requests the others from the next driver."""
        self._requests.put(None)

    def snapshot(self) -> tuple[Progress, ...]:
        """Return the progress of all requests."""
        with self._lock:
            return tuple(self._known.values())

    @abstractmethod
    def _has_failed(self, progress: Progress) -> bool:
        """Return whether a request has failed, so that it may be repeated."""

    @abstractmethod
    def _carry_out(self, work: Work) -> None:
        """Carry out one request."""

    def _submit(self, name: str, work: Work, progress: Progress) -> None:
        """Request some work. A repeated request has no effect unless it has failed."""
        with self._lock:
            known = self._known.get(name)
            if known is not None and not self._has_failed(known):
                return
            self._known[name] = progress
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        self._requests.put(work)

    def _run(self) -> None:
        while (work := self._requests.get()) is not None:
            self._carry_out(work)

    def _note(self, name: str, **fields: object) -> None:
        with self._lock:
            self._known[name] = self._known[name].model_copy(update=fields)
