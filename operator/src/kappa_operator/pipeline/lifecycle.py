"""One driver from its start to its end: each step is recorded before it is taken, and an end is counted once."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from kappa_crds.pipeline_status import (
    AT_WORK,
    Health,
    PipelineState,
    Restarts,
    RunRole,
    UpgradePhase,
    UpgradeStatus,
    put_run,
)
from kappa_crds.progress import DriverExit, DriverRole, DriverState
from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.replay import ReplayProfile
from kappa_crds.revision import Revision
from kappa_operator.certificates.issue import needs_renewal
from kappa_operator.engine.actions import (
    Action,
    ApplyObject,
    CreateObject,
    CreateToken,
    DeleteObject,
    RecordStatus,
    StopDriver,
)
from kappa_operator.engine.plan import Plan, Verdict, stalled, working
from kappa_operator.pipeline.backfill import build_backfill_profile, list_backfilled
from kappa_operator.pipeline.driver import DriverPod, count_failure, forgive, has_failed
from kappa_operator.pipeline.model import SOON, PipelineObserved, build_status, record, wait
from kappa_operator.pipeline.network import build_policies
from kappa_operator.pipeline.objects import (
    build_config,
    build_control_secret,
    build_driver,
    build_support,
    build_token_ref,
    build_tokens,
    name_driver,
)
from kappa_operator.pipeline.revision import build_driver_mounts, list_outputs, read_checkpoint_number
from kappa_operator.pipeline.tuning import explain_tuning

STOP_MARGIN = 30.0
"""Seconds that a driver may take to end beyond spec.stopTimeout."""
STOP_PATIENCE = 15.0
"""Seconds in which a driver that does not answer a stop request may be ending already."""


def remove_ended(observed: PipelineObserved) -> tuple[Action, ...]:
    """Delete the pods of drivers that have ended."""
    return tuple(
        DeleteObject(pod.ref, pod.uid, "it has ended")
        for pod in observed.pods
        if pod.finished and not pod.deleting
    )


def create_active(observed: PipelineObserved, revision: Revision, now: datetime) -> Plan:
    """Record the generation, remove ended drivers, create what the new driver needs, then the driver."""
    resource, status, active = observed.resource, observed.status, observed.status.active
    is_recorded = active.driver is not None and active.revision == revision.name
    generation = active.generation if is_recorded else _choose_generation(observed)
    name = name_driver(resource.metadata.name, generation)
    verdict = working(PipelineState.STARTING, Reason.DRIVER_STARTING, f"creating driver {name}")
    change = start_watch(observed, revision, now)
    restarts = Restarts(total=status.restarts.total) if change != status.upgrade else status.restarts
    intent = build_status(
        observed, verdict, now,
        upgrade=change, restarts=restarts, **activate_run(observed, revision, generation, name, None),
    )  # fmt: skip
    actions = (
        *(() if is_recorded else (RecordStatus(intent),)),
        *remove_ended(observed),
        *create_driver(observed, revision, generation, standby=False),
    )
    return Plan(actions, None, SOON)


def _choose_generation(observed: PipelineObserved) -> int:
    """Return the generation of the standby run, where no driver was created with it; else a new one."""
    run, known = observed.status.standby, observed.status.active.generation
    created = max((pod.generation for pod in observed.pods), default=0)
    if run is None or run.driver_uid is not None:
        return next_generation(observed)
    return run.generation if run.generation > max(known, created) else next_generation(observed)


def next_generation(observed: PipelineObserved) -> int:
    """Return a generation that no driver has or had."""
    return max(observed.status.last_generation, *(pod.generation for pod in observed.pods), 0) + 1


def create_driver(
    observed: PipelineObserved,
    revision: Revision,
    generation: int,
    *,
    standby: bool,
    role: DriverRole = DriverRole.ACTIVE,
    replay: ReplayProfile | None = None,
) -> tuple[Action, ...]:
    """Return what creates a driver, and what it needs, in order; doing so twice creates one.

    What drivers share admits those of all revisions that may run at the same time.
    """
    resource = observed.resource
    if isinstance(observed.dependencies, Verdict):
        raise AssertionError("a revision was built, so the dependencies were found")
    mounts = build_driver_mounts(observed.dependencies, revision.spec)
    policy, side = observed.images.pull_policy, observed.side
    others = (observed.previous, side.running, side.revision)
    revisions = (revision, *(each for each in others if each is not None))
    executors = tuple(each.executor_pod for each in revisions)
    network, advertised = observed.images.network, observed.dependencies.advertised
    images = observed.images
    if role is DriverRole.ACTIVE:
        replay = build_backfill_profile(observed.status, resource.spec, revision)
    driver = build_driver(
        resource, revision, mounts, generation, policy,
        standby=standby, role=role, replay=replay, allow_python=images.allow_python, options=images.pods,
    )  # fmt: skip
    return (
        *(ApplyObject(manifest) for manifest in build_support(resource, executors)),
        *(ApplyObject(each) for each in build_policies(resource, revisions, network, advertised)),
        build_control_secret(resource),
        *(CreateToken(manifest) for manifest in build_tokens(resource, revision)),
        CreateObject(build_config(resource, revision)),
        CreateObject(driver),
    )


def renew_certificate(observed: PipelineObserved, now: datetime) -> tuple[Action, ...]:
    """Renew the certificate of the control port when it is due; the driver serves the new one without a restart."""
    if observed.certificate is None or not needs_renewal(observed.certificate, now):
        return ()
    return (build_control_secret(observed.resource),)


def activate_run(
    observed: PipelineObserved, revision: Revision, generation: int, driver: str, uid: str | None
) -> dict[str, Any]:
    """Return the fields of the status where a revision becomes the active run."""
    tuning, number = revision.tuning, read_checkpoint_number(revision)
    standby = observed.status.standby
    is_standby = standby is not None and standby.revision == revision.name
    run = (standby if standby is not None and is_standby else observed.status.active).replace(
        role=RunRole.ACTIVE,
        generation=generation,
        revision=revision.name,
        content=revision.content,
        checkpoint=number,
        driver=driver,
        driver_uid=uid,
        running_since=None,
        stopping_since=None,
        outputs=revision.outputs,
        backfill=list_backfilled(observed.status, revision),
    )
    return {
        "runs": put_run(observed.status.runs, run),
        "checkpoint": number,
        "last_checkpoint": max(number, observed.status.last_checkpoint),
        "restoration": revision.restoration,
        "from_beginning": revision.from_beginning,
        "shuffle_partitions": tuning.shuffle_partitions,
        "outputs": list_outputs(revision),
        "tuning": explain_tuning(tuning, revision.spec),
        "executors": revision.spec.resources.executors.count,
    }


def start_watch(observed: PipelineObserved, revision: Revision, now: datetime) -> UpgradeStatus | None:
    """Return the change, watched from now on where this is its driver, or where the pipeline is resumed while it is watched."""
    change, restarts, since = observed.status.upgrade, observed.status.restarts, now.replace(microsecond=0)
    if change is None or change.revision != revision.name:
        return change
    if change.phase is UpgradePhase.WATCHING and not has_failed(restarts):
        return change.replace(since=since)
    if change.phase not in AT_WORK:
        return change
    lag = 0 if change.new_checkpoint is not None else observed.status.lag_records or 0
    return change.replace(phase=UpgradePhase.WATCHING, health=Health(lag=lag), since=since)


def request_stop(observed: PipelineObserved, current: DriverPod, now: datetime) -> Plan:
    """Request that the driver stop at a batch boundary; delete the pod if it never ran or does not stop in time."""
    status, spec = observed.status, observed.resource.spec
    since, timeout = status.active.stopping_since, parse_duration(spec.stop_timeout)
    why = "suspending" if spec.suspend else "a new revision waits"
    why = "Python is forbidden" if observed.is_forbidden else why
    message = f"{why}: driver {current.ref.name} ends its batch"
    verdict = working(PipelineState.PENDING, Reason.STOPPING_PREVIOUS, message)
    if since is None:
        runs = status.update_active(stopping_since=now.replace(microsecond=0))
        return record(observed, verdict, now, runs=runs)
    waiting = wait(observed, verdict, now)
    if current.deleting:
        return waiting
    overdue = (now - since).total_seconds() > timeout + STOP_MARGIN
    if overdue or current.unstarted or current.address is None:
        reason = "it did not stop in time" if overdue else "it never ran"
        return Plan((DeleteObject(current.ref, current.uid, reason),), waiting.status, SOON)
    state = None if observed.progress is None else observed.progress.state
    if state in (DriverState.STOPPING, DriverState.STOPPED):
        return waiting
    request = StopDriver(current.ref, current.address, build_token_ref(observed.resource), timeout)
    return Plan((request,), waiting.status, SOON)


def report_stop_unreachable(
    observed: PipelineObserved, current: DriverPod, message: str, now: datetime
) -> Plan:
    """Report that a stop request failed; after a while, as the driver may be ending already, delete its pod."""
    verdict = working(PipelineState.PENDING, Reason.STOPPING_PREVIOUS, message)
    status, since = build_status(observed, verdict, now), observed.status.active.stopping_since or now
    if (now - since).total_seconds() < STOP_PATIENCE:
        return Plan((), status, SOON)
    delete = DeleteObject(current.ref, current.uid, f"the stop request failed: {message}")
    return Plan((delete,), status, SOON)


def record_end(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Record the end of the active driver, once: as a stop that was requested, or as a failure with its reason."""
    run, current = observed.status.active, observed.current
    if run.driver is None:
        return None
    if current is None:
        return _record_loss(observed, now)
    if not current.finished:
        return _record_uid(observed, current, now)
    end = current.exit or DriverExit(
        reason=Reason.DRIVER_LOST, message=f"driver {run.driver} ended without a message"
    )
    return _record_exit(observed, end, started=current.started, now=now)


def _record_loss(observed: PipelineObserved, now: datetime) -> Plan | None:
    """A driver that was observed and is missing was lost; one that was never observed still has to be created."""
    run = observed.status.active
    if run.driver_uid is None:
        return None
    message = f"driver pod {run.driver} is gone; it was deleted, or its node was lost"
    end = DriverExit(reason=Reason.DRIVER_LOST, message=message, graceful=run.stopping_since is not None)
    return _record_exit(observed, end, started=True, now=now)


def _record_uid(observed: PipelineObserved, current: DriverPod, now: datetime) -> Plan | None:
    if observed.status.active.driver_uid == current.uid:
        return None
    message = f"driver {current.ref.name} was created"
    verdict = working(PipelineState.STARTING, Reason.DRIVER_STARTING, message)
    return record(observed, verdict, now, runs=observed.status.update_active(driver_uid=current.uid))


def _record_exit(observed: PipelineObserved, end: DriverExit, *, started: bool, now: datetime) -> Plan:
    status, policy = observed.status, observed.resource.spec.restart
    runs = status.update_active(driver=None, driver_uid=None, running_since=None, stopping_since=None)
    restarts = status.restarts
    if end.graceful:
        verdict = working(PipelineState.PENDING, Reason.DRIVER_STOPPED, end.message)
    else:
        base = forgive(restarts, status.active.running_since, policy, now)
        restarts = count_failure(base, end, status.active.revision, started=started, policy=policy, now=now)
        verdict = (working if end.retryable else stalled)(PipelineState.FAILED, end.reason, end.message)
    return record(observed, verdict, now, restarts=restarts, runs=runs)


def drop_history(observed: PipelineObserved, change: UpgradeStatus | None) -> tuple[DeleteObject, ...]:
    """Delete, where this change is done, revisions beyond spec.revisionHistoryLimit and all but the last ended driver.

    After a crash the change is still watched, so this is done again. A revision that is needed again is created with the same name.
    """
    if change is None or change.phase is not UpgradePhase.DONE:
        return ()
    return (*_drop_pods(observed), *_drop_revisions(observed))


def _drop_pods(observed: PipelineObserved) -> Iterator[DeleteObject]:
    ended = [pod for pod in observed.pods if pod.finished and pod is not observed.current]
    for pod in ended[:-1]:
        if not pod.deleting:
            yield DeleteObject(pod.ref, pod.uid, "it has ended, and so has a later one")


def _drop_revisions(observed: PipelineObserved) -> Iterator[DeleteObject]:
    used = {observed.status.active.revision, *(pod.revision for pod in observed.pods if not pod.finished)}
    others = [each for each in observed.revisions if each.ref.name not in used]
    others.sort(key=lambda each: (each.created, each.ref.name), reverse=True)
    limit = observed.resource.spec.revision_history_limit
    for each in others[limit:]:
        yield DeleteObject(each.ref, each.uid, f"spec.revisionHistoryLimit is {limit}")
