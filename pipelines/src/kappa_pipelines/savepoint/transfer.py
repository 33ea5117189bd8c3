"""Copies a savepoint from one store to another: to keep it elsewhere, or to bring it from there.

It is the same as taking one, only that the files come from another store and not from a checkpoint: what is there already is not
copied, what was copied is read again, the manifest is written last, and after that it is looked once more whether a collection took something
away meanwhile (ADR 0012). Where it came from is only read, so keys that may read are enough there.
"""

from collections.abc import Callable, Iterable, Iterator

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.folder import Counter
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.savepoint.manifest import KeptFile, Manifest
from kappa_pipelines.savepoint.store import SavepointStore, place, refuse_unstable
from kappa_pipelines.savepoint.take import Taken, renewing


def transfer_savepoint(
    source: SavepointStore,
    name: str,
    target: SavepointStore,
    name_there: str,
    *,
    note: Callable[[int, int], None] = lambda done, of: None,
) -> Taken:
    """Have the savepoint `name` in another store too, as `name_there`; it exists when this returns.

    Where it is there already, only what it lacks is copied. `note` is told how many of how many files are there.

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
        copy.put_all(manifest, renewing(note, renew))
        if known is None:
            target.keep(manifest)
        target.settle(manifest, copy.put)
    return Taken(manifest, copy.files, copy.size)


class _Copy:
    """Puts files of one store into another, and counts what it had to copy: files and bytes."""

    def __init__(self, source: SavepointStore, target: SavepointStore) -> None:
        self._source, self._target = source, target
        self.files = self.size = 0

    def put_all(self, manifest: Manifest, note: Callable[[int, int], None]) -> None:
        """Have all files of a savepoint be there. Those that another savepoint there names were read when they were copied."""
        named = {file.sha256 for known in self._target.read_all() for file in known.files}
        files = list(_list_objects(manifest))
        for number, file in enumerate(files):
            note(number, len(files))
            is_known = file.sha256 in named and self._target.has(file)
            if not is_known and not self._is_there(file):
                self.put(file)
        note(len(files), len(files))

    def _is_there(self, file: KeptFile) -> bool:
        """Return whether a file is whole that no manifest names: an attempt that died left it."""
        if not self._target.has(file):
            return False
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
        self.files, self.size = self.files + 1, self.size + file.size
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
