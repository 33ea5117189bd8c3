"""Deletes objects that no savepoint names, beside drivers and pods that take savepoints at the same time.

Nothing keeps a taker and a collection apart: a lock would have to outlive whoever holds it. Instead

1. an object without a manifest that names it is moved out of `objects` first, and deleted only if the manifests, read again after
   that, do not name it either; otherwise it is moved back;
2. a taker looks once more, after its manifest is there, whether all objects are, and copies again what is not.

An object that was moved before the manifest is there is missed by the taker; one that is moved later is moved back. So it does not matter
who is slow, stands still or dies, and what a dead collection left is put back or deleted by the next. Whoever reads a savepoint finds
an object in either place.

Marks of savepoints that are being taken only save work: while there is one, nothing is collected. One that was not renewed for a
while is of a taker that died.
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
    """Delete a savepoint that nobody takes any more, and what only it needed. One that is gone already is fine."""
    store.drop(name)
    store.files.delete(f"{TAKING}/{name}")
    try:
        return collect_garbage(store)
    except LostDataError as error:  # the savepoint is gone; what another one is made of cannot be known
        return Removal(postponed=error.message)


def collect_garbage(store: SavepointStore, patience: float = PATIENCE_SECONDS) -> Removal:
    """Delete what no savepoint names, unless one is being taken. `patience` is in seconds since its mark was renewed.

    LostDataError names a manifest that cannot be read: as long as it is there, nothing is deleted.
    """
    taking = _find_taking(store, patience)
    if taking:
        return Removal(postponed=f"{', '.join(taking)} is being taken")
    for path in _find_unnamed(store):
        store.files.move(path, f"{GARBAGE}/{_name(path)}")
    taking, named = _find_taking(store, patience), _find_named(store)
    freed: list[int] = []
    for name in store.files.names(GARBAGE):
        if taking or name in named:
            _put_back(store, name)
        else:
            freed.append(store.files.size(f"{GARBAGE}/{name}") or 0)
            store.files.delete(f"{GARBAGE}/{name}")
    return Removal(objects=len(freed), size_bytes=sum(freed))


def _put_back(store: SavepointStore, name: str) -> None:
    store.files.move(f"{GARBAGE}/{name}", f"{OBJECTS}/{name[:2]}/{name}")


def _find_unnamed(store: SavepointStore) -> Iterator[str]:
    """Yield the paths of objects without a manifest, and of what a copy left that was never finished."""
    named = _find_named(store)
    yield from (path for path in store.files.walk(OBJECTS) if _name(path) not in named)


def _find_named(store: SavepointStore) -> set[str]:
    """Return the objects that manifests name, as they are now."""
    return {file.sha256 for name in store.names() for file in _read_files(store, name)}


def _read_files(store: SavepointStore, name: str) -> Iterator[KeptFile]:
    try:
        yield from store.read(name).files
    except LostDataError as error:
        if error.reason is Reason.SAVEPOINT_NOT_FOUND:  # deleted since it was listed
            return
        said = f"{error.message}; as long as it is there no object is deleted, so delete that savepoint"
        raise LostDataError(error.reason, said) from error


def _find_taking(store: SavepointStore, patience: float) -> list[str]:
    """Return the savepoints that are being taken. Ages are by the volume's clock, which all that mount it share."""
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
