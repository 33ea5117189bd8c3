"""What to do about a savepoint: have it taken, once, and say how that went.

The pipeline's driver takes it where one runs, and a pod where none does. The attempt is recorded before either is asked, and a savepoint
of one name is taken once, so asking again is fine. Where the driver or the pod goes, its successor is asked: the manifest is written last, so there
is a whole savepoint or none.
"""

from datetime import datetime
from typing import Any

from kappa_crds.progress import SavepointProgress
from kappa_crds.quantities import format_size
from kappa_crds.reasons import Reason
from kappa_crds.savepoint import SAVEPOINT_FINALIZER, QueryBatch, SavepointState
from kappa_crds.savepoint_work import SavepointTask, Work, WorkRequest
from kappa_crds.topic import DeletionPolicy
from kappa_operator.engine.actions import AddFinalizer, RecordStatus, RemoveFinalizer, TakeSavepoint
from kappa_operator.engine.plan import Plan, Verdict, ready, stalled, working
from kappa_operator.errors import KappaError
from kappa_operator.pipeline.driver import DriverPod
from kappa_operator.pipeline.objects import PipelineResource, build_token_ref
from kappa_operator.savepoint.deletion import decide_deletion
from kappa_operator.savepoint.export import decide_export
from kappa_operator.savepoint.model import (
    BLOCKED_POLL,
    MOST_ATTEMPTS,
    POLL,
    SavepointObserved,
    build_status,
    measure_pause,
    measure_wait,
    say,
)
from kappa_operator.savepoint.objects import name_savepoint
from kappa_operator.savepoint.verify import decide_verification
from kappa_operator.savepoint.work import (
    begin_work,
    decide_sweep,
    end_work,
    find_location,
    find_source,
    follow_work,
)


def decide_savepoint(observed: SavepointObserved, now: datetime) -> Plan:
    """Return the next step for the savepoint."""
    swept = decide_sweep(observed)
    if swept is not None:
        return swept
    if observed.resource.metadata.deletion_timestamp is not None:
        return decide_deletion(observed, now)
    finalizer = _decide_finalizer(observed)
    if finalizer is not None:
        return Plan((finalizer,), requeue=True)
    if observed.status.taken is not None:
        return _decide_kept(observed, now)
    if observed.status.state == SavepointState.FAILED:
        return Plan()
    return _decide_take(observed, now)


def _decide_kept(observed: SavepointObserved, now: datetime) -> Plan:
    """Read it back first, then copy it to where that is asked for; of a pod that copies it, see to the end."""
    copies = observed.work is not None and observed.work.task is SavepointTask.EXPORT
    verified = None if copies else decide_verification(observed, now)
    return decide_export(observed, now) if verified is None else verified


def _decide_finalizer(observed: SavepointObserved) -> AddFinalizer | RemoveFinalizer | None:
    """Hold deletion only where files are to go with the resource, its own or those of a copy."""
    spec = observed.resource.spec
    wanted = DeletionPolicy.DELETE in (spec.deletion_policy, *(each.deletion_policy for each in spec.exports))
    if wanted == (SAVEPOINT_FINALIZER in observed.resource.metadata.finalizers):
        return None
    return AddFinalizer(SAVEPOINT_FINALIZER) if wanted else RemoveFinalizer(SAVEPOINT_FINALIZER)


def _decide_take(observed: SavepointObserved, now: datetime) -> Plan:
    if observed.resource.spec.import_ is not None:
        return _import(observed, now)
    if observed.pipeline is None:
        return _wait(observed, Reason.PIPELINE_NOT_FOUND, observed.pipeline_problem, now)
    if observed.work is not None:
        return _follow_worker(observed, observed.work, observed.pipeline, now)
    if observed.driver is None or observed.driver.address is None:
        return _take_at_rest(observed, observed.pipeline, now)
    reported = observed.reported
    if observed.status.driver != observed.driver.ref.name:
        return _ask_next(observed, observed.driver, now)
    if reported is None:
        return _ask(observed, observed.driver, now)
    if not reported.done:
        said = f"{reported.files_done} of {reported.files} files are kept"
        return say(observed, working(SavepointState.TAKING, Reason.SAVEPOINT_TAKING, said), now, POLL)
    if reported.failure is not None:
        return _try_again(observed, observed.driver, reported.failure.message, now)
    revision = observed.progress.revision if observed.progress else None
    # It is still to be verified or exported, where that is asked for: nothing else wakes the savepoint up for that.
    again = POLL if observed.resource.spec.verify or observed.resource.spec.exports else None
    return say(observed, _judge(reported), now, again, **_tell(observed, reported, revision))


def _wait(observed: SavepointObserved, reason: Reason, message: str, now: datetime) -> Plan:
    return say(observed, working(SavepointState.PENDING, reason, message), now, BLOCKED_POLL)


def _take_at_rest(observed: SavepointObserved, pipeline: PipelineResource, now: datetime) -> Plan:
    """No driver runs: have a pod take it of the checkpoint, unless a driver is just on its way."""
    name, status = pipeline.metadata.name, pipeline.status
    if status.driver is not None or any(not pod.finished for pod in observed.drivers):
        said = f"Pipeline {name} starts or stops; the savepoint is taken once it runs, or has stopped"
        return _wait(observed, Reason.PIPELINE_NOT_RUNNING, said, now)
    if status.revision is None:
        said = f"Pipeline {name} has never run; the savepoint is taken once it does"
        return _wait(observed, Reason.PIPELINE_NOT_RUNNING, said, now)
    if isinstance(observed.storage, KappaError):
        return _wait(observed, observed.storage.reason, observed.storage.message, now)
    wait = measure_wait(observed, now)
    if wait > 0:
        return Plan(requeue_after=wait)
    said = f"Pipeline {name} does not run; a pod takes it of the checkpoint"
    verdict = working(SavepointState.TAKING, Reason.SAVEPOINT_TAKING, said)
    return begin_work(observed, SavepointTask.TAKE, verdict, now)


def _import(observed: SavepointObserved, now: datetime) -> Plan:
    """Have a pod look at a savepoint that is there already."""
    verdict = working(SavepointState.TAKING, Reason.SAVEPOINT_TAKING, "a pod imports it")
    for known in (observed.storage, observed.source):
        if isinstance(known, KappaError) and observed.worker is None:
            return _wait(observed, known.reason, known.message, now)
    if observed.work is not None:
        return _follow_worker(observed, observed.work, None, now)
    wait = measure_wait(observed, now)
    return Plan(requeue_after=wait) if wait > 0 else begin_work(observed, SavepointTask.IMPORT, verdict, now)


def _follow_worker(
    observed: SavepointObserved, work: Work, pipeline: PipelineResource | None, now: datetime
) -> Plan:
    imported = observed.resource.spec.import_
    request = WorkRequest(
        task=work.task,
        source=imported.name if imported else "",
        name=name_savepoint(observed.resource.metadata),
        location=observed.status.location or find_location(observed),
    )
    under_way = working(
        SavepointState.TAKING,
        Reason.SAVEPOINT_TAKING,
        "a pod imports it" if imported else "a pod takes it of the checkpoint",
    )
    result = follow_work(observed, work, request, under_way, now, elsewhere=find_source(observed))
    if isinstance(result, Plan):
        return result
    if result.taken is None:
        message = result.failure.message if result.failure else "the pod ended without a word"
        return _note_failure(observed, message, now, work=end_work(work))
    fields = _tell(observed, result.taken, pipeline.status.revision if pipeline else None)
    written = build_status(observed, _judge(result.taken), now, **fields, work=end_work(work))
    return Plan((RecordStatus(written),), requeue_after=POLL)


def _ask_next(observed: SavepointObserved, driver: DriverPod, now: datetime) -> Plan:
    """Record an attempt by a driver before it is asked."""
    verdict = working(
        SavepointState.TAKING, Reason.SAVEPOINT_TAKING, f"driver {driver.ref.name} is asked for it"
    )
    attempts = observed.resource.status.attempts + 1
    status = build_status(
        observed, verdict, now, driver=driver.ref.name, attempts=attempts, next_attempt=None
    )
    return Plan((RecordStatus(status),), requeue=True)


def _ask(observed: SavepointObserved, driver: DriverPod, now: datetime) -> Plan:
    """Ask the driver. One that is just ending does not hear it; its successor will be asked."""
    if observed.failures:
        verdict = working(SavepointState.TAKING, Reason.SAVEPOINT_TAKING, observed.failures[-1].error.message)
        return say(observed, verdict, now, BLOCKED_POLL)
    if observed.pipeline is None or driver.address is None:
        raise AssertionError("there is a driver with an address")
    if isinstance(observed.storage, KappaError):
        return _wait(observed, observed.storage.reason, observed.storage.message, now)
    metadata, location = observed.resource.metadata, find_location(observed)
    token = build_token_ref(observed.pipeline)
    return Plan(
        (TakeSavepoint(driver.ref, driver.address, token, name_savepoint(metadata), location),),
        requeue_after=POLL,
    )


def _try_again(observed: SavepointObserved, driver: DriverPod, message: str, now: datetime) -> Plan:
    """Record a failure, wait, and ask anew."""
    if observed.status.next_attempt is None:
        return _note_failure(observed, message, now)
    wait = measure_wait(observed, now)
    if wait > 0:
        return Plan(requeue_after=wait)
    asked = _ask(observed, driver, now)
    verdict = working(
        SavepointState.TAKING, Reason.SAVEPOINT_TAKING, f"driver {driver.ref.name} is asked again"
    )
    written = build_status(observed, verdict, now, attempts=observed.status.attempts + 1, next_attempt=None)
    return Plan((RecordStatus(written), *asked.actions), requeue_after=POLL)


def _note_failure(observed: SavepointObserved, message: str, now: datetime, **fields: Any) -> Plan:
    """Record that an attempt failed, and when the next one is due; after some attempts it is given up."""
    attempts = observed.status.attempts
    if attempts >= MOST_ATTEMPTS:
        said = f"given up after {attempts} attempts: {message}; repair that, and create a new Savepoint"
        verdict = stalled(SavepointState.FAILED, Reason.SAVEPOINT_ABANDONED, said)
        return Plan(
            (RecordStatus(build_status(observed, verdict, now, **fields)),),
            requeue_after=POLL if fields else None,
        )
    pause, said = measure_pause(attempts), f"attempt {attempts} failed: {message}"
    verdict = working(SavepointState.TAKING, Reason.SAVEPOINT_FAILED, said)
    due = now.replace(microsecond=0) + pause
    written = build_status(observed, verdict, now, next_attempt=due, **fields)
    return Plan((RecordStatus(written),), requeue_after=POLL if fields else pause.total_seconds())


def _judge(reported: SavepointProgress) -> Verdict:
    batches = ", ".join(f"batch {batch} of {sink}" for sink, batch in sorted(reported.batches.items()))
    said = f"{batches or 'no batch yet'}; {_size(reported)}"
    return ready(SavepointState.READY, Reason.SAVEPOINT_READY, said)


def _size(reported: SavepointProgress) -> str:
    return f"{format_size(reported.size_bytes)}, {format_size(reported.copied_bytes)} copied"


def _tell(observed: SavepointObserved, taken: SavepointProgress, revision: str | None) -> dict[str, Any]:
    """Return the fields of the status that say what was taken."""
    return {
        "location": taken.location,
        **observed.place,
        "taken": taken.taken,
        "queries": tuple(QueryBatch(sink=sink, batch=batch) for sink, batch in sorted(taken.batches.items())),
        "size": _size(taken),
        "revision": revision,
        "shuffle_partitions": taken.shuffle_partitions,
        "size_bytes": taken.size_bytes,
        "copied_bytes": taken.copied_bytes,
        "next_attempt": None,
    }
