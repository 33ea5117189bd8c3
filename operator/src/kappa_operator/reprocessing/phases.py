"""The phases from the proof of the log to the end of the soak time: each is one step, which stays, or records the next phase."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from kappa_crds.pipeline_status import UpgradePhase
from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.reprocessing import LogGap, ReprocessingPhase, RequestAction
from kappa_crds.reprocessing_policy import CutGate, Gate
from kappa_operator import intervals
from kappa_operator.engine.plan import Plan, ready, stalled, working
from kappa_operator.log.proof import Gap
from kappa_operator.pipeline.driver import find_last_failure
from kappa_operator.pipeline.objects import PipelineResource
from kappa_operator.reprocessing.catch_up import judge_party
from kappa_operator.reprocessing.cut import Reaching, release_drivers
from kappa_operator.reprocessing.groups import GROUP_PATIENCE
from kappa_operator.reprocessing.model import ReprocessingObserved, enter, record, record_parties, report
from kappa_operator.reprocessing.move import keep_holding, reach_moving_cut
from kappa_operator.reprocessing.requests import carry_out, explain_end, explain_gate

Phase = ReprocessingPhase
_MOST_GAPS = 50
_MOST_CRASHES = 2
_REQUESTED = "it was requested"
READER_PATIENCE = 120.0
"""Seconds for which a rollback waits for readers that cannot hold: one whose driver was lost is back by then, and one that is left needs a person."""
UNCUT_PATIENCE = 180.0
"""Seconds for which a rollback waits for a common cut: a new version whose driver was lost is back by then, also where the machine is busy."""
FAILED_PATIENCE = 60.0
"""Seconds for which it waits for a new version that does not run because it fails."""


def begin(observed: ReprocessingObserved, now: datetime) -> Plan | None:
    """Begin once the pipeline makes its change by this reprocessing, and has no run of another one."""
    if observed.phase is not Phase.PENDING:
        return None
    change, pipeline = observed.change, observed.pipeline
    if change is None or change.phase is not UpgradePhase.REPROCESSING:
        message = "waiting until the Pipeline records the change"
        return report(observed, working(Phase.PENDING, Reason.RECONCILING, message), now, intervals.SOON)
    if pipeline is not None and pipeline.status.sides:
        message = "waiting until the run of another reprocessing has ended"
        return report(observed, working(Phase.PENDING, Reason.RECONCILING, message), now, intervals.SOON)
    if observed.chain_problem:
        verdict = working(Phase.PENDING, Reason.CHAIN_BLOCKED, observed.chain_problem)
        return report(observed, verdict, now, intervals.SOON)
    spec = observed.resource.spec
    message = f"the log is checked from {spec.from_ or 'its start'}{spec.rows and f', {spec.rows} are computed'}: {change.message}"
    return enter(
        observed, Phase.PROVING, working(Phase.PROVING, Reason.RECONCILING, message), now,
        intent=change.intent, why=change.message, members=observed.found,
    )  # fmt: skip


def prove_log(observed: ReprocessingObserved, now: datetime) -> Plan | None:
    """Continue where the log is whole, or a person accepts what is missing."""
    if observed.phase is not Phase.PROVING:
        return None
    proof, spec = observed.proof, observed.resource.spec
    if proof is None:
        return None
    if proof.problem:
        message = f"the log cannot be checked: {proof.problem}; it is retried"
        verdict = working(Phase.PROVING, Reason.RECONCILING, message)
        return report(observed, verdict, now, intervals.BLOCKED)
    gaps = tuple(map(_describe_gap, proof.gaps[:_MOST_GAPS]))
    if proof.is_whole or spec.acknowledge_missing:
        known = proof.message if proof.is_whole else f"continues although {proof.message}"
        verdict = working(Phase.CATCHING_UP, Reason.CATCHING_UP, f"{known}; the new version starts")
        return enter(observed, Phase.CATCHING_UP, verdict, now, gaps=gaps, unheld=observed.holds.unheld)
    message = f"{proof.message}; set spec.acknowledgeMissing to continue nevertheless, or abort"
    verdict = stalled(Phase.PROVING, Reason.LOG_INCOMPLETE, message)
    return report(observed, verdict, now, intervals.WAITING, gaps=gaps)


def _describe_gap(gap: Gap) -> LogGap:
    before = "" if gap.before is None else f" from before {gap.before:%Y-%m-%dT%H:%M:%SZ}"
    message = f"offsets {gap.first} to {gap.last}{before}"
    return LogGap(
        topic=gap.topic, partition=gap.partition, first=gap.first, end=gap.last + 1, message=message
    )


def hold_log(observed: ReprocessingObserved, _now: datetime) -> Plan | None:
    """Hold the retention of the sources until the cutover, and give it back after it, or after an end. What fails is tried again later."""
    if not observed.holds.actions or observed.failures:
        return None
    return Plan(observed.holds.actions, requeue=True)


def catch_up(observed: ReprocessingObserved, now: datetime) -> Plan | None:
    """Wait until each new version is as near to the end of the log as its active one, for some time; then the gate decides."""
    if observed.phase is not Phase.CATCHING_UP:
        return None
    states = [judge_party(party, now) for party in observed.parties]
    fields = [each.fields for each in states]
    steps = zip(observed.parties, fields, strict=True)
    if any(_has_changed(party, each) for party, each in steps):
        return record(observed, **record_parties(observed, fields))
    values = record_parties(observed, fields)
    behind = next((each for each in states if each.message), None)
    if behind is not None:
        verdict = working(Phase.CATCHING_UP, behind.reason, behind.message)
        return report(observed, verdict, now, intervals.SOON, **values)
    if observed.resource.spec.gates.compare is Gate.MANUAL:
        message = f"caught up; {explain_gate(observed, RequestAction.COMPARE)}"
        verdict = working(Phase.CATCHING_UP, Reason.WAITING_FOR_PERSON, message)
        passed = carry_out(observed, RequestAction.COMPARE)
        return (
            report(observed, verdict, now, intervals.SOON, **values)
            if passed is None
            else start_comparison(observed, now, request=passed)
        )
    return start_comparison(observed, now)


def _has_changed(party: ReprocessingObserved, fields: Mapping[str, Any]) -> bool:
    """Return whether something changed that others act on: a member joined, or a version has caught up."""
    joined = fields.get("joined", False) and party.member is not None and not party.member.joined
    return joined or (party.status.caught_up_since is None and fields["caught_up_since"] is not None)


def start_comparison(observed: ReprocessingObserved, now: datetime, **fields: Any) -> Plan:
    """Return the plan that records the phase Comparing."""
    verdict = working(Phase.COMPARING, Reason.COMPARING, "both versions are brought to the same input")
    return enter(observed, Phase.COMPARING, verdict, now, **fields)


def wait_for_cutover(observed: ReprocessingObserved, now: datetime) -> Plan | None:
    """Wait at the gate of the cutover."""
    if observed.phase is not Phase.READY_TO_CUT:
        return None
    if (passed := carry_out(observed, RequestAction.CUT)) is not None:
        return start_cutover(observed, now, request=passed)
    if (again := carry_out(observed, RequestAction.COMPARE)) is not None:
        return start_comparison(observed, now, request=again)
    if observed.status.cut_refused is not None:
        message = f"{observed.status.cut_refused}; {explain_gate(observed, RequestAction.CUT)}"
        verdict = stalled(Phase.READY_TO_CUT, Reason.GROUPS_NOT_AT_CUT, message)
        return report(observed, verdict, now, intervals.WAITING)
    spec, compared = observed.resource.spec, observed.status.comparison
    most = spec.comparison.max_unexpected
    unexpected = None if compared is None else compared.unexpected
    result = "no comparison" if compared is None else compared.message
    if spec.gates.cut is CutGate.NEVER:
        message = f"{result}; spec.gates.cut is Never, so there is no cutover; {explain_end(observed)}"
        verdict = working(Phase.READY_TO_CUT, Reason.NEVER_CUTS_OVER, message)
        return report(observed, verdict, now, intervals.WAITING)
    if unexpected is None or unexpected > most:
        message = f"{result}; {explain_gate(observed, RequestAction.CUT)}"
        verdict = stalled(Phase.READY_TO_CUT, Reason.OUTPUTS_DIFFER, message)
        return report(observed, verdict, now, intervals.WAITING)
    if spec.gates.cut is CutGate.MANUAL:
        message = f"{result}; {explain_gate(observed, RequestAction.CUT)}"
        verdict = working(Phase.READY_TO_CUT, Reason.WAITING_FOR_PERSON, message)
        return report(observed, verdict, now, intervals.WAITING)
    return start_cutover(observed, now)


def start_cutover(observed: ReprocessingObserved, now: datetime, **fields: Any) -> Plan:
    """Return the plan that records the phase CuttingOver."""
    message = "both versions are brought to the input at which the new one takes over"
    verdict = working(Phase.CUTTING_OVER, Reason.CUTTING_OVER, message)
    fields = {"cut_refused": None, "holding_for_groups": None, **fields}
    return enter(observed, Phase.CUTTING_OVER, verdict, now, **fields)


def cut_over(observed: ReprocessingObserved, now: datetime) -> Plan | None:
    """Record the cut, wait until the Pipeline has exchanged the runs, and have both drivers continue."""
    if observed.phase is not Phase.CUTTING_OVER:
        return None
    if observed.status.cut is None:
        reaching = reach_moving_cut(observed, now)
        if reaching.awaits_groups and _has_waited_for_groups(observed, now):
            return _give_up_cut(observed, reaching.message, now)
        return _reach(observed, reaching, "cut", Reason.CUTTING_OVER, now)
    has_followed = [party.has_followed for party in observed.parties]
    if not (all(has_followed) if observed.is_chain else observed.has_cut_over):
        verdict = working(
            Phase.CUTTING_OVER, Reason.CUTTING_OVER, "the Pipeline makes the new version active"
        )
        plan = report(observed, verdict, now, intervals.WORKING)
        return Plan(() if observed.failure else keep_holding(observed), plan.status, plan.requeue_after)
    soak = observed.resource.spec.soak
    message = f"the new version is active since {now:%Y-%m-%dT%H:%M:%SZ}; the old one soaks for {soak}"
    plan = enter(observed, Phase.SOAKING, working(Phase.SOAKING, Reason.SOAKING, message), now)
    return Plan((*plan.actions, *release_drivers(observed)), requeue=True)


def _has_waited_for_groups(observed: ReprocessingObserved, now: datetime) -> bool:
    since = observed.status.holding_for_groups
    return since is not None and (now - since).total_seconds() > GROUP_PATIENCE


def _give_up_cut(observed: ReprocessingObserved, why: str, now: datetime) -> Plan:
    """Record that the cutover waits for a person again; all continue."""
    message = f"{why}; {explain_gate(observed, RequestAction.CUT)}"
    verdict = stalled(Phase.READY_TO_CUT, Reason.GROUPS_NOT_AT_CUT, message)
    plan = enter(observed, Phase.READY_TO_CUT, verdict, now, cut_refused=why, holding_for_groups=None)
    return Plan((*release_drivers(observed), *plan.actions), requeue=True)


def soak(observed: ReprocessingObserved, now: datetime) -> Plan | None:
    """Roll back on request or where the new version fails; end when the soak time is over."""
    if observed.phase is not Phase.SOAKING:
        return None
    if observed.is_chain and (why := _find_departure(observed)):
        return finish(observed, f"{why}, so the soak time has ended", now)
    if not observed.is_chain and not observed.has_cut_over:
        return finish(observed, "the Pipeline was changed, so the soak time has ended", now)
    if (passed := carry_out(observed, RequestAction.ROLLBACK)) is not None:
        return start_rollback(observed, _REQUESTED, now, request=passed)
    failure = next(filter(None, map(find_failure, observed.parties)), "")
    can_return = all(party.side is not None and party.side.is_running for party in observed.parties)
    is_automatic = observed.resource.spec.gates.rollback is Gate.AUTOMATIC
    if failure and is_automatic and can_return:
        return start_rollback(observed, failure, now)
    if (passed := carry_out(observed, RequestAction.FINISH)) is not None:
        return finish(observed, "a person ended the soak time", now, request=passed)
    if failure and is_automatic:
        message = f"{failure}; the old version does not run either, and takes over once it does"
        plan = report(observed, stalled(Phase.SOAKING, Reason.SOAKING, message), now, intervals.SAMPLE)
    elif failure:
        message = f"{failure}; the old one still soaks; {explain_gate(observed, RequestAction.ROLLBACK)}"
        verdict = stalled(Phase.SOAKING, Reason.WAITING_FOR_PERSON, message)
        plan = report(observed, verdict, now, intervals.SAMPLE)
    else:
        plan = _end_soak(observed, now)
    return Plan((*release_drivers(observed), *plan.actions), plan.status, plan.requeue_after, plan.requeue)


def _end_soak(observed: ReprocessingObserved, now: datetime) -> Plan:
    """Return the plan that waits for the end of the soak time, and then for its gate; a new version that does not run does not end it."""
    ends = (observed.status.since or now) + timedelta(seconds=parse_duration(observed.resource.spec.soak))
    left = (ends - now).total_seconds()
    if left > 0:
        message = f"the new version is active; the old one soaks until {ends:%Y-%m-%dT%H:%M:%SZ}"
        return report(
            observed, ready(Phase.SOAKING, Reason.SOAKING, message), now, min(left, intervals.SAMPLE)
        )
    if not all(party.active is not None and party.active.is_running for party in observed.parties):
        message = "the soak time is over; the old version is kept until the new one runs"
        return report(observed, working(Phase.SOAKING, Reason.SOAKING, message), now, intervals.SAMPLE)
    if observed.resource.spec.gates.finish is Gate.AUTOMATIC:
        return finish(observed, f"the old version soaked for {observed.resource.spec.soak}", now)
    message = f"the soak time is over; {explain_gate(observed, RequestAction.FINISH)}"
    return report(observed, ready(Phase.SOAKING, Reason.WAITING_FOR_PERSON, message), now, intervals.WAITING)


def find_failure(observed: ReprocessingObserved) -> str:
    """Return why the new version is unhealthy, empty where it is not. Without a report there is no verdict."""
    pipeline = observed.pipeline
    if pipeline is None:
        return ""
    restarts, active = pipeline.status.restarts, pipeline.status.active
    is_hopeless = (
        restarts.non_retryable_revision is not None and restarts.non_retryable_revision == active.revision
    )
    why = ""
    if is_hopeless or _is_crashing(observed, pipeline):
        why = f"the new version fails: {restarts.last_reason}: {restarts.last_failure}"
    elif observed.falling_behind is not None:
        why = observed.falling_behind.explain(pipeline.spec.upgrade)
    return f"Pipeline {observed.name}: {why}" if why and observed.is_chain else why


def _is_crashing(observed: ReprocessingObserved, pipeline: PipelineResource) -> bool:
    """Return whether the new version crashes again and again while the old one runs: where Kafka is away, both crash."""
    restarts, side = pipeline.status.restarts, observed.side
    failed = find_last_failure(restarts, pipeline.spec.restart)
    if (
        restarts.own_crashes < _MOST_CRASHES
        or failed is None
        or side is None
        or side.run.running_since is None
    ):
        return False
    return failed > side.run.running_since  # it failed then, or later


def start_rollback(observed: ReprocessingObserved, why: str, now: datetime, **fields: Any) -> Plan:
    """Return the plan that records the phase RollingBack."""
    verdict = working(Phase.ROLLING_BACK, Reason.ROLLING_BACK, f"the old version takes over again: {why}")
    fields = {"holding_for_groups": None, **fields}
    return enter(observed, Phase.ROLLING_BACK, verdict, now, why=why, **fields)


def roll_back(observed: ReprocessingObserved, now: datetime) -> Plan | None:
    """Record the cut at which the old version is active again; without one where the new version does not run."""
    if observed.phase is not Phase.ROLLING_BACK:
        return None
    why = observed.status.why or _REQUESTED
    if _has_rolled_back(observed):
        reason = Reason.ROLLED_BACK if why == _REQUESTED else Reason.REPROCESSING_FAILED
        verdict = stalled(Phase.ROLLED_BACK, reason, f"the old version is active again: {why}")
        plan = enter(observed, Phase.ROLLED_BACK, verdict, now)
        return Plan((*release_drivers(observed), *plan.actions), requeue=True)
    is_chain, cut = observed.is_chain, observed.status.rollback_cut
    departed = (cut is None and _find_departure(observed)) if is_chain else not observed.has_cut_over
    if departed:
        return finish(observed, "the Pipeline was changed before the rollback", now)
    if cut is None:
        waited = (now - (observed.status.since or now)).total_seconds()
        reaching = reach_moving_cut(
            observed,
            now,
            leaves_readers=waited > READER_PATIENCE,
            leaves_groups=_has_waited_for_groups(observed, now),
            lost=find_lost(observed, waited),
        )
        return _reach(observed, reaching, "rollback_cut", Reason.ROLLING_BACK, now)
    message = f"the Pipeline makes the old version active: {why}"
    plan = report(observed, working(Phase.ROLLING_BACK, Reason.ROLLING_BACK, message), now, intervals.WORKING)
    return Plan(() if observed.failure else keep_holding(observed), plan.status, plan.requeue_after)


def _has_rolled_back(observed: ReprocessingObserved) -> bool:
    if observed.is_chain:
        return observed.status.rollback_cut is not None and all(
            party.has_followed for party in observed.parties
        )
    return observed.change is not None and observed.change.phase is UpgradePhase.ROLLED_BACK


def _find_departure(observed: ReprocessingObserved) -> str:
    return next(filter(None, (party.departure for party in observed.parties)), "")


def find_lost(observed: ReprocessingObserved, waited: float) -> frozenset[str]:
    """Return the pipelines whose new version has not run for so long, and those that read from them: they have no common point.

    Where the old version does not run either, an end without a common point would be of no use.
    """
    lost: set[str] = set()
    for party in observed.parties:
        reads_lost = party.member is not None and not lost.isdisjoint(party.member.after)
        is_running = party.active is not None and party.active.is_running
        can_return = party.side is not None and party.side.is_running
        patience = FAILED_PATIENCE if find_failure(party) else UNCUT_PATIENCE
        if reads_lost or (can_return and not is_running and waited > patience):
            lost.add(party.name)
    return frozenset(lost)


def finish(observed: ReprocessingObserved, why: str, now: datetime, **fields: Any) -> Plan:
    """Return the plan that records the end: the new version stays."""
    verdict = ready(Phase.DONE, Reason.REPROCESSED, f"the new version is active: {why}")
    return enter(observed, Phase.DONE, verdict, now, why=why, **fields)


def _reach(
    observed: ReprocessingObserved, reaching: Reaching, field: str, reason: Reason, now: datetime
) -> Plan:
    if reaching.cuts:  # one write decides for all
        return record(observed, **record_parties(observed, [{field: cut} for cut in reaching.cuts]))
    message = f"{reaching.message}; {observed.failure}" if observed.failure else reaching.message
    since = observed.status.holding_for_groups
    if reaching.awaits_groups:
        since = since or now.replace(microsecond=0)
    plan = report(
        observed,
        working(observed.phase, reason, message),
        now,
        intervals.WORKING,
        holding_for_groups=since,
    )
    actions = () if observed.failure else reaching.actions
    return Plan(actions, plan.status, plan.requeue_after)
