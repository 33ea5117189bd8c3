"""Takes the savepoints that a driver is requested to take, one after another, while its queries run."""

import queue
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from kappa_crds.progress import SavepointProgress
from kappa_pipelines.failures.diagnose import explain
from kappa_pipelines.savepoint.take import Taken

Note = Callable[[int, int], None]
TakeOne = Callable[[str, str, Note], Taken]
"""Takes a savepoint below a location, with a name, and reports its progress; DriverError if it fails."""

log = structlog.get_logger()


class SavepointWorker:
    """Takes savepoints in a thread, which starts with the first request. Every method is thread-safe."""

    def __init__(self, take: TakeOne) -> None:
        self._take = take
        self._lock = threading.Lock()
        self._known: dict[str, SavepointProgress] = {}
        self._requests: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def request(self, name: str, location: str) -> None:
        """Request a savepoint. A repeated request has no effect unless the savepoint failed."""
        with self._lock:
            known = self._known.get(name)
            if known is not None and known.failure is None:
                return
            self._known[name] = SavepointProgress(name=name, location=location)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="savepoints", daemon=True)
                self._thread.start()
        self._requests.put(name)

    def abandon(self) -> None:
        """End the thread after the present savepoint. The operator requests the others from the next driver."""
        self._requests.put(None)

    def snapshot(self) -> tuple[SavepointProgress, ...]:
        """Return the progress of all requested savepoints."""
        with self._lock:
            return tuple(self._known.values())

    def _run(self) -> None:
        while (name := self._requests.get()) is not None:
            location = self._known[name].location
            log.info("savepoint started", savepoint=name, location=location)
            try:
                taken = self._take(location, name, self._follow(name))
            except Exception as error:  # an error is reported and never stops the pipeline
                failure = explain(error)
                log.warning("savepoint failed", savepoint=name, error=failure.message)
                self._note(name, done=True, failure=failure.to_exit())
                continue
            self._note(name, done=True, **describe_taken(taken))
            log.info(
                "savepoint taken",
                savepoint=name,
                bytes=taken.manifest.size,
                copied_files=taken.copied_files,
                copied_bytes=taken.copied_bytes,
            )

    def _follow(self, name: str) -> Note:
        return lambda done, of: self._note(name, files_done=done, files=of)

    def _note(self, name: str, **fields: object) -> None:
        with self._lock:
            self._known[name] = self._known[name].model_copy(update=fields)


def describe_taken(taken: Taken) -> dict[str, object]:
    """Return the progress fields of a complete savepoint."""
    manifest = taken.manifest
    return {
        "taken": datetime.fromtimestamp(int(manifest.created), UTC),
        "batches": {point.sink: point.batch for point in manifest.queries},
        "shuffle_partitions": manifest.shuffle_partitions,
        "size_bytes": manifest.size,
        "copied_bytes": taken.copied_bytes,
    }
