"""Where the savepoints of a pipeline are kept.

    objects/ab/abcd…      files of checkpoints, each under its SHA-256; one that several savepoints share is there once
    NAME/manifest.json    what makes a savepoint, written last

Nothing is changed once it is written. Objects without a manifest that names them are what a savepoint left that was never
finished, or that is deleted.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.folder import Digest, LocalFolder
from kappa_pipelines.errors import LostDataError, UnavailableError
from kappa_pipelines.savepoint.manifest import KeptFile, Manifest, read_manifest
from kappa_pipelines.savepoint.state import CHECKSUM

_MANIFEST = "manifest.json"
_OBJECTS = "objects"


class SavepointStore:
    """The savepoints of one pipeline, below one folder."""

    def __init__(self, files: LocalFolder) -> None:
        self._files = files

    @property
    def root(self) -> str:
        """Return the folder's URI."""
        return self._files.root

    def names(self) -> list[str]:
        """Return the names of all savepoints that are whole."""
        return [
            name
            for name in sorted(self._files.names(""))
            if name != _OBJECTS and _MANIFEST in self._files.names(name)
        ]

    def read(self, name: str) -> Manifest:
        """Return a savepoint; LostDataError if there is none or its manifest is damaged."""
        where = f"{self.root}/{name}/{_MANIFEST}"
        held = self._files.read(f"{name}/{_MANIFEST}")
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

    def has(self, file: KeptFile) -> bool:
        """Return whether a file is there, by its size alone."""
        return self._files.size(_place(file)) == file.size

    def keep(self, manifest: Manifest) -> None:
        """Make a savepoint of what was put; it is there when this returns."""
        self._files.write(f"{manifest.name}/{_MANIFEST}", manifest.to_json().encode())

    def put(self, files: LocalFolder, path: str) -> tuple[KeptFile, bool]:
        """Keep a file of a checkpoint; return it, and whether it was copied. What was copied is read again."""
        found = files.digest(path)
        if found is None:
            raise LostDataError(Reason.CHECKPOINT_DAMAGED, f"the checkpoint {files.root} lacks {path}")
        _check_crc(files, path, found)
        kept = KeptFile(path=path, size=found.size, sha256=found.sha256)
        if self._files.digest(_place(kept)) == found:
            return kept, False
        if files.copy(path, self._files, _place(kept)) != found or self._files.digest(_place(kept)) != found:
            raise UnavailableError(
                Reason.SAVEPOINT_UNSTABLE,
                f"{path} was not the same when it was read again after it was copied to {self.root}",
            )
        return kept, True

    def find_damage(self, manifest: Manifest) -> Iterator[str]:
        """Yield what is wrong with the objects of a savepoint, naming each file."""
        for file in manifest.files:
            found = self._files.digest(_place(file))
            if found is None:
                yield f"{file.path} is missing ({_place(file)})"
            elif found.size != file.size:
                yield f"{file.path} has {found.size} bytes instead of {file.size} ({_place(file)})"
            elif found.sha256 != file.sha256:
                yield f"{file.path} was changed ({_place(file)})"

    def get(self, file: KeptFile, files: LocalFolder) -> None:
        """Put a file back into a checkpoint; LostDataError if it is damaged."""
        if self._files.digest(_place(file)) is None:
            raise _damaged(f"{file.path} is missing ({self.root}/{_place(file)})")
        if self._files.copy(_place(file), files, file.path).sha256 != file.sha256:
            raise _damaged(f"{file.path} was changed ({self.root}/{_place(file)})")

    def read_object(self, file: KeptFile) -> bytes:
        """Return what a small file held."""
        found = self._files.read(_place(file))
        if found is None:
            raise _damaged(f"{file.path} is missing ({self.root}/{_place(file)})")
        if hashlib.sha256(found).hexdigest() != file.sha256:
            raise _damaged(f"{file.path} was changed ({self.root}/{_place(file)})")
        return found


def _check_crc(files: LocalFolder, path: str, found: Digest) -> None:
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


def _place(file: KeptFile) -> str:
    return f"{_OBJECTS}/{file.sha256[:2]}/{file.sha256}"


def _damaged(what: str) -> LostDataError:
    return LostDataError(Reason.SAVEPOINT_DAMAGED, f"the savepoint is damaged: {what}; use another one")
