"""What a LagPolicy does about lag: each remediation is recorded in status before it is taken, so that one that was cut short is taken up again.

A remediation that is pending is applied until the object is as wanted: an observation, not the write, shows that it is done.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kappa_crds.lagremediation import (
    Remediation,
    RemediationKind,
    RemediationResult,
    RemediationStatus,
    Saved,
)
from kappa_crds.lagstate import LagState, Severity
from kappa_operator.engine.actions import Action
from kappa_operator.lag.evaluate import WELL
from kappa_operator.lag.groupwise import Judged
from kappa_operator.lag.load import Load, advance_load, measure_flow
from kappa_operator.lag.messages import explain, name_pair
from kappa_operator.lag.rules import Rules
from kappa_operator.lagpolicy.alert import find_alerts, raise_judged
from kappa_operator.lagpolicy.model import LagPolicyObserved
from kappa_operator.lagpolicy.remediation.batch import is_return, may_be_held
from kappa_operator.lagpolicy.remediation.model import (
    PipelineCase,
    PipelineFacts,
    TopicFacts,
    build_action,
    find_record,
    get_identity,
    is_carried_out,
    is_news,
    name_remediation,
    tell,
)
from kappa_operator.lagpolicy.remediation.pipeline import decide_for_pipeline
from kappa_operator.lagpolicy.remediation.producers import (
    Alarm,
    build_quota_action,
    decide_throttle,
    settle_throttle,
)
from kappa_operator.lagpolicy.remediation.restart import has_moved
from kappa_operator.lagpolicy.remediation.retention import decide_hold
from kappa_operator.lagpolicy.remediation.savepoint import build_savepoint_action, follow_savepoint, withdraw
from kappa_operator.lagpolicy.remediation.scale import measure_quiet


@dataclass(frozen=True, slots=True)
class RemediationDecision:
    """The records of remediations as they are to be in status, what is to be done once they are, and what was measured."""

    records: tuple[RemediationStatus, ...] = ()
    actions: tuple[Action, ...] = ()
    loads: Mapping[str, Load] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A policy at a sample. Its group partitions are judged with alerts, the worst first, and are in `groups` by group."""

    observed: LagPolicyObserved
    judged: Sequence[Judged]
    groups: Mapping[str, Sequence[Judged]]
    rules: Rules
    now: datetime

    @property
    def remediation(self) -> Remediation:
        """Return the remediations of the policy; none where it has none."""
        return self.observed.resource.spec.remediation or Remediation()


def decide_remediation(
    observed: LagPolicyObserved, judged: Sequence[Judged], rules: Rules, now: datetime, *, may_begin: bool
) -> RemediationDecision:
    """Return what is to be done. Without `may_begin` nothing new is begun, as another policy does the same."""
    before = observed.resource.status.remediations
    judged = raise_judged(judged, find_alerts(observed.resource.spec, observed.resource.metadata, now))
    case = Evaluation(observed, judged, group_judged(judged), rules, now)
    settled = tuple(_settle(case, record) for record in before)
    loads = measure_loads(case, settled)
    found = [*_find_for_producers(case, settled, may_begin=may_begin)]
    if may_begin:
        found += [*_find_for_pipelines(case, settled, loads), *_find_for_topics(case, settled)]
    begun = [each for each in found if each is not None]
    replaced = {get_identity(each) for each in begun}
    records = (*(each for each in settled if get_identity(each) not in replaced), *begun)
    known = {get_identity(each): each for each in before}
    news = [each for each in records if is_news(each, known.get(get_identity(each)))]
    actions: list[Action] = [*_carry_out(observed, records), *(tell(each) for each in news)]
    ordered = sorted(records, key=get_identity)
    return RemediationDecision(tuple(ordered), tuple(actions), loads)


def find_facts(observed: LagPolicyObserved, record: RemediationStatus) -> PipelineFacts | TopicFacts | None:
    """Return what a remediation acts on, None where it is gone or not selected any more."""
    if record.kind is RemediationKind.HOLD_RETENTION:
        return next((each for each in observed.topics.values() if each.name == record.target), None)
    return next((each for each in observed.pipelines.values() if each.name == record.target), None)


def _settle(case: Evaluation, record: RemediationStatus) -> RemediationStatus:
    """Return a record with what became of it."""
    observed = case.observed
    if record.result is not RemediationResult.PENDING:
        return record
    if record.kind is RemediationKind.THROTTLE_PRODUCERS:
        return settle_throttle(record, observed.find_quota(record), observed.failures)
    facts = find_facts(observed, record)
    if facts is None:
        return record.replace(
            result=RemediationResult.REFUSED, message="it is gone, or not selected any more"
        )
    if record.saved is Saved.TAKING:
        return _settle_savepoint(case, record)
    if is_carried_out(record, facts):
        return record.replace(result=RemediationResult.DONE)
    action = build_action(record, facts)
    failed = next((each for each in observed.failures if each.action == action), None)
    if failed is not None and not failed.error.retryable:
        return record.replace(result=RemediationResult.REFUSED, message=failed.error.message)
    return record


def _settle_savepoint(case: Evaluation, record: RemediationStatus) -> RemediationStatus:
    """Return a record that waits for its savepoint, unless what it is for has passed meanwhile, or it is not wanted any more."""
    observed, remediation = case.observed, case.remediation
    if name_remediation(record.kind) not in remediation.names and not is_return(record):
        return withdraw(record, "the policy does not have this remediation any more")
    group = next((each for each, facts in observed.pipelines.items() if facts.name == record.target), "")
    own = case.groups.get(group, ())
    is_seen = record.kind is RemediationKind.RESTART_STALLED and bool(own) and own[0].alert is None
    if is_seen and has_moved(own[0], record.at):
        return withdraw(record, "it moves again by now")
    found = observed.savepoints.get(record.savepoint or "")
    return follow_savepoint(record, remediation.savepoint, found, observed.failures, case.now)


def _carry_out(observed: LagPolicyObserved, records: Sequence[RemediationStatus]) -> Iterator[Action]:
    """Yield what brings pending remediations about, but for those that have just failed: they are retried at the next sample."""
    failed = [each.action for each in observed.failures]
    for record in records:
        if record.result is RemediationResult.PENDING:
            action = _build_next(observed, record)
            if action is not None and action not in failed:
                yield action


def _build_next(observed: LagPolicyObserved, record: RemediationStatus) -> Action | None:
    """Return what comes next for a pending remediation: its savepoint, nothing while that is taken, or the remediation itself."""
    if record.kind is RemediationKind.THROTTLE_PRODUCERS:
        quota = observed.find_quota(record)
        return None if quota is None or quota.problem is not None else build_quota_action(record, quota)
    facts = find_facts(observed, record)
    if facts is None:
        return None
    if record.saved is Saved.TAKING and isinstance(facts, PipelineFacts):
        return None if record.savepoint in observed.savepoints else build_savepoint_action(record, facts)
    return build_action(record, facts)


def measure_loads(case: Evaluation, records: Sequence[RemediationStatus]) -> dict[str, Load]:
    """Return what is known of the rates of the pipelines that may be scaled or get larger batches, after one more sample."""
    observed = case.observed
    if observed.sampled is None or not _needs_loads(case.remediation, records):
        return {}
    flows = defaultdict(list)
    for pair, sample in observed.sampled.samples.items():
        flows[pair.group].append((observed.histories.get(pair), sample))
    loads: dict[str, Load] = {}
    for group, facts in observed.pipelines.items():
        if group not in flows:
            continue
        loads[facts.name] = advance_load(
            observed.loads.get(facts.name), measure_flow(flows[group]), facts.executors, observed.sampled.at,
            well=case.groups[group][0].verdict.state is LagState.OK,
            span=_measure_span(case.remediation, records, facts), steady=facts.steady,
        )  # fmt: skip
    return loads


def _needs_loads(remediation: Remediation, records: Sequence[RemediationStatus]) -> bool:
    needs_rates = remediation.scale is not None or remediation.raise_batch_limit is not None
    return needs_rates or any(may_be_held(each) for each in records)


def _measure_span(
    remediation: Remediation, records: Sequence[RemediationStatus], facts: PipelineFacts
) -> float:
    """Return the seconds for which the most that came in is wanted: the longest quiet time of a remediation."""
    spans = [0.0]
    pairs = (
        (RemediationKind.SCALE, remediation.scale),
        (RemediationKind.RAISE_BATCH_LIMIT, remediation.raise_batch_limit),
    )
    for kind, settings in pairs:
        record = find_record(records, kind, facts.name)
        if settings is not None:
            spans.append(measure_quiet(settings, record.count if record is not None else 0))
    return max(spans)


def group_judged(judged: Sequence[Judged]) -> dict[str, list[Judged]]:
    """Return what is judged by group, the worst first as before."""
    groups: defaultdict[str, list[Judged]] = defaultdict(list)
    for each in judged:
        groups[each.pair.group].append(each)
    return groups


def _find_for_pipelines(
    case: Evaluation, records: Sequence[RemediationStatus], loads: Mapping[str, Load]
) -> Iterator[RemediationStatus | None]:
    """Yield remediations to be begun, and records that change; none for a pipeline that has one pending."""
    pending = {record.target for record in records if record.result is RemediationResult.PENDING}
    for group, facts in case.observed.pipelines.items():
        own = case.groups.get(group, ())
        if not own or facts.name in pending:
            continue
        waits = sum(each.sample.lag for each in own if each.sample is not None)
        why = explain(own[0], case.rules, case.now)
        pipeline = PipelineCase(facts, own[0].verdict, why, waits, loads.get(facts.name))
        yield decide_for_pipeline(case.remediation, pipeline, records, case.now)


def _find_for_topics(
    case: Evaluation, records: Sequence[RemediationStatus]
) -> Iterator[RemediationStatus | None]:
    """Yield holds to be begun, renewed or ended; none for a topic that has one pending."""
    spec = case.observed.resource.spec
    for topic, facts in case.observed.topics.items():
        before = find_record(records, RemediationKind.HOLD_RETENTION, facts.name)
        if before is None or before.result is not RemediationResult.PENDING:
            readers = [each for each in case.judged if each.pair.partition.topic == topic]
            yield decide_hold(spec, facts, readers, before, case.now)


def build_alarm(case: Evaluation) -> Alarm:
    """Return how bad it is over all that the policy selects. Well is what is known to be OK, not what is not known."""
    status, judged, now = case.observed.resource.status, case.judged, case.now
    worst = next((each for each in judged if each.verdict.severity is Severity.CRITICAL), None)
    if worst is not None:
        return Alarm(now, critical=True, why=f"{name_pair(worst.pair)}: {explain(worst, case.rules, now)}")
    is_well = bool(judged) and all(each.verdict == WELL for each in judged)
    was_well = status.state == LagState.OK and status.severity is Severity.NONE and not status.alerts
    if not is_well or not was_well or status.since is None:
        return Alarm(now)
    return Alarm(now, well_since=max(status.since, status.alerts_ended or status.since))


def _find_for_producers(
    case: Evaluation, records: Sequence[RemediationStatus], *, may_begin: bool
) -> Iterator[RemediationStatus | None]:
    """Yield quotas to be set or put back; what is held is put back also where nothing new may be begun."""
    alarm, settings = build_alarm(case), case.remediation.throttle_producers
    for (cluster, producer), facts in case.observed.quotas.items():
        known = (each for each in records if each.cluster == cluster)
        before = find_record(known, RemediationKind.THROTTLE_PRODUCERS, producer)
        yield decide_throttle(settings, facts, alarm, before, may_begin=may_begin)
