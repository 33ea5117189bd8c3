"""Measures the checkpoints and savepoints of a namespace in a store from listings. No file is read."""

from collections.abc import Iterator
from datetime import UTC, datetime

from kappa_crds.stores import StoreContents
from kappa_pipelines.checkpoint.store.folder import Folder, Listed
from kappa_pipelines.savepoint.collect_store import CHECKPOINT_FOLDER
from kappa_pipelines.savepoint.store import GARBAGE, MANIFEST, OBJECTS

MOST_FILES = 5_000_000
"""Maximum number of files: a listing of that many takes some minutes."""


def measure_store(files: Folder, namespace: str, most: int = MOST_FILES) -> StoreContents:
    """Return the measurement of a namespace from at most so many files, those of savepoints first."""
    counted = _Count(most)
    for pipeline, rest, file in counted.take(files, f"savepoints/{namespace}"):
        counted.add_savepoint_file(pipeline, rest, file)
    for pipeline, rest, file in counted.take(files, namespace):
        counted.add_checkpoint_file(pipeline, rest, file)
    return counted.to_holdings()


class _Count:
    """The measurement up to now."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._partial = False
        self._checkpoints = set[tuple[str, str]]()
        self._checkpoint_bytes = self._objects = self._savepoint_bytes = 0
        self._written: list[float] = []

    def take(self, files: Folder, folder: str) -> Iterator[tuple[str, list[str], Listed]]:
        """Yield the files below a folder of pipelines, with the pipeline and the rest of the path, up to the maximum."""
        for file in files.list_files(folder):
            if self._left == 0:
                self._partial = True
                return
            self._left -= 1
            pipeline, *rest = file.path.removeprefix(f"{folder}/").split("/")
            yield pipeline, rest, file

    def add_savepoint_file(self, pipeline: str, rest: list[str], file: Listed) -> None:
        """Count a file of the savepoints of a pipeline."""
        if rest and rest[0] in (OBJECTS, GARBAGE):
            self._objects += 1
            self._savepoint_bytes += file.size
        elif len(rest) == 2 and rest[1] == MANIFEST:
            self._written.append(file.modified)
            self._savepoint_bytes += file.size

    def add_checkpoint_file(self, pipeline: str, rest: list[str], file: Listed) -> None:
        """Count a file of a checkpoint of a pipeline; other files are not counted."""
        if len(rest) > 1 and CHECKPOINT_FOLDER.match(rest[0]):
            self._checkpoints.add((pipeline, rest[0]))
            self._checkpoint_bytes += file.size

    def to_holdings(self) -> StoreContents:
        """Return the measurement."""
        times = [datetime.fromtimestamp(int(written), UTC) for written in sorted(self._written)]
        return StoreContents(
            checkpoints=len(self._checkpoints),
            checkpoint_bytes=self._checkpoint_bytes,
            savepoints=len(times),
            savepoint_objects=self._objects,
            savepoint_bytes=self._savepoint_bytes,
            oldest_savepoint=next(iter(times), None),
            newest_savepoint=next(reversed(times), None),
            partial=self._partial,
        )
