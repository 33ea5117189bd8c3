"""Copies a savepoint from one store to another: to keep it elsewhere, or to bring it from there.

It is the same as taking one, only that the files come from another store and not from a checkpoint: what is there already is not
copied, what was copied is read again, the manifest is written last, and after that it is looked once more whether a collection took something
away meanwhile (ADR 0012). Where it came from is only read, so keys that may read are enough there.

To a store that is far away most of the time goes into waiting for answers, some six for each file. So small files are copied several at a time; large ones,
of which the client keeps parts in memory, one after another.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.store.folder import Counter
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.savepoint.manifest import KeptFile, Manifest
from kappa_pipelines.savepoint.store import SavepointStore, place, refuse_unstable
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
    """Have the savepoint `name` in another store too, as `name_there`; it exists when this returns.

    Where it is there already, only what it lacks is copied. `note` is told how many of how many files are there. So many `threads` copy small files.

    LostDataError names what is missing or damaged at the source, or says that another savepoint has that name; UnavailableError says what
    cannot be read or written.
    """
    manifest = source.read(name).replace(name=name_there)
    copy = _Copy(source, target)
    known = target.read(name_there) if name_there in target.names() else None
    if known is not None and known != manifest:
        said = f"{target.root}/{name_there} is another savepoint than {source.root}/{name}; import or export it under another name"
        raise LostDataError(Reason.SAVEPOINT_DAMAGED, said)
    with target.taking(name_there, manifest.checkpoint) as renew:
        copy.put_all(manifest, renewing(note, renew), threads)
        if known is None:
            target.keep(manifest)
        target.settle(manifest, copy.put)
    return Taken(manifest, len(copy.copied), sum(file.size for file in copy.copied))


class _Copy:
    """Puts files of one store into another, in several threads, and notes what it had to copy."""

    def __init__(self, source: SavepointStore, target: SavepointStore) -> None:
        self._source, self._target = source, target
        self.copied: list[KeptFile] = []
        self._named: set[str] = set()

    def put_all(self, manifest: Manifest, note: Callable[[int, int], None], threads: int) -> None:
        """Have all files of a savepoint be there."""
        self._named = {file.sha256 for known in self._target.read_all() for file in known.files}
        files = sorted(_list_objects(manifest), key=lambda file: file.size)
        note(0, len(files))
        for number, _ in enumerate(self._ensure_each(files, threads), 1):
            note(number, len(files))

    def _ensure_each(self, files: list[KeptFile], threads: int) -> Iterator[None]:
        small = [file for file in files if file.size <= _SMALL_BYTES] if threads > 1 else []
        if small:
            # Where one fails, those that have not begun are given up.
            with ThreadPoolExecutor(threads) as pool:
                yield from pool.map(self._ensure, small)
        yield from map(self._ensure, files[len(small) :])

    def _ensure(self, file: KeptFile) -> None:
        if not self._is_there(file):
            self.put(file)

    def _is_there(self, file: KeptFile) -> bool:
        """Return whether a file is whole. One that another savepoint there names was read when it was copied; an attempt that died leaves others."""
        if not self._target.has(file):
            return False
        if file.sha256 in self._named:
            return True
        found = self._target.files.digest(place(file))
        return found is not None and found.sha256 == file.sha256

    def put(self, file: KeptFile) -> KeptFile:
        """Copy a file, and read it again."""
        path = self._source.locate(file)
        if path is None:
            raise _refuse(self._source, file, "is missing")
        written = self._target.files.fill(place(file), self._check(file, self._source.files.chunks(path)))
        if self._target.files.digest(place(file)) != written:
            raise refuse_unstable(self._target, file.path)
        self.copied.append(file)
        return file

    def _check(self, file: KeptFile, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield what a file holds. It ends with an error where that was changed, so that nothing wrong takes a place in the store."""
        counter = Counter()
        yield from counter.count(chunks)
        if counter.digest.sha256 != file.sha256:
            raise _refuse(self._source, file, "was changed")


def _list_objects(manifest: Manifest) -> Iterator[KeptFile]:
    """Yield one file for each object: files of the same bytes are one."""
    yield from {file.sha256: file for file in manifest.files}.values()


def _refuse(source: SavepointStore, file: KeptFile, what: str) -> LostDataError:
    said = f"the savepoint is damaged: {file.path} {what} ({source.root}/{place(file)}); use another one"
    return LostDataError(Reason.SAVEPOINT_DAMAGED, said)
