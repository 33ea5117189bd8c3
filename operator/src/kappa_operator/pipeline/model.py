"""What is observed of a pipeline, and how a verdict on it becomes its status."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kappa_crds.guarantee import compute_guarantee
from kappa_crds.pipeline_status import AT_WORK, PipelineStatus, RunRole, drop_run
from kappa_crds.progress import Progress
from kappa_crds.revision import Revision
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.plan import Failure, Verdict, build_conditions
from kappa_operator.pipeline.driver import DriverPod
from kappa_operator.pipeline.objects import EXECUTOR_ROLE, PIPELINE_LABEL, PipelineResource
from kappa_operator.pipeline.progress_cache import Samples
from kappa_operator.pipeline.revision import Dependencies, Images
from kappa_operator.savepoint.objects import SavepointResource

SOON = 1.0
"""Seconds until the next look at what is about to change."""


@dataclass(frozen=True, slots=True)
class KeptRevision:
    """The ConfigMap of a revision."""

    ref: ObjectRef
    uid: str
    created: datetime


@dataclass(frozen=True, slots=True)
class PipelineObserved:
    """All that a decision about a pipeline needs.

    `dependencies` are what the spec refers to, or the verdict on what is missing. `pods` are all driver pods of the
    pipeline, read from the API server and not from a cache. `progress` is the current driver's own report, `samples` the last of those, `shortage`
    what keeps the executors that it waits for from starting. `standby` is the report of the driver that stands by, `previous` the
    revision to go back to where a change is watched, was refused or failed, and `savepoint` the one that is taken before it.
    `drivers` is the number of drivers that are polled. `has_turn` says whether a change may begin now. `revisions` are those that there are, looked at only while a change is watched.
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
    revisions: tuple[KeptRevision, ...] = ()
    has_turn: bool = True
    drivers: int = 1
    failures: tuple[Failure, ...] = ()

    @property
    def status(self) -> PipelineStatus:
        """Return the status as it was read."""
        return self.resource.status

    @property
    def current(self) -> DriverPod | None:
        """Return the pod of the current generation."""
        generation = self.status.active.generation
        return next((pod for pod in self.pods if pod.generation == generation), None)

    @property
    def standby_pod(self) -> DriverPod | None:
        """Return the pod of the standby run, until that run is the active one."""
        run = self.status.standby
        if run is None or run.generation <= self.status.active.generation:
            return None
        return next((pod for pod in self.pods if pod.generation == run.generation), None)


def say(observed: PipelineObserved, verdict: Verdict, now: datetime, **fields: Any) -> PipelineStatus:
    """Return the status with the verdict and the given fields. A standby run ends with the phases that need one."""
    resource = observed.resource
    generation = resource.metadata.generation
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
