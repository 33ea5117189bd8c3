"""What to do about a savepoint: have it taken, once, and report the result.

The pipeline's driver takes it where one runs, and a pod where none does. The attempt is recorded before either gets the request, and a savepoint
of one name is taken once, so a repeated request is fine. Where the driver or the pod is gone, its successor gets the request: the manifest is
written last, so the savepoint is complete or absent.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from kappa_crds.progress import SavepointProgress
from kappa_crds.quantities import format_size
from kappa_crds.reasons import Reason
from kappa_crds.savepoint import SAVEPOINT_FINALIZER, QueryBatch, SavepointState
from kappa_crds.savepoint_work import SavepointTask, Work
from kappa_crds.topic import DeletionPolicy
from kappa_operator import intervals
from kappa_operator.engine.actions import TakeSavepoint
from kappa_operator.engine.kinds import Step
from kappa_operator.engine.plan import Plan, Verdict, hold_deletion, ready, stalled, working
from kappa_operator.errors import KappaError
from kappa_operator.pipeline.driver import DriverPod
from kappa_operator.pipeline.objects import PipelineResource, build_token_ref
from kappa_operator.savepoint.deletion import delete_savepoint
from kappa_operator.savepoint.export import decide_export
from kappa_operator.savepoint.model import SavepointObserved, judge_attempt, record, say
from kappa_operator.savepoint.objects import name_savepoint
from kappa_operator.savepoint.verify import decide_verification
from kappa_operator.savepoint.work import (
    begin_work,
    end_work,
    find_location,
    find_source,
    follow_work,
    sweep_work,
)


def hold_files(observed: SavepointObserved, _now: datetime) -> Plan | None:
    """Hold deletion only where files are deleted with the resource, its own or those of a copy."""
    spec = observed.resource.spec
    wanted = DeletionPolicy.DELETE in (spec.deletion_policy, *(each.deletion_policy for each in spec.exports))
    return hold_deletion(observed.resource, SAVEPOINT_FINALIZER, wanted=wanted)


def verify_kept(observed: SavepointObserved, now: datetime) -> Plan | None:
    """Read a taken savepoint back where that is requested, unless a pod copies it."""
    is_copied = observed.work is not None and observed.work.task is SavepointTask.EXPORT
    return None if observed.status.taken is None or is_copied else decide_verification(observed, now)


def export_kept(observed: SavepointObserved, now: datetime) -> Plan | None:
    """Copy a taken savepoint to other stores."""
    return None if observed.status.taken is None else decide_export(observed, now)


def rest_failed(observed: SavepointObserved, _now: datetime) -> Plan | None:
    """Leave a savepoint that was given up."""
    return Plan() if observed.status.state == SavepointState.FAILED else None


def wait_for_pipeline(observed: SavepointObserved, now: datetime) -> Plan | None:
    """Wait for the pipeline of a savepoint that is to be taken."""
    if observed.pipeline is not None:
        return None
    return _wait(observed, Reason.PIPELINE_NOT_FOUND, observed.pipeline_problem, now)


def follow_taking(observed: SavepointObserved, now: datetime) -> Plan | None:
    """Follow the pod that takes it."""
    return None if observed.work is None else _follow_worker(observed, observed.work, observed.pipeline, now)


def take_by_driver(observed: SavepointObserved, now: datetime) -> Plan | None:
    """Have the driver take it, where one runs."""
    driver, reported = observed.driver, observed.reported
    if driver is None or driver.address is None:
        return None
    if observed.status.driver != driver.ref.name:
        return _ask_next(observed, driver, now)
    if reported is None:
        return _request(observed, driver, now)
    if not reported.done:
        kept = f"{reported.files_done} of {reported.files} files are kept"
        return say(observed, _taking(kept), now, intervals.WORKING)
    if reported.failure is not None:
        return _try_again(observed, driver, reported.failure.message, now)
    revision = observed.progress.revision if observed.progress else None
    # It is still to be verified or exported, where that is requested: no event requeues the savepoint for that.
    again = intervals.WORKING if observed.resource.spec.verify or observed.resource.spec.exports else None
    return say(observed, _judge(reported), now, again, **_describe_taken(observed, reported, revision))


def _taking(message: str) -> Verdict:
    return working(SavepointState.TAKING, Reason.SAVEPOINT_TAKING, message)


def _wait(observed: SavepointObserved, reason: Reason, message: str, now: datetime) -> Plan:
    return say(observed, working(SavepointState.PENDING, reason, message), now, intervals.SOON)


def take_at_rest(observed: SavepointObserved, now: datetime) -> Plan | None:
    """Have a pod take it from the checkpoint where no driver runs, unless one starts or stops."""
    if observed.pipeline is None:
        return None
    name, status = observed.pipeline.metadata.name, observed.pipeline.status
    if status.active.driver is not None or any(not pod.finished for pod in observed.drivers):
        message = f"Pipeline {name} starts or stops; the savepoint is taken once it runs, or has stopped"
        return _wait(observed, Reason.PIPELINE_NOT_RUNNING, message, now)
    if status.active.revision is None:
        message = f"Pipeline {name} has never run; the savepoint is taken once it does"
        return _wait(observed, Reason.PIPELINE_NOT_RUNNING, message, now)
    if isinstance(observed.storage, KappaError):
        return _wait(observed, observed.storage.reason, observed.storage.message, now)
    message = f"Pipeline {name} does not run; a pod takes it from the checkpoint"
    return begin_work(observed, SavepointTask.TAKE, _taking(message), now)


def import_savepoint(observed: SavepointObserved, now: datetime) -> Plan | None:
    """Have a pod import a savepoint that exists already."""
    if observed.resource.spec.import_ is None:
        return None
    for known in (observed.storage, observed.source):
        if isinstance(known, KappaError) and observed.worker is None:
            return _wait(observed, known.reason, known.message, now)
    if observed.work is not None:
        return _follow_worker(observed, observed.work, None, now)
    return begin_work(observed, SavepointTask.IMPORT, _taking("a pod imports it"), now)


SAVEPOINT_STEPS: tuple[Step[SavepointObserved], ...] = (
    sweep_work,
    delete_savepoint,
    hold_files,
    verify_kept,
    export_kept,
    rest_failed,
    import_savepoint,
    wait_for_pipeline,
    follow_taking,
    take_by_driver,
    take_at_rest,
)


def _follow_worker(
    observed: SavepointObserved, work: Work, pipeline: PipelineResource | None, now: datetime
) -> Plan:
    imported = observed.resource.spec.import_
    under_way = _taking("a pod imports it" if imported else "a pod takes it from the checkpoint")
    source = imported.name if imported else ""
    result = follow_work(observed, work, under_way, now, elsewhere=find_source(observed), source=source)
    if isinstance(result, Plan):
        return result
    if result.taken is None:
        return _note_failure(observed, result.problem, now, work=end_work(work))
    fields = _describe_taken(observed, result.taken, pipeline.status.active.revision if pipeline else None)
    return record(observed, _judge(result.taken), now, **fields, work=end_work(work))


def _ask_next(observed: SavepointObserved, driver: DriverPod, now: datetime) -> Plan:
    """Record an attempt by a driver before the request."""
    name = driver.ref.name
    return record(
        observed, _taking(f"driver {name} has a request for it"), now, requeue=True,
        driver=name, attempts=observed.status.attempts + 1, next_attempt=None,
    )  # fmt: skip


def _request(observed: SavepointObserved, driver: DriverPod, now: datetime) -> Plan:
    """Request the savepoint from the driver. One that is ending may not answer; then its successor gets the request."""
    if observed.failures:
        return say(observed, _taking(observed.failures[-1].error.message), now, intervals.SOON)
    if observed.pipeline is None or driver.address is None:
        raise AssertionError("there is a driver with an address")
    if isinstance(observed.storage, KappaError):
        return _wait(observed, observed.storage.reason, observed.storage.message, now)
    metadata, location = observed.resource.metadata, find_location(observed)
    token = build_token_ref(observed.pipeline)
    return Plan(
        (TakeSavepoint(driver.ref, driver.address, token, name_savepoint(metadata), location),),
        requeue_after=intervals.WORKING,
    )


def _try_again(observed: SavepointObserved, driver: DriverPod, message: str, now: datetime) -> Plan:
    """Record a failure, wait, and repeat the request."""
    if observed.status.next_attempt is None:
        return _note_failure(observed, message, now)
    wait = intervals.wait_until(observed.status.next_attempt, now)
    if wait > 0:
        return Plan(requeue_after=wait)
    verdict = _taking(f"driver {driver.ref.name} has another request for it")
    recorded = record(observed, verdict, now, attempts=observed.status.attempts + 1, next_attempt=None)
    return replace(recorded, actions=(*recorded.actions, *_request(observed, driver, now).actions))


def _note_failure(observed: SavepointObserved, message: str, now: datetime, **fields: Any) -> Plan:
    """Record that an attempt failed, and when the next one is due; after some attempts it is given up."""
    due, why = judge_attempt(observed, observed.status.attempts, message, "create a new Savepoint", now)
    verdict, wait = stalled(SavepointState.FAILED, Reason.SAVEPOINT_ABANDONED, why), None
    if due is not None:
        verdict = working(SavepointState.TAKING, Reason.SAVEPOINT_FAILED, why)
        wait = intervals.wait_until(due, now)
    # With fields a pod ended, which is still to be deleted.
    return record(observed, verdict, now, intervals.WORKING if fields else wait, next_attempt=due, **fields)


def _judge(reported: SavepointProgress) -> Verdict:
    batches = ", ".join(f"batch {batch} of {sink}" for sink, batch in sorted(reported.batches.items()))
    message = f"{batches or 'no batch yet'}; {_size(reported)}"
    return ready(SavepointState.READY, Reason.SAVEPOINT_READY, message)


def _size(reported: SavepointProgress) -> str:
    return f"{format_size(reported.size_bytes)}, {format_size(reported.copied_bytes)} copied"


def _describe_taken(
    observed: SavepointObserved, taken: SavepointProgress, revision: str | None
) -> dict[str, Any]:
    """Return the fields of the status that describe what was taken."""
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
