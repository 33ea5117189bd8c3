"""Measures the checkpoints and savepoints of a namespace in a store from listings. No file is read."""

from datetime import UTC, datetime
from itertools import islice

from kappa_crds.stores import StoreContents
from kappa_pipelines.checkpoint.store.folder import Folder, Listed
from kappa_pipelines.savepoint.collect_store import CHECKPOINT_FOLDER
from kappa_pipelines.savepoint.store import GARBAGE, MANIFEST, OBJECTS

MOST_FILES = 5_000_000
"""Maximum number of files: a listing of that many takes some minutes."""


def measure_store(files: Folder, namespace: str, most: int = MOST_FILES) -> StoreContents:
    """Return the measurement of a namespace from at most so many files, those of savepoints first."""
    count = _Count()
    folders = ((f"savepoints/{namespace}", count.add_savepoint_file), (namespace, count.add_checkpoint_file))
    listed = ((folder, add, file) for folder, add in folders for file in files.list_files(folder))
    for folder, add, file in islice(listed, most):
        pipeline, *rest = file.path.removeprefix(f"{folder}/").split("/")
        add(pipeline, rest, file)
    return count.to_contents(partial=next(listed, None) is not None)


class _Count:
    """The measurement up to now."""

    def __init__(self) -> None:
        self._checkpoints = set[tuple[str, str]]()
        self._checkpoint_bytes = self._objects = self._savepoint_bytes = 0
        self._written: list[float] = []

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

    def to_contents(self, *, partial: bool) -> StoreContents:
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
            partial=partial,
        )
