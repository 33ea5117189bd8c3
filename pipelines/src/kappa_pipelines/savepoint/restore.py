"""Makes a checkpoint of a savepoint: in a folder where none is, so that nothing of an old one is in the way.

A file that is written last says which savepoint it was. Until it is there, the work is done again from the beginning.
"""

import json
import re
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_pipelines.checkpoint.fence.fence import INTERNAL_FOLDER
from kappa_pipelines.checkpoint.format.offsets import read_committed_batch
from kappa_pipelines.checkpoint.format.schemas import rewrite_schema_paths
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.savepoint.manifest import KeptFile, Manifest
from kappa_pipelines.savepoint.store import AT_ONCE, SavepointStore

_MARK = f"{INTERNAL_FOLDER}/restored"
_OPERATOR = re.compile(r"/state/\d+/_metadata/v2/\d+$")


def restore_savepoint(
    store: SavepointStore,
    manifest: Manifest,
    files: Folder,
    *,
    fork: bool = False,
    note: Callable[[int, int], None] = lambda done, of: None,
) -> bool:
    """Make the checkpoint, unless it was made before; return whether there was something to do.

    A fork's queries have new ids: sinks that know batches by the id of their query take those of a fork for new ones.
    LostDataError if the savepoint is damaged, or if the folder has a checkpoint that was not made of it.
    """
    done = find_restored(files)
    if done is not None:
        if done == manifest.name:
            return False
        raise _refuse(files, f"was made of the savepoint {done!r}, not of {manifest.name!r}")
    for point in manifest.queries:
        if read_committed_batch(files, point.sink) > point.batch:
            raise _refuse(files, f"has later batches of {point.sink}")
    put_back = partial(_put_back, store, manifest, files, fork=fork)
    note(0, len(manifest.files))
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="restore") as threads:
        for number, _ in enumerate(threads.map(put_back, manifest.files), 1):
            note(number, len(manifest.files))
    files.write(_MARK, f"{manifest.name}\n".encode())
    return True


def find_restored(files: Folder) -> str | None:
    """Return the name of the savepoint that a checkpoint was made of; None where it was not, or not wholly."""
    done = files.read(_MARK)
    return None if done is None else done.decode(errors="replace").strip()


def is_of_another(manifest: Manifest, revision: Revision) -> bool:
    """Return whether a savepoint was taken of another pipeline. One that was imported tells that itself, whatever its resource is called."""
    return (manifest.namespace, manifest.pipeline) != (revision.namespace, revision.pipeline)


def is_restored(files: Folder, name: str) -> bool:
    """Return whether a checkpoint was made of the savepoint of that name, so that it needs it no more."""
    return find_restored(files) == name


def _put_back(
    store: SavepointStore, manifest: Manifest, files: Folder, file: KeptFile, *, fork: bool
) -> None:
    if _OPERATOR.search(file.path):
        moved = rewrite_schema_paths(
            store.read_object(file).decode(), file.path.partition("/_metadata/")[0], files.root
        )
        files.write(file.path, moved.encode())
    elif fork and file.path in {f"{point.sink}/metadata" for point in manifest.queries}:
        files.write(file.path, json.dumps({"id": str(uuid.uuid4())}).encode())
    else:
        store.get(file, files)


def _refuse(files: Folder, why: str) -> LostDataError:
    return LostDataError(
        Reason.CHECKPOINT_IN_USE, f"no savepoint can be restored to {files.root}: that checkpoint {why}"
    )
