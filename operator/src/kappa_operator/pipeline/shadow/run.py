"""The life of the side run: recorded, its topics created, its driver started and restarted with a back-off of its own, stopped, removed.

Each step records first and acts then, as for the active run, and returns None where there is nothing to do: the steps of the active run
follow in the same reconcile. Something that fails is reported, and tried again with the next reconcile.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from kappa_crds.pipeline_status import (
    PipelineState,
    Restarts,
    Run,
    RunPlace,
    RunRole,
    UpgradePhase,
    drop_run,
    put_run,
)
from kappa_crds.progress import DriverExit, DriverRole, DriverState
from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.reprocessing import WANTS_SHADOW, WANTS_SOAKING, ReprocessingPhase
from kappa_crds.revision import Revision
from kappa_operator.engine.actions import DeleteObject, RecordStatus, SetDriverRole, StopDriver
from kappa_operator.engine.plan import Plan, Verdict, working
from kappa_operator.pipeline.backfill import list_added_topics
from kappa_operator.pipeline.driver import DriverPod, count_failure, forgive
from kappa_operator.pipeline.lifecycle import STOP_MARGIN, create_driver, next_generation
from kappa_operator.pipeline.model import PipelineObserved, wait
from kappa_operator.pipeline.objects import build_token_ref, name_driver
from kappa_operator.pipeline.revision import list_outputs
from kappa_operator.pipeline.shadow.change import build_shadow_revision, drops_outputs
from kappa_operator.pipeline.shadow.topics import create_topics, delete_topics, name_topic_resource
from kappa_operator.reprocessing.objects import build_profile

_ROLES = {RunRole.SHADOW: DriverRole.SHADOW, RunRole.SOAKING: DriverRole.SOAKING}


def keep_side_run(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Bring the side run one step further."""
    run, wanted = observed.side_run, find_wanted_role(observed)
    if run is None:
        return _begin(observed, now) if wanted is RunRole.SHADOW else None
    ended = _record_end(observed, run, now)
    if ended is not None:
        return ended
    if wanted is not run.role or run.stopping_since is not None or not _may_run(observed):
        return _stop(observed, run, now) or _remove(observed, run, wanted)
    pod = observed.side_pod
    if pod is None or run.driver is None:
        return _start(observed, run, now)
    return _follow(observed, run, pod, now)


def create_added_topics(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Create the topics that a change adds to a version of the outputs, before a driver with the change is started."""
    status, side, revision = observed.status, observed.side, observed.wanted
    added = list_added_topics(status, observed.resource.spec)
    if not added or revision is None:
        return None
    version = status.active.outputs
    outputs = {name: revision.topics[name] for name in added if name in revision.topics}
    created = create_topics(observed.resource, outputs, version, dict(side.templates), side.topics)
    if created and side.failure is None:
        return Plan(created, requeue_after=1.0)
    there = {each.ref.name for each in side.topics if each.is_there}
    missing = [topic for name, topic in outputs.items() if name_topic_resource(name, version) not in there]
    if not missing:
        return None
    state = PipelineState.PENDING if observed.alive is None else PipelineState.RUNNING
    message = f"the change waits for topic {', '.join(missing)}{f': {side.failure}' if side.failure else ''}"
    return wait(observed, working(state, Reason.UPGRADE_WAITING, message), now)


def find_wanted_role(observed: PipelineObserved) -> RunRole | None:
    """Return the role of the side run that the change and its Reprocessing need now; None where none is needed."""
    change, phase = observed.status.upgrade, observed.side.phase
    run, reprocessing = observed.side_run, observed.side.reprocessing
    if change is None or phase is None or reprocessing is None:
        return None
    if run is not None and run.reprocessing != reprocessing.metadata.name:
        return None
    if change.phase is UpgradePhase.REPROCESSING and phase in WANTS_SHADOW:
        return RunRole.SHADOW
    if change.phase is UpgradePhase.SOAKING and phase in (*WANTS_SOAKING, ReprocessingPhase.CUTTING_OVER):
        return RunRole.SOAKING
    return None


def _may_run(observed: PipelineObserved) -> bool:
    return not observed.resource.spec.suspend and not observed.is_forbidden


def _begin(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Record a new run: its checkpoint is empty, its outputs have the number of the checkpoint, and it reads all sources from the start."""
    status, side = observed.status, observed.side
    if side.number is None or side.reprocessing is None or side.failure is not None or not _may_run(observed):
        return None
    change = status.upgrade
    if change is not None and change.reprocessing is not None and side.inputs is None:
        return None  # what it reads has not caught up yet
    run = Run(
        role=RunRole.SHADOW,
        checkpoint=side.number,
        outputs=side.number,
        reprocessing=side.reprocessing.metadata.name,
        place=RunPlace(
            from_beginning=tuple(each.name for each in observed.resource.spec.sources), inputs=side.inputs
        ),
        restarts=Restarts(),
        drops_outputs=drops_outputs(observed),
    )
    return _put(observed, run, last_checkpoint=max(status.last_checkpoint, side.number))


def _start(observed: PipelineObserved, run: Run, now: datetime) -> Plan | None:
    """Create the topics of the version, record the generation, then create the driver."""
    revision, restarts, side = _find_revision(observed, run), run.restarts or Restarts(), observed.side
    if revision is None or side.failure is not None or isinstance(observed.dependencies, Verdict):
        return None
    if restarts.next_start is not None and restarts.next_start > now:
        return None
    if restarts.non_retryable_revision == revision.name:
        return None
    if run.role is RunRole.SHADOW:
        outputs = {each.name: each.topic for each in list_outputs(revision)}
        created = create_topics(observed.resource, outputs, run.outputs, dict(side.templates), side.topics)
        if created:
            return Plan(created, requeue_after=1.0)
        if len(side.topics) < len(outputs) or not all(each.is_there for each in side.topics):
            return None
    if run.driver is not None and run.revision == revision.name:
        is_new = run.role is RunRole.SHADOW
        replay = build_profile(side.reprocessing, observed.resource.spec, side.archives) if is_new else None
        create = create_driver(
            observed, revision, run.generation, standby=False, role=_ROLES[run.role], replay=replay
        )
        return Plan((*_remove_ended(observed), *create), requeue_after=1.0)
    generation = next_generation(observed)
    recorded = run.replace(
        generation=generation,
        driver=name_driver(observed.resource.metadata.name, generation),
        driver_uid=None,
        revision=revision.name,
        content=revision.content,
        running_since=None,
    )
    return _put(observed, recorded)


def _remove_ended(observed: PipelineObserved) -> Iterator[DeleteObject]:
    """Delete the pods of former drivers of side runs."""
    for pod in observed.pods:
        if (
            pod.side
            and pod.finished
            and not pod.deleting
            and pod.generation != observed.status.active.generation
        ):
            yield DeleteObject(pod.ref, pod.uid, "it has ended")


def _find_revision(observed: PipelineObserved, run: Run) -> Revision | None:
    """Return the revision to run: that of the spec for the shadow, the stored one for the version that soaks."""
    if run.role is RunRole.SHADOW:
        return build_shadow_revision(observed, run)
    stored = observed.side.revision
    return stored if stored is not None and stored.name == run.revision else None


def _follow(observed: PipelineObserved, run: Run, pod: DriverPod, now: datetime) -> Plan | None:
    """Record when its queries started and that failures are forgiven, and align the roles of both drivers with the status."""
    progress, policy = observed.side.progress, observed.resource.spec.restart
    if progress is None or progress.generation != run.generation:
        return None
    kept = run.replace(
        running_since=progress.running_since or run.running_since,
        drops_outputs=drops_outputs(observed),
        restarts=forgive(run.restarts or Restarts(), progress.running_since, policy, now),
    )
    if kept != run:
        return _put(observed, kept)
    actions = []
    if progress.role is not _ROLES[run.role] and progress.state is DriverState.RUNNING:
        actions.append(_set_role(observed, pod, _ROLES[run.role]))
    active, report = observed.alive, observed.progress
    if active is not None and report is not None and report.role is not DriverRole.ACTIVE:
        actions.append(_set_role(observed, active, DriverRole.ACTIVE))
    found = tuple(each for each in actions if each is not None)
    return Plan(found, requeue_after=1.0) if found and observed.side.failure is None else None


def _set_role(observed: PipelineObserved, pod: DriverPod, role: DriverRole) -> SetDriverRole | None:
    if pod.address is None:
        return None
    return SetDriverRole(pod.ref, pod.address, build_token_ref(observed.resource), role)


def _record_end(observed: PipelineObserved, run: Run, now: datetime) -> Plan | None:
    """Record the UID of its driver, or once how that ended."""
    pod = observed.side_pod
    if run.driver is None:
        return None
    if pod is None:
        if run.driver_uid is None:
            return None  # it still has to be created
        message = f"driver pod {run.driver} is gone; it was deleted, or its node was lost"
        end = DriverExit(reason=Reason.DRIVER_LOST, message=message, graceful=run.stopping_since is not None)
        return _count(observed, run, end, started=True, now=now)
    if pod.finished:
        lost = DriverExit(reason=Reason.DRIVER_LOST, message=f"driver {run.driver} ended without a message")
        return _count(observed, run, pod.exit or lost, started=pod.started, now=now)
    return None if run.driver_uid == pod.uid else _put(observed, run.replace(driver_uid=pod.uid))


def _count(observed: PipelineObserved, run: Run, end: DriverExit, *, started: bool, now: datetime) -> Plan:
    restarts, policy = run.restarts or Restarts(), observed.resource.spec.restart
    if not end.graceful:
        base = forgive(restarts, run.running_since, policy, now)
        restarts = count_failure(base, end, run.revision, started=started, policy=policy, now=now)
    return _put(observed, run.replace(driver=None, driver_uid=None, running_since=None, restarts=restarts))


def _stop(observed: PipelineObserved, run: Run, now: datetime) -> Plan | None:
    """Have a driver that is not wanted end its batch; delete its pod where it does not in time. None without a driver."""
    pod = observed.side_pod
    if pod is None or pod.finished:
        return None
    if run.stopping_since is None:
        return _put(observed, run.replace(stopping_since=now.replace(microsecond=0)))
    waited = (now - run.stopping_since).total_seconds()
    timeout = parse_duration(observed.resource.spec.stop_timeout)
    if pod.deleting:
        return None
    if waited > timeout + STOP_MARGIN or pod.unstarted or pod.address is None or observed.side.failure:
        return Plan((DeleteObject(pod.ref, pod.uid, "the side run is not needed"),), requeue_after=1.0)
    state = None if observed.side.progress is None else observed.side.progress.state
    if state in (DriverState.STOPPING, DriverState.STOPPED):
        return None
    request = StopDriver(pod.ref, pod.address, build_token_ref(observed.resource), timeout)
    return Plan((request,), requeue_after=1.0)


def _remove(observed: PipelineObserved, run: Run, wanted: RunRole | None) -> Plan | None:
    """Remove a run whose driver has ended, after the topics that go with it; one that is only suspended stays."""
    pod = observed.side_pod
    if pod is not None and not pod.finished:
        return None
    if wanted is run.role:
        return None if run.stopping_since is None else _put(observed, run.replace(stopping_since=None))
    if run.drops_outputs and observed.side.topics:
        if observed.side.readers:
            return None  # their drivers read the topics until they stop
        actions = delete_topics(observed.side.topics)
        return Plan(actions, requeue_after=1.0) if actions and observed.side.failure is None else None
    return _drop(observed, run)


def _put(observed: PipelineObserved, run: Run, **fields: Any) -> Plan:
    """Return the plan that records the side run."""
    status = observed.status
    generation = max(status.last_generation, run.generation)
    recorded = status.replace(runs=put_run(status.runs, run), last_generation=generation, **fields)
    return Plan((RecordStatus(recorded),), requeue=True)


def _drop(observed: PipelineObserved, run: Run) -> Plan:
    """Return the plan that records that there is no side run any more."""
    status = observed.status
    return Plan((RecordStatus(status.replace(runs=drop_run(status.runs, run.role))),), requeue=True)
