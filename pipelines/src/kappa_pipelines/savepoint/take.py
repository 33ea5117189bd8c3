"""Takes a savepoint of a checkpoint while its queries run, or later.

A savepoint has the last committed batch of each query. Its files are pinned first, so the copy may take any time while the queries
commit batches. `pin` describes the limits in HDFS.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyspark

from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_crds.state_settings import StateSettings
from kappa_pipelines.checkpoint.format.offsets import read_committed_batch
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import DriverError, UnavailableError
from kappa_pipelines.savepoint.manifest import KeptFile, Manifest
from kappa_pipelines.savepoint.pin import IMMUTABLE, PINS, Points, pin_last_batch
from kappa_pipelines.savepoint.state import CHECKSUM
from kappa_pipelines.savepoint.store import SavepointStore, count_threads, object_path

_TRIES = 3
_RENEW_SECONDS = 60.0
_AGAIN = (Reason.CHECKPOINT_DAMAGED, Reason.SAVEPOINT_UNSTABLE)
"""Errors that a newer batch may not have: Spark has deleted a file, or a file was replaced during its copy."""


@dataclass(frozen=True)
class Taken:
    """A savepoint, with the number of files and bytes that were copied."""

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
    threads: int | None = None,
) -> Taken:
    """Take a savepoint of all queries; it exists when this returns. An existing savepoint is not changed.

    `note` receives the number of stored files and their total. `check` raises if this driver is fenced off.

    LostDataError names a file that the checkpoint lacks, UnavailableError a file that cannot be read or written.
    """
    if store.contains(name):
        known = store.read(name)
        store.restore_collected(known, lambda file: store.put(files, file.path)[0])
        return Taken(known, 0, 0)
    with store.lease(name, files.root) as renew, _pinning(files, name) as pin:
        sizes = store.list_sizes()
        keeper = _Keeper(
            files, pin, store, _find_known(store, files.root, sizes), set(sizes), renewing(note, renew),
            threads or count_threads(files, store),
        )  # fmt: skip
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
        store.restore_collected(manifest, lambda file: keeper.put(file.path)[0])
    return Taken(manifest, len(copied), sum(file.size for file in copied))


@contextlib.contextmanager
def _pinning(files: Folder, name: str) -> Iterator[Folder]:
    """Return the folder of a savepoint's pin, and remove it at the end. A driver removes the pins of killed processes at its start."""
    pin = files.below(f"{PINS}/{name}")
    try:
        yield pin
    finally:
        pin.remove("")


@dataclass(frozen=True)
class _Keeper:
    """Stores files of a checkpoint in parallel. Files that are `known` have not changed, so they are not read again.

    `present` are the paths of the objects in the store.
    """

    files: Folder
    pin: Folder
    store: SavepointStore
    known: Mapping[str, KeptFile]
    present: set[str]
    note: Callable[[int, int], None]
    threads: int

    def keep_last(self, sinks: Sequence[str]) -> tuple[Points, list[KeptFile], list[KeptFile]]:
        """Store the last batch; return it, all its files, and the copied ones."""
        kept: list[KeptFile] = []
        copied: list[KeptFile] = []
        with ThreadPoolExecutor(self.threads, thread_name_prefix="savepoint") as pool:
            points, paths = pin_last_batch(
                self.files,
                sinks,
                self.pin,
                wanted=self._needs_pin,
                run=pool.map,
            )
            for number, (file, is_new) in enumerate(pool.map(self._keep, paths)):
                self.note(number, len(paths))
                kept.append(file)
                copied += [file] if is_new else []
        self.note(len(paths), len(paths))
        return points, kept, copied

    def put(self, path: str) -> tuple[KeptFile, bool]:
        """Store the pinned file if there is one, else the file itself. Return it, and whether it was copied."""
        file, is_new = self.store.put(self.pin if self._needs_pin(path) else self.files, path, self.present)
        self.present.add(object_path(file))
        return file, is_new

    def _keep(self, path: str) -> tuple[KeptFile, bool]:
        known = self.known.get(path)
        return self.put(path) if known is None else (known, False)

    def _needs_pin(self, path: str) -> bool:
        return path not in self.known and (self.files.is_linkable or not IMMUTABLE.search(path))


def _keep_batch(revision: Revision, keeper: _Keeper) -> tuple[Points, list[KeptFile], list[KeptFile]]:
    """Store the last batch, or a newer one if a file was deleted or replaced."""
    sinks = [sink.name for sink in revision.spec.sinks]
    retained = (revision.spec.state or StateSettings()).retain_batches
    for left in reversed(range(_TRIES)):
        began = {sink: read_committed_batch(keeper.files, sink) for sink in sinks}
        try:
            return keeper.keep_last(sinks)
        except DriverError as error:
            if error.reason not in _AGAIN:
                raise
            if not left:
                passed = max(read_committed_batch(keeper.files, sink) - began[sink] for sink in sinks)
                raise (_refuse_slow(keeper.files, passed) if passed >= retained else error) from error
    raise AssertionError


def _refuse_slow(files: Folder, passed: int) -> UnavailableError:
    return UnavailableError(
        Reason.SAVEPOINT_UNSTABLE,
        f"the copy of {files.root} was slower than the retention of its batches: {passed} batches were committed meanwhile;"
        " raise spec.state.retainBatches, or take the savepoint while the pipeline is suspended",
    )


def renewing(note: Callable[[int, int], None], renew: Callable[[], None]) -> Callable[[int, int], None]:
    """Return a `note` that also renews the lease."""
    due = time.monotonic() + _RENEW_SECONDS

    def report(done: int, of: int) -> None:
        nonlocal due
        note(done, of)
        if time.monotonic() > due:
            renew()
            due = time.monotonic() + _RENEW_SECONDS

    return report


def _find_known(store: SavepointStore, checkpoint: str, sizes: Mapping[str, int]) -> Mapping[str, KeptFile]:
    """Return the state files of the latest savepoint of the same checkpoint that still exist with their checksums.

    They have not changed, so they are not read again. `sizes` are those of the objects.
    """
    latest = next((each for each in store.read_all() if each.checkpoint == checkpoint), None)
    if latest is None:
        return {}
    state = [file for file in latest.files if IMMUTABLE.search(file.path)]
    lost = {file.path.removesuffix(CHECKSUM) for file in state if sizes.get(object_path(file)) != file.size}
    return {file.path: file for file in state if file.path.removesuffix(CHECKSUM) not in lost}
