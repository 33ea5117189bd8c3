"""What to do about a pipeline, from what was observed.

The status is the write-ahead log: a generation is recorded before its driver is made, and a failure is counted before
the next start. `status.driver` names the driver whose end has not been dealt with yet. A driver is made only when no
other driver is alive, and its name holds its generation, so that making it twice makes one. The pod of a driver that
has ended stays to be looked at until the next one is made.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from kappa_crds.pipeline import PIPELINE_FINALIZER, PipelineState, Restarts
from kappa_crds.progress import DriverExit, DriverState
from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_operator.actions import (
    Action,
    AddFinalizer,
    ApplyObject,
    CreateObject,
    CreateToken,
    DeleteObject,
    RecordStatus,
    RemoveFinalizer,
    StopDriver,
)
from kappa_operator.plan.driver import DriverPod, count_failure, forgive
from kappa_operator.plan.model import Plan, Verdict, ready, stalled, working
from kappa_operator.plan.pipeline_model import PipelineObserved, say
from kappa_operator.plan.pipeline_verdicts import explain_missing, judge_deletion, judge_progress, judge_start
from kappa_operator.plan.progress import build_progress_fields, say_progress
from kappa_operator.plan.restore import decide_restore
from kappa_operator.resources.pipeline import (
    build_config,
    build_driver,
    build_support,
    build_token,
    build_token_ref,
    name_driver,
)
from kappa_operator.resources.revision import build_driver_mounts, build_revision
from kappa_operator.resources.tuning import build_tuning, explain_tuning

SOON = 1.0
STARTING_POLL = 1.0
CATCHING_UP_POLL = 3.0
RUNNING_POLL = 10.0
BLOCKED_POLL = 15.0
STOP_MARGIN = 30.0
ASK_PATIENCE = 15.0


def decide_pipeline(observed: PipelineObserved, now: datetime) -> Plan:
    """Return the next step for the pipeline."""
    if observed.resource.metadata.deletion_timestamp is not None:
        return _delete(observed, now)
    if PIPELINE_FINALIZER not in observed.resource.metadata.finalizers:
        return Plan((AddFinalizer(PIPELINE_FINALIZER),), look_again=True)
    if observed.failures:
        return _report_failure(observed, now)
    plan = _remove_strays(observed, now) or _count_end(observed, now) or decide_restore(observed, now)
    if plan is not None:
        return plan
    revision = _want(observed)
    current = observed.current
    if current is not None and not current.finished:
        if _is_wanted(observed, revision):
            return _follow(observed, current, now)
        return _stop(observed, current, now)
    return _rest_or_start(observed, revision, now)


def _want(observed: PipelineObserved) -> Revision | None:
    """Return the revision that should run, or None where it cannot be built now."""
    if isinstance(observed.dependencies, Verdict):
        return None
    return build_revision(observed.resource, observed.dependencies, observed.images)


def _is_wanted(observed: PipelineObserved, revision: Revision | None) -> bool:
    """A running driver goes on while its surroundings are away; it stops for a new revision or when suspended."""
    current = observed.current
    if current is None or current.deleting or observed.resource.spec.suspend:
        return False
    return observed.status.stopping_since is None and (revision is None or revision.name == current.revision)


def _remove_strays(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Delete driver pods of other generations; nothing else happens until they are gone, or have at least ended."""
    known = observed.status.generation
    strays = [
        pod
        for pod in observed.pods
        if pod.generation > known or (pod.generation < known and not pod.finished)
    ]
    if not strays:
        return None
    actions = tuple(
        DeleteObject(pod.ref, pod.uid, f"generation {pod.generation} is not the current one")
        for pod in strays
        if not pod.deleting
    )
    names = ", ".join(pod.ref.name for pod in strays)
    verdict = working(
        PipelineState.PENDING,
        Reason.STOPPING_PREVIOUS,
        f"waiting for driver {names} to be gone; its node must confirm",
    )
    generation = max(known, *(pod.generation for pod in strays))
    status = say(observed, verdict, now, generation=generation)
    if generation > known:
        return Plan((RecordStatus(status.replace(driver=None, driver_uid=None)),), requeue_after=SOON)
    return Plan(actions, status, SOON)


def _count_end(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Record the end of the current driver, once: as a stop that was asked for, or as a failure with its reason."""
    status, current = observed.status, observed.current
    if status.driver is None:
        return None
    if current is None:
        return _count_loss(observed, now)
    if not current.finished:
        return _note_uid(observed, current, now)
    end = current.exit or DriverExit(
        reason=Reason.DRIVER_LOST, message=f"driver {status.driver} ended without a word"
    )
    return _record_end(observed, end, started=current.started, now=now)


def _count_loss(observed: PipelineObserved, now: datetime) -> Plan | None:
    """A driver that was seen and is gone was lost; one that never was seen has still to be made."""
    status = observed.status
    if status.driver_uid is None:
        return None
    message = f"driver pod {status.driver} is gone; it was deleted, or its node was lost"
    asked = status.stopping_since is not None
    end = DriverExit(reason=Reason.DRIVER_LOST, message=message, graceful=asked)
    return _record_end(observed, end, started=True, now=now)


def _note_uid(observed: PipelineObserved, current: DriverPod, now: datetime) -> Plan | None:
    if observed.status.driver_uid == current.uid:
        return None
    verdict = working(PipelineState.STARTING, Reason.DRIVER_STARTING, f"driver {current.ref.name} was made")
    return Plan((RecordStatus(say(observed, verdict, now, driver_uid=current.uid)),), look_again=True)


def _record_end(observed: PipelineObserved, end: DriverExit, *, started: bool, now: datetime) -> Plan:
    status = observed.status
    cleared: dict[str, Any] = {
        "driver": None,
        "driver_uid": None,
        "running_since": None,
        "stopping_since": None,
    }
    if end.graceful:
        verdict = working(PipelineState.PENDING, Reason.DRIVER_STOPPED, end.message)
        return Plan((RecordStatus(say(observed, verdict, now, **cleared)),), look_again=True)
    policy = observed.resource.spec.restart
    base = forgive(status.restarts, status.running_since, policy, now)
    restarts = count_failure(base, end, status.revision, started=started, policy=policy, now=now)
    verdict = (working if end.retryable else stalled)(PipelineState.FAILED, end.reason, end.message)
    return Plan((RecordStatus(say(observed, verdict, now, restarts=restarts, **cleared)),), look_again=True)


def _rest_or_start(observed: PipelineObserved, revision: Revision | None, now: datetime) -> Plan:
    """No driver is alive: stay at rest with the reason, or start one."""
    spec, restarts = observed.resource.spec, observed.status.restarts
    if spec.suspend:
        verdict = Verdict(
            PipelineState.SUSPENDED,
            Reason.SUSPENDED,
            "suspended at the end of a batch; set spec.suspend to false to go on",
            settled=True,
        )
        return Plan(_sweep(observed), say(observed, verdict, now, restarts=Restarts(total=restarts.total)))
    if isinstance(observed.dependencies, Verdict):
        verdict = explain_missing(observed.dependencies, restarts)
        return Plan((), say(observed, verdict, now), BLOCKED_POLL)
    if revision is None:
        raise AssertionError("dependencies are there, so the revision is")
    if restarts.hopeless_revision == revision.name:
        reason, message = (
            Reason.parse(restarts.last_reason or Reason.QUERY_FAILED),
            restarts.last_failure or "",
        )
        return Plan((), say(observed, stalled(PipelineState.FAILED, reason, message), now))
    wait = _wait_before_start(observed, revision, now)
    if wait > 0:
        reason = Reason.parse(restarts.last_reason or Reason.BACKING_OFF)
        message = f"{restarts.last_failure}; failure {restarts.crashes + restarts.scheduling} in a row, next start after back-off"
        return Plan((), say(observed, working(PipelineState.FAILED, reason, message), now), wait)
    return _start(observed, revision, now)


def _wait_before_start(observed: PipelineObserved, revision: Revision, now: datetime) -> float:
    """Return the seconds of back-off left. A new revision starts at once: it may be the cure."""
    restarts = observed.status.restarts
    if restarts.next_start is None or revision.name != observed.status.revision:
        return 0.0
    return (restarts.next_start - now).total_seconds()


def _sweep(observed: PipelineObserved) -> tuple[Action, ...]:
    """Delete the pods of drivers that have ended."""
    return tuple(
        DeleteObject(pod.ref, pod.uid, "it has ended")
        for pod in observed.pods
        if pod.finished and not pod.deleting
    )


def _start(observed: PipelineObserved, revision: Revision, now: datetime) -> Plan:
    """Record the generation, sweep, make what its driver needs, then the driver."""
    resource, status = observed.resource, observed.status
    if isinstance(observed.dependencies, Verdict):
        raise AssertionError("a revision was built, so the dependencies are there")
    resumed = status.driver is not None and status.revision == revision.name
    generation = status.generation if resumed else status.generation + 1
    mounts = build_driver_mounts(observed.dependencies, observed.resource.spec)
    name = name_driver(resource.metadata.name, generation)
    verdict = working(PipelineState.STARTING, Reason.DRIVER_STARTING, f"making driver {name}")
    tuning = build_tuning(resource.spec, status.shuffle_partitions)
    intent = say(
        observed, verdict, now,
        generation=generation, revision=revision.name, driver=name, driver_uid=None,
        running_since=None, stopping_since=None,
        shuffle_partitions=tuning.shuffle_partitions, tuning=explain_tuning(tuning, resource.spec),
        executors=resource.spec.resources.executors.count,
    )  # fmt: skip
    actions: tuple[Action, ...] = (
        *(() if resumed else (RecordStatus(intent),)),
        *_sweep(observed),
        *(ApplyObject(manifest) for manifest in build_support(resource)),
        CreateToken(build_token(resource)),
        CreateObject(build_config(resource, revision)),
        CreateObject(build_driver(resource, revision, mounts, generation, observed.images.pull_policy)),
    )
    return Plan(actions, None, SOON)


def _stop(observed: PipelineObserved, current: DriverPod, now: datetime) -> Plan:
    """Ask the driver to stop at a batch boundary; delete the pod if it never ran or does not obey in time."""
    status, spec = observed.status, observed.resource.spec
    since = status.stopping_since
    why = "suspending" if spec.suspend else "a new revision waits"
    verdict = working(
        PipelineState.PENDING, Reason.STOPPING_PREVIOUS, f"{why}: driver {current.ref.name} ends its batch"
    )
    if since is None:
        intent = say(observed, verdict, now, stopping_since=now.replace(microsecond=0))
        return Plan((RecordStatus(intent),), look_again=True)
    said = say(observed, verdict, now)
    if current.deleting:
        return Plan((), said, SOON)
    overdue = (now - since).total_seconds() > parse_duration(spec.stop_timeout) + STOP_MARGIN
    if overdue or current.unstarted or current.address is None:
        reason = "it did not stop in time" if overdue else "it never ran"
        return Plan((DeleteObject(current.ref, current.uid, reason),), said, SOON)
    if observed.progress is not None and observed.progress.state in (
        DriverState.STOPPING,
        DriverState.STOPPED,
    ):
        return Plan((), said, SOON)
    timeout = parse_duration(spec.stop_timeout)
    ask = StopDriver(current.ref, current.address, build_token_ref(observed.resource), timeout)
    return Plan((ask,), said, SOON)


def _follow(observed: PipelineObserved, current: DriverPod, now: datetime) -> Plan:
    """The right driver is alive: say how it is."""
    spec, progress = observed.resource.spec, observed.progress
    if progress is None or progress.generation != current.generation:
        return Plan((), say(observed, judge_start(current), now), STARTING_POLL)
    if progress.state is not DriverState.RUNNING:
        return Plan((), say(observed, judge_progress(progress, observed.shortage), now), STARTING_POLL)
    restarts = forgive(observed.status.restarts, progress.running_since, spec.restart, now)
    verdict = ready(PipelineState.RUNNING, Reason.RUNNING, say_progress(progress))
    if isinstance(observed.dependencies, Verdict):
        verdict = replace(verdict, message=f"{verdict.message}; but {observed.dependencies.message}")
    fields = build_progress_fields(progress)
    poll = CATCHING_UP_POLL if progress.lag else RUNNING_POLL
    return Plan((), say(observed, verdict, now, restarts=restarts, **fields), poll)


def _report_failure(observed: PipelineObserved, now: datetime) -> Plan:
    """An action did not work. A driver that could not be made counts as a failure to schedule."""
    failure = observed.failures[-1]
    message = f"{failure.error.message}"
    if isinstance(failure.action, CreateObject) and failure.action.manifest["kind"] == "Pod":
        end = DriverExit(reason=Reason.DRIVER_UNSCHEDULABLE, message=message)
        restarts = count_failure(
            observed.status.restarts, end, None, started=False, policy=observed.resource.spec.restart, now=now
        )
        verdict = working(PipelineState.FAILED, end.reason, message)
        return Plan((), say(observed, verdict, now, restarts=restarts), SOON)
    if isinstance(failure.action, StopDriver) and observed.current is not None:
        return _report_deaf(observed, observed.current, message, now)
    judge = working if failure.error.retryable else stalled
    return Plan(
        (), say(observed, judge(PipelineState.PENDING, failure.error.reason, message), now), BLOCKED_POLL
    )


def _report_deaf(observed: PipelineObserved, current: DriverPod, message: str, now: datetime) -> Plan:
    """A driver did not hear that it shall stop. One that is just ending does not either, so wait a little first."""
    verdict = working(PipelineState.PENDING, Reason.STOPPING_PREVIOUS, message)
    said = say(observed, verdict, now)
    since = observed.status.stopping_since or now
    if (now - since).total_seconds() < ASK_PATIENCE:
        return Plan((), said, SOON)
    return Plan(
        (DeleteObject(current.ref, current.uid, f"it cannot be asked to stop: {message}"),), said, SOON
    )


def _delete(observed: PipelineObserved, now: datetime) -> Plan:
    """Stop the drivers at a batch boundary, then let go. The checkpoint stays where it is."""
    alive = [pod for pod in observed.pods if not pod.finished]
    if PIPELINE_FINALIZER not in observed.resource.metadata.finalizers:
        return Plan()
    if not alive:
        return Plan((RemoveFinalizer(PIPELINE_FINALIZER),))
    if observed.failures:
        actions = tuple(
            DeleteObject(pod.ref, pod.uid, "the pipeline is deleted") for pod in alive if not pod.deleting
        )
        return Plan(actions, say(observed, judge_deletion(alive), now), SOON)
    plan = _stop(observed, alive[0], now)
    if plan.status is None:
        return plan
    return replace(plan, status=say(observed, judge_deletion(alive), now))
