"""What is observed of a pipeline, which revision it should run, and how a verdict on it becomes its status."""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from kappa_crds.guarantee import compute_guarantee
from kappa_crds.inputs import InputTopic
from kappa_crds.pipeline_status import (
    AT_WORK,
    TAKEN_BACK,
    NewCheckpoint,
    PipelineStatus,
    Run,
    RunRole,
    UpgradePhase,
    UpgradeStatus,
    drop_run,
)
from kappa_crds.progress import Progress
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_crds.upgrade import UpgradeMode
from kappa_operator.engine.actions import ApplyObject, RecordStatus
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.plan import Failure, Plan, Verdict, build_conditions
from kappa_operator.pipeline.driver import DriverPod
from kappa_operator.pipeline.objects import EXECUTOR_ROLE, PIPELINE_LABEL, PipelineResource
from kappa_operator.pipeline.progress_cache import Samples
from kappa_operator.pipeline.revision import (
    BuiltRevision,
    Dependencies,
    Images,
    Place,
    build_revision,
    hash_declared,
    move_revision,
    read_place,
)
from kappa_operator.pipeline.shadow.model import NO_SIDE, SideObserved
from kappa_operator.pipeline.user import UnusedUser, UserObserved
from kappa_operator.savepoint.objects import SavepointResource

SOON = 1.0
"""Seconds until the next reconcile where something is about to change."""


@dataclass(frozen=True, slots=True)
class KeptRevision:
    """The ConfigMap of a revision."""

    ref: ObjectRef
    uid: str
    created: datetime


@dataclass(frozen=True)
class Inputs:
    """The versions of topics that a pipeline has to read.

    `awaited` is the Reprocessing whose cut is recorded and not made yet. `behind` names the topics it reads in a version that is not
    written any more, as it was not at the cut.
    """

    topics: tuple[InputTopic, ...] = ()
    awaited: str = ""
    behind: str = ""


NO_INPUTS = Inputs()


@dataclass(frozen=True)
class PipelineObserved:
    """All that a decision about a pipeline needs.

    `dependencies` are the resources that the spec names, or the verdict on what is missing. `pods` are all driver pods of the
    pipeline. `progress` is the report of the active driver, `samples` its last reports, `shortage` why the executors that it waits
    for do not start. `standby` is the report of the standby driver. `previous` is the revision that a rollback starts again, and
    `savepoint` the one that is taken before the change. `savepoints` are those of the pipeline where spec.savepoints is set, `restored`
    the names of those that a pipeline is or may be restored from. `revisions` are read only while a change is watched. `has_slot`:
    whether a change may start beside those of other pipelines. `refused`: a scheduled Savepoint could not be created or deleted.
    `drivers` is the number of drivers that are polled. `certificate` is that of the control port while a driver reports.
    `user` is that of the pipeline in Kafka, where it has one of its own, and `unused_users` are others that the status has.
    `refused_drop`: a permission or a user that is not needed could not be removed. `known` is the revision that was built last. `side` is
    what there is of a run beside the active one. `inputs` are the versions of topics that sources have to read. `holds` hold the retention of
    topics for sinks that were added, or give it back. `connected_since` is since when the operator is connected to Kafka, the time of the
    observation while it is not.
    """

    resource: PipelineResource
    dependencies: Dependencies | Verdict
    pods: tuple[DriverPod, ...]
    images: Images
    progress: Progress | None = None
    samples: Samples | None = None
    shortage: str | None = None
    standby: Progress | None = None
    previous: Revision | None = None
    savepoint: SavepointResource | None = None
    savepoints: tuple[SavepointResource, ...] = ()
    restored: frozenset[str] = frozenset()
    revisions: tuple[KeptRevision, ...] = ()
    has_slot: bool = True
    refused: bool = False
    drivers: int = 1
    certificate: str | None = None
    user: UserObserved | None = None
    unused_users: tuple[UnusedUser, ...] = ()
    refused_drop: bool = False
    failures: tuple[Failure, ...] = ()
    known: BuiltRevision | None = None
    side: SideObserved = NO_SIDE
    inputs: Inputs = NO_INPUTS
    holds: tuple[ApplyObject, ...] = ()
    connected_since: datetime | None = None

    @property
    def status(self) -> PipelineStatus:
        """Return the status as it was read."""
        return self.resource.status

    @property
    def current(self) -> DriverPod | None:
        """Return the pod of the active run."""
        generation = self.status.active.generation
        return next((pod for pod in self.pods if pod.generation == generation), None)

    @property
    def alive(self) -> DriverPod | None:
        """Return the pod of the active run while its driver has not ended."""
        return None if self.current is None or self.current.finished else self.current

    @property
    def standby_pod(self) -> DriverPod | None:
        """Return the pod of the standby run, until that run is the active one."""
        run = self.status.standby
        if run is None or run.generation <= self.status.active.generation:
            return None
        return next((pod for pod in self.pods if pod.generation == run.generation), None)

    @property
    def side_run(self) -> Run | None:
        """Return the run beside the active one that has a checkpoint of its own."""
        return next(iter(self.status.sides), None)

    @property
    def side_pod(self) -> DriverPod | None:
        """Return the pod of the side run."""
        run = self.side_run
        return (
            None
            if run is None
            else next((pod for pod in self.pods if pod.generation == run.generation), None)
        )

    @property
    def is_forbidden(self) -> bool:
        """Return whether the installation does not allow what the spec declares."""
        return isinstance(self.dependencies, Verdict) and self.dependencies.reason is Reason.PYTHON_FORBIDDEN

    @cached_property
    def built(self) -> BuiltRevision | None:
        """Return the revision of the spec in the present checkpoint with its inputs; None where a dependency is missing."""
        if isinstance(self.dependencies, Verdict):
            return None
        inputs = self.resource, self.dependencies, self.images
        if self.known is not None and self.known.inputs == inputs:
            return self.known
        return BuiltRevision(inputs, build_revision(*inputs))

    @property
    def requested(self) -> Revision | None:
        """Return the revision of the spec in the present checkpoint; None where a dependency is missing."""
        return None if self.built is None else self.built.revision

    @cached_property
    def declared(self) -> str | None:
        """Return a hash of what the spec declares; None where a dependency is missing."""
        if isinstance(self.dependencies, Verdict):
            return None
        return hash_declared(self.resource.spec, self.dependencies.modules)

    @property
    def is_given_up(self) -> bool:
        """Return whether a Reprocessing of this spec was rolled back or aborted, or has failed."""
        change = self.status.upgrade
        return change is not None and change.given_up is not None and change.given_up == self.declared

    @cached_property
    def wanted(self) -> Revision | None:
        """Return the revision that should run: the previous one where that of the spec was refused or failed; None without one."""
        requested, change = self.requested, self.status.upgrade
        if requested is None:
            return None
        if is_taken_back(self, requested):
            if self.previous is None:
                return None
            return move_revision(self.previous, self.resource.metadata, read_place(self.status))
        if (
            change is not None
            and change.intent != requested.intent
            and self.side.running
            and is_soaking(self)
        ):
            return move_revision(self.side.running, self.resource.metadata, read_place(self.status))
        if change is not None and change.backfill and is_at_work(change, requested):
            return build_backfill(self)
        new = change.new_checkpoint if change is not None and is_at_work(change, requested) else None
        if new is None or new.checkpoint == self.status.checkpoint:
            return requested
        return build_from_empty(self, new)

    @cached_property
    def wanted_name(self) -> str | None:
        """Return the name of the revision that should run, which is a hash; None without one."""
        if self.built is not None and self.wanted is self.built.revision:
            return self.built.name
        return None if self.wanted is None else self.wanted.name


def build_from_empty(observed: PipelineObserved, new: NewCheckpoint) -> Revision:
    """Return the revision of the spec that starts from empty state in a new checkpoint."""
    if isinstance(observed.dependencies, Verdict):
        raise AssertionError("a change starts only when its dependencies were found")
    status = observed.status
    place = Place(
        new.checkpoint,
        from_beginning=new.from_beginning,
        outputs=status.active.outputs,
        inputs=status.inputs,
    )
    return build_revision(observed.resource, observed.dependencies, observed.images, place)


def build_backfill(observed: PipelineObserved) -> Revision:
    """Return the revision of the spec in the present checkpoint, where queries without a batch read all sources from the start."""
    if isinstance(observed.dependencies, Verdict):
        raise AssertionError("a change starts only when its dependencies were found")
    names = tuple(source.name for source in observed.resource.spec.sources)
    place = replace(read_place(observed.status), from_beginning=names)
    return build_revision(observed.resource, observed.dependencies, observed.images, place)


def is_taken_back(observed: PipelineObserved, revision: Revision) -> bool:
    """Return whether the change to this revision was refused or failed, so that the previous one has to run.

    Two revisions with one intent are the same change, wherever their checkpoint is. Another spec, restartNonce or mode is another change.
    One that was given up stays so with other defaults of the operator, too.
    """
    if observed.is_given_up:
        return True
    change = observed.status.upgrade
    if change is None or change.intent != revision.intent or change.phase not in TAKEN_BACK:
        return False
    return change.phase is UpgradePhase.ROLLING_BACK or change.mode is choose_mode(observed, revision)


def is_soaking(observed: PipelineObserved) -> bool:
    """Return whether a previous version soaks, and the spec is as it was at the cutover: other defaults of the operator wait until its end."""
    change, requested, running = observed.status.upgrade, observed.requested, observed.side.running
    if change is None or change.phase is not UpgradePhase.SOAKING or requested is None:
        return False
    if change.intent == requested.intent:
        return True
    is_same = change.declared is not None and change.declared == observed.declared
    return is_same and running is not None and running.spec.resources == requested.spec.resources


def is_at_work(change: UpgradeStatus | None, revision: Revision) -> bool:
    """Return whether the change to this revision is in progress, and the revision does not run yet."""
    return change is not None and change.intent == revision.intent and change.phase in AT_WORK


def choose_mode(observed: PipelineObserved, revision: Revision) -> UpgradeMode:
    """Return the mode of a change. A mere restart keeps the state, and needs no savepoint."""
    is_restart = observed.status.active.content == revision.content
    return UpgradeMode.LAST_STATE if is_restart else observed.resource.spec.upgrade.mode


def record(observed: PipelineObserved, verdict: Verdict, now: datetime, **fields: Any) -> Plan:
    """Return the plan that records a step in the status, and continues with the next one."""
    return Plan((RecordStatus(build_status(observed, verdict, now, **fields)),), requeue=True)


def wait(
    observed: PipelineObserved, verdict: Verdict, now: datetime, after: float | None = SOON, **fields: Any
) -> Plan:
    """Return the plan that reports the verdict, and reconciles again after so many seconds."""
    return Plan((), build_status(observed, verdict, now, **fields), after)


def build_status(
    observed: PipelineObserved, verdict: Verdict, now: datetime, **fields: Any
) -> PipelineStatus:
    """Return the status with the verdict and the given fields. A standby run ends with the phases that need one."""
    resource, generation = observed.resource, observed.resource.metadata.generation
    labels = {PIPELINE_LABEL: resource.metadata.name, **EXECUTOR_ROLE}
    status = resource.status.replace(
        observed_generation=generation,
        state=verdict.state,
        conditions=build_conditions(verdict, resource.status.conditions, generation, now),
        guarantee=compute_guarantee(resource.spec.sources, resource.spec.sinks),
        selector=",".join(f"{key}={value}" for key, value in labels.items()),
        **fields,
    )
    change, runs = status.upgrade, status.runs
    if change is None or change.phase not in AT_WORK:
        runs = drop_run(runs, RunRole.STANDBY)
    highest = max((run.generation for run in status.runs), default=0)
    return status.replace(runs=runs, last_generation=max(status.last_generation, highest))
