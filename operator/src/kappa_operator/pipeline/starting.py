"""How a driver is started: its generation is recorded, then what it needs is made, then its pod."""

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
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_operator.engine.actions import (
    Action,
    ApplyObject,
    CreateObject,
    CreateToken,
    DeleteObject,
    RecordStatus,
)
from kappa_operator.engine.plan import Plan, Verdict, working
from kappa_operator.pipeline.driver import has_failed
from kappa_operator.pipeline.model import SOON, PipelineObserved, say
from kappa_operator.pipeline.objects import (
    build_config,
    build_driver,
    build_support,
    build_token,
    name_driver,
)
from kappa_operator.pipeline.revision import build_driver_mounts, read_checkpoint_number
from kappa_operator.pipeline.tuning import explain_tuning


def sweep(observed: PipelineObserved) -> tuple[Action, ...]:
    """Delete the pods of drivers that have ended."""
    return tuple(
        DeleteObject(pod.ref, pod.uid, "it has ended")
        for pod in observed.pods
        if pod.finished and not pod.deleting
    )


def start_driver(observed: PipelineObserved, revision: Revision, now: datetime) -> Plan:
    """Record the generation, sweep, make what its driver needs, then the driver."""
    resource, status = observed.resource, observed.status
    active = status.active
    resumed = active.driver is not None and active.revision == revision.name
    generation = active.generation if resumed else _choose_generation(observed)
    name = name_driver(resource.metadata.name, generation)
    verdict = working(PipelineState.STARTING, Reason.DRIVER_STARTING, f"making driver {name}")
    change = begin_watch(observed, revision, now)
    restarts = Restarts(total=status.restarts.total) if change != status.upgrade else status.restarts
    intent = say(
        observed, verdict, now,
        upgrade=change, restarts=restarts, **activate_run(observed, revision, generation, name, None),
    )  # fmt: skip
    actions = (
        *(() if resumed else (RecordStatus(intent),)),
        *sweep(observed),
        *make_driver(observed, revision, generation, standby=False),
    )
    return Plan(actions, None, SOON)


def _choose_generation(observed: PipelineObserved) -> int:
    """Return the generation of the standby run, where no driver was made with it; else a new one."""
    run, known = observed.status.standby, observed.status.active.generation
    made = max((pod.generation for pod in observed.pods), default=0)
    if run is None or run.driver_uid is not None:
        return next_generation(observed)
    return run.generation if run.generation > max(known, made) else next_generation(observed)


def next_generation(observed: PipelineObserved) -> int:
    """Return a generation that no driver has or had."""
    return max(observed.status.last_generation, *(pod.generation for pod in observed.pods), 0) + 1


def make_driver(
    observed: PipelineObserved, revision: Revision, generation: int, *, standby: bool
) -> tuple[Action, ...]:
    """Return what makes a driver, and what it needs, in order; making it twice makes one."""
    resource = observed.resource
    if isinstance(observed.dependencies, Verdict):
        raise AssertionError("a revision was built, so the dependencies are there")
    mounts = build_driver_mounts(observed.dependencies, revision.spec)
    policy = observed.images.pull_policy
    return (
        *(ApplyObject(manifest) for manifest in build_support(resource)),
        CreateToken(build_token(resource)),
        CreateObject(build_config(resource, revision)),
        CreateObject(build_driver(resource, revision, mounts, generation, policy, standby=standby)),
    )


def activate_run(
    observed: PipelineObserved, revision: Revision, generation: int, driver: str, uid: str | None
) -> dict[str, Any]:
    """Return the fields of the status where a revision becomes the active run."""
    spec, tuning, number = revision.spec, revision.tuning, read_checkpoint_number(revision)
    standby = observed.status.standby
    before = standby if standby is not None and standby.revision == revision.name else observed.status.active
    run = before.replace(
        role=RunRole.ACTIVE,
        generation=generation,
        revision=revision.name,
        content=revision.content,
        checkpoint=number,
        driver=driver,
        driver_uid=uid,
        running_since=None,
        stopping_since=None,
    )
    return {
        "runs": put_run(observed.status.runs, run),
        "checkpoint": number,
        "last_checkpoint": max(number, observed.status.last_checkpoint),
        "restoration": revision.restoration,
        "from_beginning": revision.from_beginning,
        "shuffle_partitions": tuning.shuffle_partitions,
        "tuning": explain_tuning(tuning, spec),
        "executors": spec.resources.executors.count,
    }


def begin_watch(observed: PipelineObserved, revision: Revision, now: datetime) -> UpgradeStatus | None:
    """Return the change, watched from now on where this is the driver that it was made for, or goes on after it was suspended."""
    change, restarts, since = observed.status.upgrade, observed.status.restarts, now.replace(microsecond=0)
    if change is None or change.revision != revision.name:
        return change
    if change.phase is UpgradePhase.WATCHING and not has_failed(restarts):
        return change.replace(since=since)
    if change.phase not in AT_WORK:
        return change
    lag = 0 if change.new_checkpoint is not None else observed.status.lag_records or 0
    return change.replace(phase=UpgradePhase.WATCHING, health=Health(lag=lag), since=since)
