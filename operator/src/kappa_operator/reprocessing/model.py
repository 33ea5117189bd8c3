"""What is observed of a reprocessing, and how a verdict on it becomes its status."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kappa_crds.reprocessing import ReprocessingPhase, ReprocessingStatus
from kappa_crds.resource import ResourceStatus
from kappa_operator.engine.actions import EmitEvent, RecordStatus
from kappa_operator.engine.plan import Failure, Plan, Verdict, update_status
from kappa_operator.pipeline.objects import PipelineResource
from kappa_operator.reprocessing.objects import ReprocessingResource, is_controlled_by


@dataclass(frozen=True)
class ReprocessingObserved:
    """All that a decision about a reprocessing needs. `pipeline` is None where it is gone or cannot be read."""

    resource: ReprocessingResource
    pipeline: PipelineResource | None = None
    failures: tuple[Failure, ...] = ()

    @property
    def status(self) -> ReprocessingStatus:
        """Return the status as it was read."""
        return self.resource.status

    @property
    def is_controlled(self) -> bool:
        """Return whether the Pipeline that it names created it."""
        return self.pipeline is not None and is_controlled_by(self.resource, self.pipeline)


def report(
    observed: ReprocessingObserved, verdict: Verdict, now: datetime, after: float | None = None, **fields: Any
) -> Plan:
    """Return the plan that reports a verdict, and reconciles again after so many seconds."""
    return Plan((), _build(observed, verdict, now, **fields), after)


def enter(
    observed: ReprocessingObserved, phase: ReprocessingPhase, verdict: Verdict, now: datetime, **fields: Any
) -> Plan:
    """Return the plan that records a phase, which starts now, with an Event, and continues with the next step."""
    since = now.replace(microsecond=0)
    started = observed.status.started or since
    status = _build(observed, verdict, now, phase=phase, since=since, started=started, **fields)
    event = EmitEvent(verdict.reason, f"{phase}: {verdict.message}", warning=verdict.stalled)
    return Plan((RecordStatus(status), event), requeue=True)


def _build(observed: ReprocessingObserved, verdict: Verdict, now: datetime, **fields: Any) -> ResourceStatus:
    return update_status(observed.resource, verdict, now, **fields)
