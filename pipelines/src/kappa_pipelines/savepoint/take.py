"""Takes a savepoint of a checkpoint, while its queries run or when they have ended.

The last committed batch of each query is taken. The files of its state never change and Spark keeps those of the last
hundred batches, so they can be copied while batches go on; if that takes longer than those hundred, files are missing, and it
is tried again with a newer batch.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyspark

from kappa_crds.revision import Revision
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.savepoint.manifest import KeptFile, Manifest, QueryPoint
from kappa_pipelines.savepoint.query import find_files, read_points
from kappa_pipelines.savepoint.store import AT_ONCE, SavepointStore

_TRIES = 3
_RENEW_SECONDS = 60.0
_IMMUTABLE = re.compile(r"/state/.*(\.zip|\.changelog|\.sst|\.crc)$")


@dataclass(frozen=True)
class Taken:
    """A savepoint, and how much of it had to be copied: files and bytes."""

    manifest: Manifest
    copied_files: int
    copied_bytes: int


def take_savepoint(
    files: Folder,
    revision: Revision,
    generation: int,
    store: SavepointStore,
    name: str,
    *,
    note: Callable[[int, int], None] = lambda done, of: None,
    check: Callable[[], None] = lambda: None,
    threads: int = AT_ONCE,
) -> Taken:
    """Take a savepoint of all queries; it exists when this returns. One that exists already is left as it is.

    `note` is told how many of how many files are kept; so many `threads` keep them. `check` raises where this driver must not write any more.

    LostDataError names a file that the checkpoint lacks, UnavailableError says what cannot be read or written.
    """
    if name in store.names():
        known = store.read(name)
        store.settle(known, lambda file: store.put(files, file.path)[0])
        return Taken(known, 0, 0)
    with store.taking(name, files.root) as renew:
        keeper = _Keeper(files, store, _find_known(store, files.root), renewing(note, renew), threads)
        points, kept, copied = _keep_batch(revision, keeper)
        manifest = Manifest(
            name=name,
            namespace=revision.namespace,
            pipeline=revision.pipeline,
            revision=revision.name,
            generation=generation,
            created=time.time(),
            checkpoint=files.root,
            shuffle_partitions=revision.tuning.shuffle_partitions,
            versions={"spark": pyspark.__version__},
            topics=revision.topics,
            spec=revision.spec.model_dump(mode="json", by_alias=True, exclude_unset=True),
            queries=points,
            files=tuple(kept),
        )
        check()
        store.keep(manifest)
        store.settle(manifest, lambda file: store.put(files, file.path)[0])
    return Taken(manifest, len(copied), sum(file.size for file in copied))


@dataclass(frozen=True)
class _Keeper:
    """Keeps files of a checkpoint, some at a time. What is `known` is the same as when it was kept, so it is not read again."""

    files: Folder
    store: SavepointStore
    known: Mapping[str, KeptFile]
    note: Callable[[int, int], None]
    threads: int

    def keep_all(self, paths: Sequence[str]) -> tuple[list[KeptFile], list[KeptFile]]:
        """Keep all files; return them, and those among them that were copied."""
        kept: list[KeptFile] = []
        copied: list[KeptFile] = []
        with ThreadPoolExecutor(self.threads, thread_name_prefix="savepoint") as pool:
            for number, (file, is_new) in enumerate(pool.map(self._keep, paths)):
                self.note(number, len(paths))
                kept.append(file)
                copied += [file] if is_new else []
        self.note(len(paths), len(paths))
        return kept, copied

    def _keep(self, path: str) -> tuple[KeptFile, bool]:
        file = self.known.get(path)
        if file is not None and self.store.has(file):
            return file, False
        return self.store.put(self.files, path)


Points = tuple[QueryPoint, ...]


def _keep_batch(revision: Revision, keeper: _Keeper) -> tuple[Points, list[KeptFile], list[KeptFile]]:
    """Keep the files of a committed batch of all queries; return the batches, the files, and those that were copied."""
    for _ in range(_TRIES - 1):
        try:
            return _keep_last(revision, keeper)
        except LostDataError:  # the batch grew too old meanwhile, or the checkpoint is damaged
            continue
    return _keep_last(revision, keeper)


def _keep_last(revision: Revision, keeper: _Keeper) -> tuple[Points, list[KeptFile], list[KeptFile]]:
    sinks = [sink.name for sink in revision.spec.sinks]
    points = read_points(keeper.files, sinks)
    return points, *keeper.keep_all(list(find_files(keeper.files, sinks, points)))


def renewing(note: Callable[[int, int], None], renew: Callable[[], None]) -> Callable[[int, int], None]:
    """Return a `note` that renews the mark as well, now and then."""
    due = time.monotonic() + _RENEW_SECONDS

    def tell(done: int, of: int) -> None:
        nonlocal due
        note(done, of)
        if time.monotonic() > due:
            renew()
            due = time.monotonic() + _RENEW_SECONDS

    return tell


def _find_known(store: SavepointStore, checkpoint: str) -> Mapping[str, KeptFile]:
    """Return the files of state in the latest savepoint of the same checkpoint: they are the same, so they are not read again."""
    for manifest in store.read_all():
        if manifest.checkpoint == checkpoint:
            return {file.path: file for file in manifest.files if _IMMUTABLE.search(file.path)}
    return {}
