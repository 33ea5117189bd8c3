"""Deletes objects that no savepoint names, while drivers and pods may take savepoints.

There is no lock, because a lock would have to outlive its owner. Instead

1. a collection first moves an object that no manifest names out of `objects`. It reads the manifests again, and deletes the object
   only if they still do not name it; otherwise it moves the object back;
2. the writer of a savepoint checks after its manifest whether all objects exist, and copies the missing ones again.

The writer finds an object missing that was moved before its manifest; an object moved later is moved back. So any process may be
slow, paused or killed, and the next collection moves back or deletes the objects that a killed one left. A reader of a savepoint
finds an object in both folders.

A lease only saves work: a collection deletes nothing while there is one. A lease that expires belongs to a dead process.
"""

from collections.abc import Iterator

from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import Removal
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.savepoint.manifest import KeptFile
from kappa_pipelines.savepoint.store import GARBAGE, OBJECTS, TAKING, SavepointStore

PATIENCE_SECONDS = 900.0
_NOW = f"{GARBAGE}/now"


def delete_savepoint(store: SavepointStore, name: str) -> Removal:
    """Delete a savepoint that no process takes, and the objects that only it needs. It may have been deleted before."""
    store.drop(name)
    store.files.delete(f"{TAKING}/{name}")
    try:
        return collect_garbage(store)
    except LostDataError as error:  # the savepoint is deleted; another manifest is damaged
        return Removal(postponed=error.message)


def collect_garbage(store: SavepointStore, patience: float = PATIENCE_SECONDS) -> Removal:
    """Delete objects that no savepoint names, unless there is a lease. `patience` is its duration in seconds.

    LostDataError names a damaged manifest: while it exists, nothing is deleted.
    """
    leases = _find_leases(store, patience)
    if leases:
        return Removal(postponed=f"{', '.join(leases)} is being taken")
    referenced = _find_referenced(store)
    for path in store.files.walk(OBJECTS):
        if _name(path) not in referenced:
            store.files.move(path, f"{GARBAGE}/{_name(path)}")
    leases, referenced = _find_leases(store, patience), _find_referenced(store)
    freed: list[int] = []
    for name in store.files.names(GARBAGE):
        if leases or name in referenced:
            store.files.move(f"{GARBAGE}/{name}", f"{OBJECTS}/{name[:2]}/{name}")
        else:
            freed.append(store.files.size(f"{GARBAGE}/{name}") or 0)
            store.files.delete(f"{GARBAGE}/{name}")
    return Removal(objects=len(freed), size_bytes=sum(freed))


def _find_referenced(store: SavepointStore) -> set[str]:
    """Return the objects that the present manifests name."""
    return {file.sha256 for name in store.names() for file in _read_files(store, name)}


def _read_files(store: SavepointStore, name: str) -> Iterator[KeptFile]:
    try:
        yield from store.read(name).files
    except LostDataError as error:
        if error.reason is Reason.SAVEPOINT_NOT_FOUND:  # deleted after it was listed
            return
        message = (
            f"{error.message}; no object can be deleted while this manifest exists: delete that savepoint"
        )
        raise LostDataError(error.reason, message) from error


def _find_leases(store: SavepointStore, patience: float) -> list[str]:
    """Return the savepoints with a lease. Ages are by the clock of the store, which all its clients share."""
    store.files.write(_NOW, b"")
    now = store.files.modified(_NOW) or 0.0
    store.files.delete(_NOW)
    ages = {
        name: now - (store.files.modified(f"{TAKING}/{name}") or 0.0) for name in store.files.names(TAKING)
    }
    for name in (name for name, age in ages.items() if age >= patience):
        store.files.delete(f"{TAKING}/{name}")
    return [name for name, age in ages.items() if age < patience]


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
