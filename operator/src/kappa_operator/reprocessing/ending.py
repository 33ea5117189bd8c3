"""How a reprocessing ends before its cutover, and what follows a deletion. The Pipeline stops and removes the run of the new version."""

from datetime import datetime, timedelta
from typing import Any

from kappa_crds.pipeline_status import UpgradePhase
from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.reprocessing import (
    ENDS,
    REPROCESSING_FINALIZER,
    WANTS_SOAKING,
    ReprocessingPhase,
    RequestAction,
)
from kappa_operator import intervals
from kappa_operator.engine.actions import AdvanceDriver, HoldDriver
from kappa_operator.engine.plan import Plan, hold_deletion, stalled, working
from kappa_operator.errors import DriverRefused
from kappa_operator.reprocessing.cut import release_drivers
from kappa_operator.reprocessing.model import ReprocessingObserved, enter, report
from kappa_operator.reprocessing.phases import finish
from kappa_operator.reprocessing.requests import carry_out

Phase = ReprocessingPhase


def hold_reprocessing(observed: ReprocessingObserved, _now: datetime) -> Plan | None:
    """Hold deletion of one that has an effect."""
    if observed.resource.metadata.deletion_timestamp is not None:
        return None
    return hold_deletion(observed.resource, REPROCESSING_FINALIZER, wanted=observed.is_controlled)


def release_reprocessing(observed: ReprocessingObserved, now: datetime) -> Plan | None:
    """Release a deleted one that has ended, once the Pipeline has no run for it, or is gone."""
    metadata, pipeline = observed.resource.metadata, observed.pipeline
    if metadata.deletion_timestamp is None:
        return None
    if observed.phase is Phase.CUTTING_OVER and observed.is_chain and observed.status.cut is not None:
        members = (party for party in observed.members if not party.has_followed)
        waiting = ", ".join(party.name for party in members)
        if waiting:  # all or none, also where the first pipeline is gone
            message = f"deletion waits until the cut is made by Pipeline {waiting}"
            verdict = working(observed.phase, Reason.DELETION_BLOCKED, message)
            return report(observed, verdict, now, intervals.SOON)
    has_effect = (
        pipeline is not None and observed.is_controlled and pipeline.metadata.deletion_timestamp is None
    )
    if has_effect and observed.phase not in ENDS:
        return None
    parties = [party.pipeline for party in observed.parties if party.pipeline is not None]
    if has_effect and any(run.reprocessing == metadata.name for each in parties for run in each.status.sides):
        message = "deletion waits until the Pipeline has removed the run that is not needed"
        return report(
            observed, working(observed.phase, Reason.DELETION_BLOCKED, message), now, intervals.SOON
        )
    return hold_deletion(observed.resource, REPROCESSING_FINALIZER, wanted=False) or Plan()


def report_uncontrolled(observed: ReprocessingObserved, now: datetime) -> Plan | None:
    """Report that it has no effect where the Pipeline did not create it."""
    if observed.is_controlled:
        return None
    name = observed.resource.spec.pipeline_ref
    message = f"Pipeline {name} did not create this Reprocessing, so it has no effect; delete it"
    return report(observed, stalled("Ignored", Reason.NOT_CONTROLLED, message), now)


def report_end(observed: ReprocessingObserved, now: datetime) -> Plan | None:
    """Leave one that has ended as it is."""
    if observed.phase not in ENDS:
        return None
    generation = observed.resource.metadata.generation
    status = observed.status.replace(observed_generation=generation)
    return Plan((), status)


def end_early(observed: ReprocessingObserved, now: datetime) -> Plan | None:
    """End before the cutover: the Pipeline or the resource changed, a person requested it, it takes too long, or cannot work.

    Once the cut is recorded, the Pipeline may act on it at any time, so only the Pipeline itself can withdraw it then.
    """
    if observed.phase in WANTS_SOAKING:
        is_deleted = observed.resource.metadata.deletion_timestamp is not None
        ends = is_deleted and observed.phase is Phase.SOAKING
        return finish(observed, "the Reprocessing was deleted", now) if ends else None
    change = observed.change
    if observed.is_chain:
        if observed.status.cut is not None:
            return None
        if why := next(filter(None, (party.departure for party in observed.parties)), ""):
            return _abort(observed, why, now)
    if observed.phase is not Phase.PENDING and (
        change is None or change.phase not in (UpgradePhase.REPROCESSING, UpgradePhase.SOAKING)
    ):
        return _abort(observed, "the Pipeline does not make this change any more", now)
    if observed.status.cut is not None:
        return None
    if observed.resource.metadata.deletion_timestamp is not None:
        return _abort(observed, "the Reprocessing was deleted", now)
    if (passed := carry_out(observed, RequestAction.ABORT)) is not None:
        return _abort(observed, "a person requested it", now, request=passed)
    return _fail(observed, now)


def _abort(observed: ReprocessingObserved, why: str, now: datetime, **fields: Any) -> Plan:
    verdict = stalled(Phase.ABORTED, Reason.ABORTED, f"{why}; the active version was not touched")
    plan = enter(observed, Phase.ABORTED, verdict, now, why=why, **fields)
    return Plan((*release_drivers(observed), *plan.actions), requeue=True)


def _fail(observed: ReprocessingObserved, now: datetime) -> Plan | None:
    why = _find_failure(observed, now)
    if not why:
        return None
    verdict = stalled(Phase.FAILED, Reason.REPROCESSING_FAILED, f"{why}; the active version was not touched")
    plan = enter(observed, Phase.FAILED, verdict, now, why=why)
    return Plan((*release_drivers(observed), *plan.actions), requeue=True)


def _find_refusal(observed: ReprocessingObserved) -> str:
    """Return why a driver will never hold at a common input: its pipeline has no batches, or its runtime is too old."""
    holds = (each for each in observed.failures if isinstance(each.action, HoldDriver | AdvanceDriver))
    refused = next((each.error for each in holds if isinstance(each.error, DriverRefused)), None)
    return "" if refused is None else f"both versions cannot be brought to one input: {refused.message}"


def _find_start_problem(observed: ReprocessingObserved, now: datetime) -> str:
    """Return why the new version cannot begin at the time of the spec, empty where it can, or reads the whole log."""
    start, pipeline = observed.resource.spec.start, observed.pipeline
    if start is None:
        return ""
    if pipeline is not None and pipeline.spec.reads_transactions:
        return (
            "spec.from does not go with sources of whole transactions, which are read from their first record"
        )
    if start > now:
        return f"spec.from is {observed.resource.spec.from_}, which is in the future, so there is nothing to compare"
    return ""


def _find_failure(observed: ReprocessingObserved, now: datetime) -> str:
    refusal = _find_start_problem(observed, now) or _find_refusal(observed)
    if refusal:
        return refusal
    for party in observed.parties:
        side = party.side
        restarts = None if side is None else side.run.restarts
        hopeless = None if restarts is None else restarts.non_retryable_revision
        if side and restarts and hopeless is not None and hopeless == side.run.revision:
            where = f" of Pipeline {party.name}" if observed.is_chain else ""
            return f"the new version{where} cannot run: {restarts.last_reason}: {restarts.last_failure}"
    deadline, started = observed.resource.spec.deadline, observed.status.started
    if started is not None and now - started > timedelta(seconds=parse_duration(deadline)):
        last = f"; the last failure: {failure}" if (failure := _find_last_failure(observed)) else ""
        return f"it did not get to the cutover within {deadline} (spec.deadline){last}"
    return ""


def _find_last_failure(observed: ReprocessingObserved) -> str:
    sides = (party.side for party in observed.parties if party.side is not None)
    found = (side.run.restarts.last_failure for side in sides if side.run.restarts is not None)
    return next(filter(None, found), "")
