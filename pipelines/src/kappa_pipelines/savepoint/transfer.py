"""Copies a savepoint from one store to another, for an export or an import.

The steps are those of taking a savepoint: existing objects are not copied, new copies are verified by reading them, the manifest is
written last, and then objects that a collection removed meanwhile are copied again (ADR 0012). The source needs read permission only.

A copy to a remote store mostly waits for about six responses per file. So small files are copied in parallel, and large ones, of
which the client holds parts in memory, one after another.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.store.folder import Counter
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.savepoint.manifest import KeptFile, Manifest
from kappa_pipelines.savepoint.store import SavepointStore, object_path, refuse_unstable
from kappa_pipelines.savepoint.take import Taken, renewing

_SMALL_BYTES = 4 * 2**20


def transfer_savepoint(
    source: SavepointStore,
    name: str,
    target: SavepointStore,
    name_there: str,
    *,
    note: Callable[[int, int], None] = lambda done, of: None,
    threads: int = 1,
) -> Taken:
    """Copy the savepoint `name` to another store as `name_there`; it exists when this returns.

    If it exists there, only missing objects are copied. `note` receives the number of copied files and their total.

    LostDataError names a missing or damaged object of the source, or another savepoint with that name; UnavailableError names a file that
    cannot be read or written.
    """
    manifest = source.read(name).replace(name=name_there)
    copy = _Copy(source, target)
    known = target.read(name_there) if target.contains(name_there) else None
    if known is not None and known != manifest:
        message = f"{target.root}/{name_there} and {source.root}/{name} are different savepoints; import or export it under another name"
        raise LostDataError(Reason.SAVEPOINT_DAMAGED, message)
    with target.lease(name_there, manifest.checkpoint) as renew:
        copy.put_all(manifest, renewing(note, renew), threads)
        if known is None:
            target.keep(manifest)
        target.restore_collected(manifest, copy.put)
    return Taken(manifest, len(copy.copied), sum(file.size for file in copy.copied))


class _Copy:
    """Copies files from one store to another in several threads, and records the copied ones."""

    def __init__(self, source: SavepointStore, target: SavepointStore) -> None:
        self._source, self._target = source, target
        self.copied: list[KeptFile] = []
        self._named: set[str] = set()

    def put_all(self, manifest: Manifest, note: Callable[[int, int], None], threads: int) -> None:
        """Copy all missing files of a savepoint."""
        self._named = {file.sha256 for known in self._target.read_all() for file in known.files}
        objects = {file.sha256: file for file in manifest.files}.values()  # equal files share an object
        files = sorted(objects, key=lambda file: file.size)
        note(0, len(files))
        for number, _ in enumerate(self._ensure_each(files, threads), 1):
            note(number, len(files))

    def _ensure_each(self, files: list[KeptFile], threads: int) -> Iterator[None]:
        small = [file for file in files if file.size <= _SMALL_BYTES] if threads > 1 else []
        if small:
            # After an error, the remaining copies are cancelled.
            with ThreadPoolExecutor(threads) as pool:
                yield from pool.map(self._ensure, small)
        yield from map(self._ensure, files[len(small) :])

    def _ensure(self, file: KeptFile) -> None:
        if not self._is_valid(file):
            self.put(file)

    def _is_valid(self, file: KeptFile) -> bool:
        """Return whether a file is complete. Files of other savepoints were verified; a killed attempt may leave incomplete ones."""
        if not self._target.has(file):
            return False
        if file.sha256 in self._named:
            return True
        found = self._target.files.digest(object_path(file))
        return found is not None and found.sha256 == file.sha256

    def put(self, file: KeptFile) -> KeptFile:
        """Copy a file and verify the copy."""
        path = self._source.locate(file)
        if path is None:
            raise self._source.refuse(file, "is missing")
        written = self._target.files.fill(
            object_path(file), self._check(file, self._source.files.chunks(path))
        )
        if self._target.files.digest(object_path(file)) != written:
            raise refuse_unstable(self._target, file.path)
        self.copied.append(file)
        return file

    def _check(self, file: KeptFile, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the content of a file. It ends with an error if the content was changed, so that the store gets no wrong object."""
        counter = Counter()
        yield from counter.count(chunks)
        if counter.digest.sha256 != file.sha256:
            raise self._source.refuse(file, "was changed")
