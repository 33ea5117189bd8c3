"""Takes the savepoints that a driver is requested to take."""

from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from kappa_crds.progress import SavepointProgress
from kappa_pipelines.background import BackgroundWorker
from kappa_pipelines.exits import describe_exit
from kappa_pipelines.failures.diagnose import explain
from kappa_pipelines.savepoint.take import Taken

Note = Callable[[int, int], None]
TakeOne = Callable[[str, str, Note], Taken]
"""Takes a savepoint below a location, with a name, and reports its progress; DriverError if it fails."""

log = structlog.get_logger()


class SavepointWorker(BackgroundWorker[str, SavepointProgress]):
    """Takes savepoints by their names."""

    def __init__(self, take: TakeOne) -> None:
        super().__init__("savepoints")
        self._take = take

    def request(self, name: str, location: str) -> None:
        """Request a savepoint. A repeated request has no effect unless the savepoint failed."""
        self._submit(name, name, SavepointProgress(name=name, location=location))

    def _has_failed(self, progress: SavepointProgress) -> bool:
        return progress.failure is not None

    def _carry_out(self, work: str) -> None:
        location = self._known[work].location
        log.info("savepoint started", savepoint=work, location=location)
        try:
            taken = self._take(location, work, self._follow(work))
        except Exception as error:  # an error is reported and never stops the pipeline
            failure = explain(error)
            log.warning("savepoint failed", savepoint=work, error=failure.message)
            self._note(work, done=True, failure=describe_exit(failure))
            return
        self._note(work, done=True, **describe_taken(taken))
        log.info(
            "savepoint taken",
            savepoint=work,
            bytes=taken.manifest.size,
            copied_files=taken.copied_files,
            copied_bytes=taken.copied_bytes,
        )

    def _follow(self, name: str) -> Note:
        return lambda done, of: self._note(name, files_done=done, files=of)


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
