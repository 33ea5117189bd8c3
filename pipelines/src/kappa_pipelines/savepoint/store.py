"""The savepoints of a pipeline in a store.

    objects/ab/abcd…      files of checkpoints, each under its SHA-256; savepoints share equal files
    NAME/manifest.json    the manifest, written last: it makes a savepoint
    taking/NAME           the lease of a process that takes a savepoint; written before its first object, then renewed
    garbage/…             objects that a collection has moved and not deleted yet, see `collect`

Files never change. Objects that no manifest names belong to an unfinished or deleted savepoint.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable, Container, Iterator

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.store.folder import Digest, Folder
from kappa_pipelines.errors import DriverError, LostDataError, UnavailableError
from kappa_pipelines.savepoint.manifest import KeptFile, Manifest, read_manifest
from kappa_pipelines.savepoint.state import CHECKSUM

MANIFEST = "manifest.json"
OBJECTS = "objects"
TAKING = "taking"
GARBAGE = "garbage"
PARALLEL_COPIES = 4
"""Most files are small, so their copies wait for the store."""
_PARALLEL_WITHIN = 16
"""The same where the store itself copies them, and nothing of a file is held in memory but a part that is read to verify it."""
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
        """Return the names of all complete savepoints."""
        return [name for name in self._list_folders() if self.contains(name)]

    def contains(self, name: str) -> bool:
        """Return whether there is a complete savepoint with this name."""
        return self.files.stat(f"{name}/{MANIFEST}") is not None

    def _list_folders(self) -> list[str]:
        return [name for name in self.files.names("") if name not in _FOLDERS]

    def read(self, name: str) -> Manifest:
        """Return a savepoint; LostDataError if there is none or its manifest is damaged."""
        where = f"{self.root}/{name}/{MANIFEST}"
        held = self.files.read(f"{name}/{MANIFEST}")
        if held is None:
            known = ", ".join(self.names()) or "none"
            message = f"savepoint {name!r} not found below {self.root}; savepoints there: {known}"
            raise LostDataError(Reason.SAVEPOINT_NOT_FOUND, message)
        return read_manifest(where, held.decode(errors="replace"))

    def read_all(self) -> Iterator[Manifest]:
        """Yield all savepoints with a valid manifest, the last written first. Each manifest is read when it is needed."""
        found = ((name, self.files.modified(f"{name}/{MANIFEST}")) for name in self._list_folders())
        written = sorted(((at, name) for name, at in found if at is not None), reverse=True)
        for _, name in written:
            with contextlib.suppress(LostDataError):  # reported where that savepoint is used
                yield self.read(name)

    @contextlib.contextmanager
    def lease(self, name: str, checkpoint: str) -> Iterator[Callable[[], None]]:
        """Hold the lease for taking a savepoint of a checkpoint; the context is a function that renews it."""
        path, held = f"{TAKING}/{name}", f"{checkpoint}\n".encode()

        def renew() -> None:
            self.files.write(path, held)

        renew()
        try:
            yield renew
        finally:
            self.files.delete(path)

    def find_missing(self, manifest: Manifest) -> list[KeptFile]:
        """Return the missing files of a savepoint, by their sizes."""
        sizes = self.list_sizes()
        return [file for file in manifest.files if sizes.get(object_path(file)) != file.size]

    def list_sizes(self) -> dict[str, int]:
        """Return the sizes of all objects by their paths. A savepoint has thousands of files, and one request lists as many."""
        return {each.path: each.size for each in self.files.list_files(OBJECTS)}

    def restore_collected(self, manifest: Manifest, again: Callable[[KeptFile], KeptFile]) -> None:
        """Copy files `again` that a collection removed before the manifest named them, see `collect`.

        If that fails, the savepoint is dropped; DriverError gives the cause.
        """
        try:
            for file in self.find_missing(manifest):
                if again(file).sha256 != file.sha256:
                    message = (
                        f"{file.path} was collected while the savepoint was taken, and has changed since"
                    )
                    raise UnavailableError(Reason.SAVEPOINT_UNSTABLE, message)
        except DriverError:
            self.drop(manifest.name)
            raise

    def drop(self, name: str) -> None:
        """Delete a savepoint, its manifest first. A collection deletes its objects later."""
        self.files.delete(f"{name}/{MANIFEST}")
        self.files.remove(name)

    def has(self, file: KeptFile) -> bool:
        """Return whether a file exists, by its size."""
        return self.files.size(object_path(file)) == file.size

    def keep(self, manifest: Manifest) -> None:
        """Write the manifest; the savepoint exists when this returns."""
        self.files.write(f"{manifest.name}/{MANIFEST}", manifest.to_json().encode())

    def put(self, files: Folder, path: str, present: Container[str] | None = None) -> tuple[KeptFile, bool]:
        """Store a file of a checkpoint and verify a new copy by reading it. Return the file, and whether it was copied.

        `present` are the paths of the objects that may exist, from a listing: others are written without a request for each.
        """
        found = files.digest(path)
        if found is None:
            raise LostDataError(Reason.CHECKPOINT_DAMAGED, f"the checkpoint {files.root} lacks {path}")
        _check_crc(files, path, found)
        kept = KeptFile(path=path, size=found.size, sha256=found.sha256)
        target = object_path(kept)
        if (present is None or target in present) and self.files.digest(target) == found:
            return kept, False
        copied = files.copy(path, self.files, target)
        # A copy within the store has been read already.
        if copied != found or not (files.copies_within(self.files) or self.files.digest(target) == found):
            raise refuse_unstable(self, path)
        return kept, True

    def find_damage(self, manifest: Manifest) -> Iterator[str]:
        """Yield a message for each damaged object of a savepoint."""
        for file in manifest.files:
            self._find(file)
            found = self.files.digest(object_path(file))
            if found is None:
                yield f"{file.path} is missing ({object_path(file)})"
            elif found.size != file.size:
                yield f"{file.path} has {found.size} bytes instead of {file.size} ({object_path(file)})"
            elif found.sha256 != file.sha256:
                yield f"{file.path} was changed ({object_path(file)})"

    def get(self, file: KeptFile, files: Folder) -> None:
        """Copy a file into a checkpoint; LostDataError if it is damaged."""
        if not self._find(file):
            raise self.refuse(file, "is missing")
        if self.files.copy(object_path(file), files, file.path).sha256 != file.sha256:
            raise self.refuse(file, "was changed")

    def read_object(self, file: KeptFile) -> bytes:
        """Return the content of a small file."""
        self._find(file)
        found = self.files.read(object_path(file))
        if found is None:
            raise self.refuse(file, "is missing")
        if hashlib.sha256(found).hexdigest() != file.sha256:
            raise self.refuse(file, "was changed")
        return found

    def refuse(self, file: KeptFile, what: str) -> LostDataError:
        """Return the error for a damaged object."""
        where = f"{file.path} {what} ({self.root}/{object_path(file)})"
        return LostDataError(Reason.SAVEPOINT_DAMAGED, f"the savepoint is damaged: {where}; use another one")

    def locate(self, file: KeptFile) -> str | None:
        """Return the path of a file without changing it; a collection may have moved it, or just moved it back."""
        paths = (object_path(file), f"{GARBAGE}/{file.sha256}", object_path(file))
        return next((path for path in paths if self.files.size(path) is not None), None)

    def _find(self, file: KeptFile) -> bool:
        """Return whether a file exists. Move it back if a collection has moved it, because a manifest names it."""
        exists = self.files.stat(object_path(file)) is not None
        return exists or self.files.move(f"{GARBAGE}/{file.sha256}", object_path(file))


def count_threads(files: Folder, store: SavepointStore) -> int:
    """Return how many files of a checkpoint are copied to a store at once."""
    return _PARALLEL_WITHIN if files.copies_within(store.files) else PARALLEL_COPIES


def _check_crc(files: Folder, path: str, found: Digest) -> None:
    """Raise LostDataError if the checksum file of Spark does not match a file."""
    held = files.read(path + CHECKSUM) if not path.endswith(CHECKSUM) else None
    if held is None:
        return
    checksum = json.loads(held)
    if checksum["algorithm"] == "CRC32C" and checksum["value"] % 2**32 != found.crc32c:
        raise LostDataError(
            Reason.CHECKPOINT_DAMAGED,
            f"the checkpoint {files.root} is damaged: {path} was changed since it was written",
        )


def object_path(file: KeptFile) -> str:
    """Return the path of a file's object in the store."""
    return f"{OBJECTS}/{file.sha256[:2]}/{file.sha256}"


def refuse_unstable(store: SavepointStore, path: str) -> UnavailableError:
    """Return the error for a copy that does not match its source."""
    return UnavailableError(
        Reason.SAVEPOINT_UNSTABLE,
        f"the copy of {path} in {store.root} differs from the file; the file has changed, or the store is damaged",
    )
