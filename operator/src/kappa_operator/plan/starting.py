"""How a driver is started: its generation is recorded, then what it needs is made, then its pod."""

from datetime import datetime
from typing import Any

from kappa_crds.pipeline import PipelineState
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_crds.upgrade import AT_WORK, TAKEN_BACK, Handover, UpgradePhase, UpgradeStatus
from kappa_operator.actions import Action, ApplyObject, CreateObject, CreateToken, DeleteObject, RecordStatus
from kappa_operator.plan.model import Plan, Verdict, working
from kappa_operator.plan.pipeline_model import SOON, PipelineObserved, say
from kappa_operator.resources.pipeline import (
    build_config,
    build_driver,
    build_support,
    build_token,
    name_driver,
)
from kappa_operator.resources.revision import build_driver_mounts
from kappa_operator.resources.tuning import explain_tuning


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
    resumed = status.driver is not None and status.revision == revision.name
    generation = status.generation if resumed else next_generation(observed)
    name = name_driver(resource.metadata.name, generation)
    verdict = working(PipelineState.STARTING, Reason.DRIVER_STARTING, f"making driver {name}")
    intent = say(
        observed, verdict, now,
        generation=generation, driver=name, driver_uid=None, upgrade=_watch_start(observed, revision, generation, now),
        **describe_revision(observed, revision),
    )  # fmt: skip
    actions = (
        *(() if resumed else (RecordStatus(intent),)),
        *sweep(observed),
        *make_driver(observed, revision, generation, standby=False),
    )
    return Plan(actions, None, SOON)


def next_generation(observed: PipelineObserved) -> int:
    """Return a generation that no driver has, nor one that stands by or stood by."""
    change = observed.status.upgrade
    made = (pod.generation for pod in observed.pods)
    return max(observed.status.generation, change.generation if change else 0, *made, 0) + 1


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


def describe_revision(observed: PipelineObserved, revision: Revision) -> dict[str, Any]:
    """Return the fields of the status that follow from the revision of the current driver."""
    spec, tuning = revision.spec, revision.tuning
    return {
        "revision": revision.name,
        "running_checkpoint": observed.status.checkpoint,
        "running_since": None,
        "stopping_since": None,
        "shuffle_partitions": tuning.shuffle_partitions,
        "tuning": explain_tuning(tuning, spec),
        "executors": spec.resources.executors.count,
    }


def _watch_start(
    observed: PipelineObserved, revision: Revision, generation: int, now: datetime
) -> UpgradeStatus | None:
    """Return the change to watch: one that was rehearsed, or that begins now as no driver was there to rehearse it beside."""
    status, change = observed.status, observed.status.upgrade
    if status.revision in (None, revision.name) or (change is not None and _is_part_of(change, revision)):
        return begin_watch(change, revision, now)
    return UpgradeStatus(
        phase=UpgradePhase.WATCHING,
        revision=revision.name,
        previous=_find_good(observed),
        generation=generation,
        handover=Handover.COLD,
        message="not rehearsed, as no driver ran that it could stand by beside; it compares its plan with the state that it finds",
        since=now.replace(microsecond=0),
    )


def _is_part_of(change: UpgradeStatus, revision: Revision) -> bool:
    """Return whether a start of the revision is a step of the change: forward, or back."""
    if change.phase in TAKEN_BACK:
        return revision.name == change.previous
    return revision.name == change.revision and change.phase in AT_WORK


def _find_good(observed: PipelineObserved) -> str | None:
    """Return the revision to go back to: none where the last one has failed or had another checkpoint, as that would help nobody."""
    status, change, restarts = observed.status, observed.status.upgrade, observed.status.restarts
    if status.checkpoint != status.running_checkpoint:
        return None
    if change is not None and change.phase is UpgradePhase.ROLLING_BACK:
        return change.previous
    failed = restarts.hopeless_revision == status.revision or restarts.crashes + restarts.scheduling > 0
    return None if failed else status.revision


def begin_watch(change: UpgradeStatus | None, revision: Revision, now: datetime) -> UpgradeStatus | None:
    """Return the change, watched from now on where this is the driver that it was made for."""
    if change is None or change.phase not in AT_WORK or change.revision != revision.name:
        return change
    return change.replace(phase=UpgradePhase.WATCHING, since=now.replace(microsecond=0))
