"""Restores a savepoint to a checkpoint, in a folder without one.

The last file to be written names the savepoint. Until it exists, a restore starts from the beginning.
"""

import json
import re
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_pipelines.checkpoint.fence.fence import RESTORED
from kappa_pipelines.checkpoint.format.offsets import read_committed_batch
from kappa_pipelines.checkpoint.format.schemas import rewrite_schema_paths
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.savepoint.manifest import KeptFile, Manifest
from kappa_pipelines.savepoint.store import SavepointStore, count_threads

_OPERATOR = re.compile(r"/state/\d+/_metadata/v2/\d+$")


def restore_savepoint(
    store: SavepointStore,
    manifest: Manifest,
    files: Folder,
    *,
    fork: bool = False,
    note: Callable[[int, int], None] = lambda done, of: None,
) -> bool:
    """Restore the checkpoint; return False if that was done before.

    The queries of a fork get new ids, so sinks that identify batches by query id accept the batches of a fork.
    LostDataError if the savepoint is damaged, or if the folder has another checkpoint.
    """
    done = find_restored(files)
    if done is not None:
        if done == manifest.name:
            return False
        raise _refuse(files, f"was restored from savepoint {done!r}, not from {manifest.name!r}")
    for point in manifest.queries:
        if read_committed_batch(files, point.sink) > point.batch:
            raise _refuse(files, f"has later batches of {point.sink}")
    restore = partial(_restore_file, store, manifest, files, fork=fork)
    note(0, len(manifest.files))
    with ThreadPoolExecutor(count_threads(files, store), thread_name_prefix="restore") as threads:
        for number, _ in enumerate(threads.map(restore, manifest.files), 1):
            note(number, len(manifest.files))
    files.write(RESTORED, f"{manifest.name}\n".encode())
    return True


def find_restored(files: Folder) -> str | None:
    """Return the name of the savepoint that a checkpoint was restored from; None if there is none, or the restore is incomplete."""
    done = files.read(RESTORED)
    return None if done is None else done.decode(errors="replace").strip()


def is_of_another(manifest: Manifest, revision: Revision) -> bool:
    """Return whether a savepoint belongs to another pipeline. The manifest of an imported savepoint names its first pipeline."""
    return (manifest.namespace, manifest.pipeline) != (revision.namespace, revision.pipeline)


def _restore_file(
    store: SavepointStore, manifest: Manifest, files: Folder, file: KeptFile, *, fork: bool
) -> None:
    if _OPERATOR.search(file.path):
        rewritten = rewrite_schema_paths(
            store.read_object(file).decode(), file.path.partition("/_metadata/")[0], files.root
        )
        files.write(file.path, rewritten.encode())
    elif fork and file.path in {f"{point.sink}/metadata" for point in manifest.queries}:
        files.write(file.path, json.dumps({"id": str(uuid.uuid4())}).encode())
    else:
        store.get(file, files)


def _refuse(files: Folder, why: str) -> LostDataError:
    return LostDataError(
        Reason.CHECKPOINT_IN_USE, f"a savepoint cannot be restored to {files.root}: that checkpoint {why}"
    )
