"""Collects garbage in a whole state store: objects of the savepoints of each pipeline, and checkpoints.

    savepoints/NAMESPACE/PIPELINE/…    see `store`
    NAMESPACE/PIPELINE/UID             first checkpoint of the pipeline with that uid
    NAMESPACE/PIPELINE/UID-N           its N-th checkpoint that was restored from a savepoint

Unknown files stay. A checkpoint stays while a savepoint of it is taken, and while its last write is less than an hour older than the
request: its pipeline may be newer than the request, or may return to it if the change that replaced it fails.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import structlog

from kappa_crds.savepoint_work import CollectRequest, Removal
from kappa_pipelines.checkpoint.location import find_checkpoint
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.savepoint.collect import collect_garbage
from kappa_pipelines.savepoint.restore import find_restored
from kappa_pipelines.savepoint.store import TAKING, SavepointStore

_SLACK_SECONDS = 3600.0

CHECKPOINT_FOLDER = re.compile(r"^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-(\d+))?$")

log = structlog.get_logger()


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's folder: its path below the store, the uid of its pipeline if that exists, and its number."""

    path: str
    uid: str | None
    number: int


def collect_store(files: Folder, request: CollectRequest) -> Removal:
    """Remove what the request allows; report what was removed, and what was postponed."""
    removals = [*_collect_savepoints(files, request), *_collect_checkpoints(files, request)]
    return Removal(
        objects=sum(each.objects for each in removals),
        checkpoints=sum(each.checkpoints for each in removals),
        size_bytes=sum(each.size_bytes for each in removals),
        postponed="; ".join(each.postponed for each in removals if each.postponed)[:1000],
    )


def _collect_savepoints(files: Folder, request: CollectRequest) -> Iterator[Removal]:
    for store in _find_stores(files, request):
        try:
            yield collect_garbage(store)
        except LostDataError as error:
            yield Removal(postponed=error.message)


def _find_stores(files: Folder, request: CollectRequest) -> Iterator[SavepointStore]:
    folder = f"savepoints/{request.namespace}"
    for pipeline in files.names(folder):
        yield SavepointStore(files.below(f"{folder}/{pipeline}"))


def _collect_checkpoints(files: Folder, request: CollectRequest) -> Iterator[Removal]:
    leased = {held for store in _find_stores(files, request) for held in _read_leases(store)}
    for checkpoint in find_checkpoints(files, request):
        if f"{files.root}/{checkpoint.path}" in leased or not _is_removable(files, checkpoint, request):
            continue
        paths = list(files.walk(checkpoint.path))
        size = sum(files.size(path) or 0 for path in paths)
        log.info("checkpoint removed", path=checkpoint.path, bytes=size, pipeline_exists=bool(checkpoint.uid))
        files.remove(checkpoint.path)
        # In a bucket, an empty object that Hadoop created for the folder may stay.
        yield Removal(checkpoints=1 if paths else 0, size_bytes=size)


def _read_leases(store: SavepointStore) -> Iterator[str]:
    """Yield the checkpoints of which savepoints are taken now."""
    for name in store.files.names(TAKING):
        yield (store.files.read(f"{TAKING}/{name}") or b"").decode(errors="replace").strip()


def find_checkpoints(files: Folder, request: CollectRequest) -> Iterator[Checkpoint]:
    """Yield the checkpoints of the namespace."""
    for pipeline in files.names(request.namespace):
        for name in files.names(f"{request.namespace}/{pipeline}"):
            uid = next((uid for uid in request.current if name == uid or name.startswith(f"{uid}-")), None)
            match = CHECKPOINT_FOLDER.match(name)
            if match:
                yield Checkpoint(f"{request.namespace}/{pipeline}/{name}", uid, int(match[1] or 0))


def _is_removable(files: Folder, checkpoint: Checkpoint, request: CollectRequest) -> bool:
    if checkpoint.uid is None:
        return request.orphaned and _is_older(files, checkpoint, request)
    current = request.current[checkpoint.uid]
    match = CHECKPOINT_FOLDER.match(current)
    number = int(match[1] or 0) if match else 0
    folder = checkpoint.path.rpartition("/")[0]
    is_restored = find_restored(find_checkpoint(files.below(f"{folder}/{current}")).files) is not None
    is_replaced = checkpoint.number < number and is_restored
    return request.replaced and is_replaced and _is_older(files, checkpoint, request)


def _is_older(files: Folder, checkpoint: Checkpoint, request: CollectRequest) -> bool:
    """Return whether the last write to a checkpoint was long before the request."""
    times = (files.modified(path) or 0.0 for path in files.walk(checkpoint.path))
    return max(times, default=0.0) < request.at.timestamp() - _SLACK_SECONDS
