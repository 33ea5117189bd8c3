"""Where the savepoints of a pipeline are kept.

    objects/ab/abcd…      files of checkpoints, each under its SHA-256; one that several savepoints share is there once
    NAME/manifest.json    what makes a savepoint, written last
    taking/NAME           a savepoint that is being taken; written before its first object, and again while it goes on
    garbage/…             what a collection has taken out of `objects` and not deleted yet, see `collect`

Nothing is changed once it is written. Objects without a manifest that names them are what a savepoint left that was never
finished, or that is deleted.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.store.folder import Digest, Folder
from kappa_pipelines.errors import DriverError, LostDataError, UnavailableError
from kappa_pipelines.savepoint.manifest import KeptFile, Manifest, read_manifest
from kappa_pipelines.savepoint.state import CHECKSUM

MANIFEST = "manifest.json"
OBJECTS = "objects"
TAKING = "taking"
GARBAGE = "garbage"
AT_ONCE = 4
"""Files that are copied at the same time: most are small, and wait for a disk or a server."""
_FOLDERS = (OBJECTS, TAKING, GARBAGE)


class SavepointStore:
    """The savepoints of one pipeline, below one folder."""

    def __init__(self, files: Folder) -> None:
        self.files = files

    @property
    def root(self) -> str:
        """Return the folder's URI."""
        return self.files.root

    def names(self) -> list[str]:
        """Return the names of all savepoints that are whole."""
        return [
            name
            for name in sorted(self.files.names(""))
            if name not in _FOLDERS and MANIFEST in self.files.names(name)
        ]

    def read(self, name: str) -> Manifest:
        """Return a savepoint; LostDataError if there is none or its manifest is damaged."""
        where = f"{self.root}/{name}/{MANIFEST}"
        held = self.files.read(f"{name}/{MANIFEST}")
        if held is None:
            there = ", ".join(self.names()) or "none"
            raise LostDataError(
                Reason.SAVEPOINT_NOT_FOUND,
                f"there is no savepoint {name!r} below {self.root}; there are: {there}",
            )
        return read_manifest(where, held.decode(errors="replace"))

    def read_all(self) -> Iterator[Manifest]:
        """Yield all savepoints whose manifests can be read, the latest first."""
        found: list[Manifest] = []
        for name in self.names():
            with contextlib.suppress(LostDataError):  # named where it is used; it is no obstacle to others
                found.append(self.read(name))
        yield from sorted(found, key=lambda each: each.created, reverse=True)

    @contextlib.contextmanager
    def taking(self, name: str, checkpoint: str) -> Iterator[Callable[[], None]]:
        """Mark a savepoint as being taken of a checkpoint, and give what is to be called now and then to renew the mark."""
        mark, held = f"{TAKING}/{name}", f"{checkpoint}\n".encode()

        def renew() -> None:
            self.files.write(mark, held)

        renew()
        try:
            yield renew
        finally:
            self.files.delete(mark)

    def find_missing(self, manifest: Manifest) -> list[KeptFile]:
        """Return the files of a savepoint that are not there, by their sizes alone."""
        return [file for file in manifest.files if not self.has(file)]

    def settle(self, manifest: Manifest, again: Callable[[KeptFile], KeptFile]) -> None:
        """Have that put `again` which a collection took away before the manifest was there to name it, see `collect`.

        Where that cannot be, there is no savepoint: DriverError says why, and it is to be made anew.
        """
        try:
            for file in self.find_missing(manifest):
                if again(file).sha256 != file.sha256:
                    said = f"{file.path} was collected while the savepoint was taken, and has changed since"
                    raise UnavailableError(Reason.SAVEPOINT_UNSTABLE, said)
        except DriverError:
            self.drop(manifest.name)
            raise

    def drop(self, name: str) -> None:
        """Have a savepoint be no more: its manifest goes first. Its objects stay until they are collected."""
        self.files.delete(f"{name}/{MANIFEST}")
        self.files.remove(name)

    def has(self, file: KeptFile) -> bool:
        """Return whether a file is there, by its size alone."""
        return self.files.size(place(file)) == file.size

    def keep(self, manifest: Manifest) -> None:
        """Make a savepoint of what was put; it is there when this returns."""
        self.files.write(f"{manifest.name}/{MANIFEST}", manifest.to_json().encode())

    def put(self, files: Folder, path: str) -> tuple[KeptFile, bool]:
        """Keep a file of a checkpoint; return it, and whether it was copied. What was copied is read again."""
        found = files.digest(path)
        if found is None:
            raise LostDataError(Reason.CHECKPOINT_DAMAGED, f"the checkpoint {files.root} lacks {path}")
        _check_crc(files, path, found)
        kept = KeptFile(path=path, size=found.size, sha256=found.sha256)
        if self.files.digest(place(kept)) == found:
            return kept, False
        if files.copy(path, self.files, place(kept)) != found or self.files.digest(place(kept)) != found:
            raise refuse_unstable(self, path)
        return kept, True

    def find_damage(self, manifest: Manifest) -> Iterator[str]:
        """Yield what is wrong with the objects of a savepoint, naming each file."""
        for file in manifest.files:
            self._find(file)
            found = self.files.digest(place(file))
            if found is None:
                yield f"{file.path} is missing ({place(file)})"
            elif found.size != file.size:
                yield f"{file.path} has {found.size} bytes instead of {file.size} ({place(file)})"
            elif found.sha256 != file.sha256:
                yield f"{file.path} was changed ({place(file)})"

    def get(self, file: KeptFile, files: Folder) -> None:
        """Put a file back into a checkpoint; LostDataError if it is damaged."""
        if not self._find(file):
            raise _damaged(f"{file.path} is missing ({self.root}/{place(file)})")
        if self.files.copy(place(file), files, file.path).sha256 != file.sha256:
            raise _damaged(f"{file.path} was changed ({self.root}/{place(file)})")

    def read_object(self, file: KeptFile) -> bytes:
        """Return what a small file held."""
        self._find(file)
        found = self.files.read(place(file))
        if found is None:
            raise _damaged(f"{file.path} is missing ({self.root}/{place(file)})")
        if hashlib.sha256(found).hexdigest() != file.sha256:
            raise _damaged(f"{file.path} was changed ({self.root}/{place(file)})")
        return found

    def locate(self, file: KeptFile) -> str | None:
        """Return where a file is without changing anything: a collection may have it in its hands, or just put it back."""
        places = (place(file), f"{GARBAGE}/{file.sha256}", place(file))
        return next((path for path in places if self.files.size(path) is not None), None)

    def _find(self, file: KeptFile) -> bool:
        """Return whether a file is there; what a collection has in its hands is put back, for a manifest names it."""
        there = self.files.size(place(file)) is not None
        return there or self.files.move(f"{GARBAGE}/{file.sha256}", place(file))


def _check_crc(files: Folder, path: str, found: Digest) -> None:
    """Raise LostDataError where Spark says in a file beside it that the file was another when it was written."""
    held = files.read(path + CHECKSUM) if not path.endswith(CHECKSUM) else None
    if held is None:
        return
    said = json.loads(held)
    if said["algorithm"] == "CRC32C" and said["value"] % 2**32 != found.crc32c:
        raise LostDataError(
            Reason.CHECKPOINT_DAMAGED,
            f"the checkpoint {files.root} is damaged: {path} was changed since it was written",
        )


def place(file: KeptFile) -> str:
    """Return where a file is kept, below the store's folder."""
    return f"{OBJECTS}/{file.sha256[:2]}/{file.sha256}"


def refuse_unstable(store: SavepointStore, path: str) -> UnavailableError:
    """Return why a copy does not count."""
    return UnavailableError(
        Reason.SAVEPOINT_UNSTABLE,
        f"{path} was not the same when it was read again after it was copied to {store.root}",
    )


def _damaged(what: str) -> LostDataError:
    return LostDataError(Reason.SAVEPOINT_DAMAGED, f"the savepoint is damaged: {what}; use another one")
