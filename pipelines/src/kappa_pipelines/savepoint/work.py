"""The tasks of a savepoint's worker pod, one task per pod. Only the state reader starts a JVM."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import assert_never

import structlog

from kappa_crds.progress import SavepointProgress
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import (
    OtherPlace,
    Removal,
    SavepointTask,
    StateRows,
    Verification,
    VerifyBy,
    WorkRequest,
    WorkResult,
)
from kappa_pipelines.checkpoint.check import check_store
from kappa_pipelines.checkpoint.format.offsets import read_committed_batch
from kappa_pipelines.checkpoint.location import open_checkpoint, open_folder
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.errors import LostDataError, SpecError, UnavailableError, shorten
from kappa_pipelines.revision.load import load_revision
from kappa_pipelines.savepoint.collect import delete_savepoint
from kappa_pipelines.savepoint.collect_store import collect_store
from kappa_pipelines.savepoint.manifest import Manifest
from kappa_pipelines.savepoint.measure import measure_store
from kappa_pipelines.savepoint.restore import find_restored, restore_savepoint
from kappa_pipelines.savepoint.store import SavepointStore
from kappa_pipelines.savepoint.take import Taken, take_savepoint
from kappa_pipelines.savepoint.transfer import transfer_savepoint
from kappa_pipelines.savepoint.worker import describe_taken

_REPORTED_FILES, _REPORTED_BYTES = 5, 400  # a termination message has 4096 bytes
_THREADS = 8  # a worker has 512 MiB

log = structlog.get_logger()


def do_work(request: WorkRequest, revision_file: Path) -> WorkResult:
    """Run the requested task; DriverError if it fails. `revision_file` is read for tasks on a checkpoint."""
    store = SavepointStore(open_folder(request.location, request.connection))
    log.info("task started", task=request.task, location=request.location)
    match request.task:
        case SavepointTask.TAKE:
            return _take(store, request, revision_file)
        case SavepointTask.IMPORT:
            return _import(store, request)
        case SavepointTask.EXPORT:
            return _export(store, request)
        case SavepointTask.VERIFY:
            return WorkResult(verification=_verify(store, request))
        case SavepointTask.DELETE:
            return _delete(store, request)
        case SavepointTask.COLLECT:
            return WorkResult(removed=_collect(store, request))
        case SavepointTask.MEASURE:
            return WorkResult(contents=measure_store(store.files, request.namespace))
        case SavepointTask.CHECK:
            return WorkResult(checked=check_store(request.location, request.name, request.connection))
        case _:
            assert_never(request.task)


def _take(store: SavepointStore, request: WorkRequest, revision_file: Path) -> WorkResult:
    """Take a savepoint of the last committed batches of a checkpoint without a driver."""
    revision = load_revision(revision_file)
    checkpoint = open_checkpoint(revision.checkpoint, revision.connection)
    files = checkpoint.files
    if all(read_committed_batch(files, sink.name) < 0 for sink in revision.spec.sinks):
        raise UnavailableError(
            Reason.PIPELINE_NOT_RUNNING,
            f"the checkpoint {files.root} has no committed batch; run the pipeline until it has committed one",
        )
    taken = take_savepoint(files, revision, checkpoint.generation, store, request.name, note=_log_progress())
    return _report(request, taken)


def _import(store: SavepointStore, request: WorkRequest) -> WorkResult:
    """Import a savepoint from another store, or write a second manifest with the new name in the same store.

    The two savepoints share all files; deleting one leaves the other.
    """
    if request.other is not None:
        return _transfer(request, _open_other(request.other), request.source, store)
    manifest = store.read(request.source).replace(name=request.name)
    with store.lease(request.name, manifest.checkpoint):
        store.keep(manifest)
        missing = store.find_missing(manifest)
    if missing:
        store.drop(request.name)
        raise LostDataError(
            Reason.SAVEPOINT_DAMAGED,
            f"{len(missing)} of {len(manifest.files)} files of {request.source} are missing, the first is {missing[0].path}",
        )
    return _report(request, Taken(manifest, 0, 0))


def _export(store: SavepointStore, request: WorkRequest) -> WorkResult:
    if request.other is None:
        raise SpecError(Reason.INVALID_SPEC, "the request does not name the target of the export")
    return _transfer(request, store, request.name, _open_other(request.other))


def _transfer(request: WorkRequest, source: SavepointStore, name: str, target: SavepointStore) -> WorkResult:
    """Copy the savepoint `name` under the name of the request."""
    taken = transfer_savepoint(source, name, target, request.name, note=_log_progress(), threads=_THREADS)
    return _report(request, taken)


def _open_other(other: OtherPlace) -> SavepointStore:
    return SavepointStore(open_folder(other.location, other.connection))


def _report(request: WorkRequest, taken: Taken) -> WorkResult:
    progress = SavepointProgress(name=request.name, location=request.location, done=True)
    return WorkResult(taken=progress.replace(**describe_taken(taken)))


def _delete(store: SavepointStore, request: WorkRequest) -> WorkResult:
    for checkpoint in request.needed_by:
        if find_restored(open_checkpoint(checkpoint, request.connection).files) != request.name:
            raise UnavailableError(
                Reason.SAVEPOINT_IN_USE, f"the checkpoint {checkpoint} will be restored from it"
            )
    return WorkResult(removed=delete_savepoint(store, request.name))


def _collect(store: SavepointStore, request: WorkRequest) -> Removal:
    if request.collect is None:
        raise SpecError(Reason.INVALID_SPEC, "the request does not state what may be removed")
    return collect_store(store.files, request.collect)


def _verify(store: SavepointStore, request: WorkRequest) -> Verification:
    """Read all files of a savepoint, and its state with Spark if that is requested and no file is damaged."""
    try:
        manifest = store.read(request.name)
    except LostDataError as error:
        return Verification(damage=(shorten(error.message, _REPORTED_BYTES),), damaged=1)
    damage = list(store.find_damage(manifest))
    found = Verification(
        files=len(manifest.files),
        size_bytes=manifest.size,
        damage=tuple(shorten(each, _REPORTED_BYTES) for each in damage[:_REPORTED_FILES]),
        damaged=len(damage),
    )
    if damage or request.verify_by is VerifyBy.CHECKSUMS:
        return found
    return found.replace(state=tuple(_read_state(store, manifest)))


def _read_state(store: SavepointStore, manifest: Manifest) -> list[StateRows]:
    """Restore the savepoint to a temporary folder and read its state."""
    # Spark is slow to load, and only this task needs it.
    from kappa_pipelines.savepoint.reader import create_reader_session, read_state  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="kappa-verify-") as scratch:
        files = LocalFolder(f"file://{scratch}/checkpoint")
        restore_savepoint(store, manifest, files, note=_log_progress())
        spark = create_reader_session(manifest.shuffle_partitions)
        try:
            return read_state(spark, files.root, manifest)
        finally:
            spark.stop()


def _log_progress() -> Callable[[int, int], None]:
    """Return a `note` that logs each tenth of the work."""
    last = -1

    def report(done: int, of: int) -> None:
        nonlocal last
        tenth = 10 * done // max(1, of)
        if tenth > last:
            last = tenth
            log.info("files stored", files=done, of=of)

    return report
