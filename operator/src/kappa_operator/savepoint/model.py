"""What decisions about a savepoint share: the observation, and how the status is built."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kappa_crds.conditions import (
    EXPORTED,
    VERIFIED,
    Condition,
    ConditionStatus,
    find_condition,
    merge_conditions,
)
from kappa_crds.progress import Progress, SavepointProgress
from kappa_crds.reasons import Reason
from kappa_crds.resource import ResourceStatus
from kappa_crds.savepoint import SavepointState, SavepointStatus
from kappa_crds.savepoint_work import Work, WorkResult, WorkState
from kappa_operator import backoff, intervals
from kappa_operator.engine import plan
from kappa_operator.engine.actions import RecordStatus
from kappa_operator.engine.network import Network
from kappa_operator.engine.plan import Failure, Plan, Verdict, update_status
from kappa_operator.engine.restricted import DEFAULT_PODS, PodOptions
from kappa_operator.engine.work_pods import WorkPod
from kappa_operator.errors import KappaError
from kappa_operator.pipeline.driver import DriverPod
from kappa_operator.pipeline.objects import PipelineResource
from kappa_operator.savepoint.objects import SavepointResource, name_savepoint
from kappa_operator.statestore.storage import Storage

MOST_ATTEMPTS = 5
_NOWHERE = Storage("")


WorkerPod = WorkPod[WorkResult]
"""The pod of work on savepoints and stores."""


@dataclass(frozen=True, slots=True)
class SavepointObserved:
    """All that a decision about a savepoint needs.

    `driver` is there while the pipeline runs, `drivers` are all of its pods, and `progress` is what the current one reports. `storage` is
    where the savepoints are, or the error why that is unknown; it is `lost` where that is gone. `source` is where it is imported from, if
    anywhere, and `copies` are where copies are wanted, by StateStore. `nodes` are those where the claims that the next pod needs are mounted. `awaited_by` are pipelines that still have to restore from the
    savepoint, `needed_by` the checkpoints that are, or will be, made of it, and `unreadable` pipelines that may be either. `pipeline_problem` is why
    there is no pipeline.
    """

    resource: SavepointResource
    pipeline: PipelineResource | None = None
    driver: DriverPod | None = None
    progress: Progress | None = None
    failures: tuple[Failure, ...] = ()
    drivers: tuple[DriverPod, ...] = ()
    storage: Storage | KappaError = _NOWHERE
    source: Storage | KappaError | None = None
    copies: Mapping[str, Storage | KappaError] = field(default_factory=dict)
    lost: bool = False
    worker: WorkerPod | None = None
    nodes: tuple[str, ...] = ()
    image: str = ""
    pull_policy: str = "IfNotPresent"
    network: Network | None = None
    pods: PodOptions = DEFAULT_PODS
    awaited_by: tuple[str, ...] = ()
    needed_by: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    pipeline_problem: str = ""

    @property
    def status(self) -> SavepointStatus:
        """Return the status as it was read."""
        return self.resource.status

    @property
    def work(self) -> Work | None:
        """Return the piece of work that is under way."""
        work = self.status.work
        return work if work is not None and work.state is WorkState.RUNNING else None

    @property
    def place(self) -> dict[str, Any]:
        """Return the fields of the status with the place of the savepoint."""
        known = self.storage if isinstance(self.storage, Storage) else _NOWHERE
        return {"claim_name": known.claim, "store_name": known.store}

    @property
    def reported(self) -> SavepointProgress | None:
        """Return what the driver reports about this savepoint, if it has a request for it."""
        name = name_savepoint(self.resource.metadata)
        known = self.progress.savepoints if self.progress else ()
        return next((each for each in known if each.name == name), None)


def find_next_attempt(observed: SavepointObserved, attempts: int, now: datetime) -> datetime:
    """Return when the next attempt is due after so many have failed."""
    pause = backoff.SAVEPOINT.pause(attempts, observed.resource.metadata.uid)
    return now.replace(microsecond=0) + timedelta(seconds=round(pause))


def judge_attempt(
    observed: SavepointObserved, attempts: int, problem: str, remedy: str, now: datetime
) -> tuple[datetime | None, str]:
    """Return when to try again after an attempt that failed, None where that was the last one, and what to report."""
    if attempts >= MOST_ATTEMPTS:
        return None, f"given up after {attempts} attempts: {problem}; fix that, and {remedy}"
    return find_next_attempt(observed, attempts, now), f"attempt {attempts} failed: {problem}"


def say(
    observed: SavepointObserved, verdict: Verdict, now: datetime, requeue: float | None, **fields: Any
) -> Plan:
    """Return the plan that only reports the state of the savepoint."""
    return Plan(status=build_status(observed, verdict, now, **fields), requeue_after=requeue)


def record(
    observed: SavepointObserved,
    verdict: Verdict,
    now: datetime,
    requeue_after: float | None = intervals.WORKING,
    *,
    requeue: bool = False,
    **fields: Any,
) -> Plan:
    """Return the plan that records what is done next, or how it ended, before anything that follows from it."""
    written = RecordStatus(build_status(observed, verdict, now, **fields))
    return Plan((written,), requeue_after=requeue_after, requeue=requeue)


def build_status(
    observed: SavepointObserved,
    verdict: Verdict,
    now: datetime,
    *,
    more: Condition | None = None,
    **fields: Any,
) -> ResourceStatus:
    """Return the status for a verdict; what `fields` leaves out stays as it was.

    So do the conditions Verified and Exported, unless `more` is one of them.
    """
    before = observed.status.conditions
    known = (
        more if more is not None and more.type == kind else find_condition(before, kind)
        for kind in (VERIFIED, EXPORTED)
    )  # fmt: skip
    kept = merge_conditions(before, [condition for condition in known if condition is not None])
    updated = update_status(observed.resource, verdict, now, **fields)
    return updated.replace(conditions=(*updated.conditions, *kept))


def build_condition(
    observed: SavepointObserved,
    kind: str,
    status: ConditionStatus,
    explained: tuple[Reason, str],
    now: datetime,
) -> Condition:
    """Return a condition that a savepoint has besides those of every kind."""
    generation = observed.resource.metadata.generation
    return plan.build_condition(kind, status, *explained, generation=generation, now=now)


def stay(observed: SavepointObserved) -> Verdict:
    """Return the verdict as it is: whether a savepoint is Ready does not depend on what else is done with it now."""
    conditions = {each.type: each for each in observed.status.conditions}
    found, is_stalled = conditions["Ready"], conditions["Stalled"].status == "True"
    state = observed.status.state or SavepointState.READY
    return Verdict(state, found.reason, found.message, found.status, stalled=is_stalled)
