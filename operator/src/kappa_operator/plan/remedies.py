"""What a LagPolicy does about lag: each remedy is recorded in status before it is taken, so that one that was cut short is taken up again.

A remedy that is pending is applied until the object is as wanted: its own look, not the write, says that it is done.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kappa_crds.lagremedy import RemedyKind, RemedyResult, RemedyStatus, ScaleRemedy
from kappa_crds.lagstate import LagState
from kappa_operator.actions import Action, ApplyObject
from kappa_operator.lag.groupwise import Judged
from kappa_operator.lag.load import Load, advance_load, measure_flow
from kappa_operator.lag.rules import Rules
from kappa_operator.lag.words import explain
from kappa_operator.plan.lagpolicy_model import LagPolicyObserved
from kappa_operator.plan.remedy_model import (
    PipelineFacts,
    TopicFacts,
    build_action,
    find_record,
    is_carried_out,
    tell,
)
from kappa_operator.plan.remedy_restart import decide_restart
from kappa_operator.plan.remedy_retention import decide_hold
from kappa_operator.plan.remedy_scale import count_regrets, decide_executors, measure_quiet


@dataclass(frozen=True, slots=True)
class Remedied:
    """The records of remedies as they are to be in status, what is to be done once they are, and what was measured."""

    records: tuple[RemedyStatus, ...] = ()
    actions: tuple[Action, ...] = ()
    loads: Mapping[str, Load] = field(default_factory=dict)


def decide_remedies(
    observed: LagPolicyObserved, judged: Sequence[Judged], rules: Rules, now: datetime, *, may_begin: bool
) -> Remedied:
    """Return what is to be done. Without `may_begin` nothing new is begun, as another policy does the same."""
    before = observed.resource.status.remedies
    settled = tuple(_settle(observed, record) for record in before)
    groups = group_judged(judged)
    loads = measure_loads(observed, groups, settled)
    begun: list[RemedyStatus] = []
    if may_begin:
        begun += _find_for_pipelines(observed, groups, rules, settled, loads=loads, now=now)
        begun += _find_for_topics(observed, judged, settled, now)
    replaced = {(each.kind, each.target) for each in begun}
    records = (*(each for each in settled if (each.kind, each.target) not in replaced), *begun)
    news = [each for each in records if _is_news(each, find_record(before, each.kind, each.target))]
    actions: list[Action] = [*_carry_out(observed, records), *(tell(each) for each in news)]
    ordered = sorted(records, key=lambda each: (each.kind, each.target))
    return Remedied(tuple(ordered), tuple(actions), loads)


def _is_news(record: RemedyStatus, before: RemedyStatus | None) -> bool:
    """Return whether it is worth an Event: a remedy that is taken, or refused; not one that is renewed."""
    return (
        before is None or before.at != record.at or (before.result != record.result == RemedyResult.REFUSED)
    )


def find_facts(observed: LagPolicyObserved, record: RemedyStatus) -> PipelineFacts | TopicFacts | None:
    """Return what a remedy acts on, None where it is gone or not selected any more."""
    if record.kind is RemedyKind.HOLD_RETENTION:
        return next((each for each in observed.topics.values() if each.name == record.target), None)
    return next((each for each in observed.pipelines.values() if each.name == record.target), None)


def _settle(observed: LagPolicyObserved, record: RemedyStatus) -> RemedyStatus:
    """Return a record with what became of it."""
    if record.result is not RemedyResult.PENDING:
        return record
    facts = find_facts(observed, record)
    if facts is None:
        return record.replace(result=RemedyResult.REFUSED, message="it is gone, or not selected any more")
    if is_carried_out(record, facts):
        return record.replace(result=RemedyResult.DONE)
    action = build_action(record, facts)
    failed = next((each for each in observed.failures if each.action == action), None)
    if failed is not None and not failed.error.retryable:
        return record.replace(result=RemedyResult.REFUSED, message=failed.error.message)
    return record


def _carry_out(observed: LagPolicyObserved, records: Sequence[RemedyStatus]) -> Iterator[ApplyObject]:
    """Yield what brings pending remedies about, but for those that have just failed: they are tried at the next look."""
    failed = [each.action for each in observed.failures]
    for record in records:
        facts = find_facts(observed, record)
        if record.result is RemedyResult.PENDING and facts is not None:
            action = build_action(record, facts)
            if action not in failed:
                yield action


def measure_loads(
    observed: LagPolicyObserved, judged: Mapping[str, Sequence[Judged]], records: Sequence[RemedyStatus]
) -> dict[str, Load]:
    """Return what is known of the rates of the pipelines that may be scaled, after one more look."""
    remedy = None if observed.resource.spec.remedies is None else observed.resource.spec.remedies.scale
    if remedy is None or observed.sweep is None:
        return {}
    looks = defaultdict(list)
    for share, sample in observed.sweep.samples.items():
        looks[share.group].append((observed.standings.get(share), sample))
    loads: dict[str, Load] = {}
    for group, facts in observed.pipelines.items():
        if group not in looks:
            continue
        record = find_record(records, RemedyKind.SCALE, facts.name)
        loads[facts.name] = advance_load(
            observed.loads.get(facts.name), measure_flow(looks[group]), facts.executors, observed.sweep.at,
            well=judged[group][0].verdict.state is LagState.OK,
            span=measure_quiet(remedy, record.count if record is not None else 0), steady=facts.steady,
        )  # fmt: skip
    return loads


def group_judged(judged: Sequence[Judged]) -> dict[str, list[Judged]]:
    """Return what is judged by group, the worst first as before."""
    groups: defaultdict[str, list[Judged]] = defaultdict(list)
    for each in judged:
        groups[each.share.group].append(each)
    return groups


def _find_for_pipelines(
    observed: LagPolicyObserved,
    judged: Mapping[str, Sequence[Judged]],
    rules: Rules,
    records: Sequence[RemedyStatus],
    *,
    loads: Mapping[str, Load],
    now: datetime,
) -> Iterator[RemedyStatus]:
    """Yield remedies to be begun, and records that change; none for a pipeline that has one pending."""
    remedies = observed.resource.spec.remedies
    pending = {record.target for record in records if record.result is RemedyResult.PENDING}
    for group, facts in observed.pipelines.items():
        own = judged.get(group, ())
        if remedies is None or not own or facts.name in pending:
            continue
        if remedies.restart_stalled is not None:
            before, why = (
                find_record(records, RemedyKind.RESTART_STALLED, facts.name),
                explain(own[0], rules, now),
            )
            yield from _some(
                decide_restart(remedies.restart_stalled, facts, own[0].verdict, why, before=before, now=now)
            )
        if remedies.scale is not None and facts.name in loads:
            before = find_record(records, RemedyKind.SCALE, facts.name)
            yield from _some(
                _decide_scale(remedies.scale, facts, own, loads[facts.name], before=before, now=now)
            )


def _find_for_topics(
    observed: LagPolicyObserved, judged: Sequence[Judged], records: Sequence[RemedyStatus], now: datetime
) -> Iterator[RemedyStatus]:
    """Yield holds to be begun, renewed or ended; none for a topic that has one pending."""
    for topic, facts in observed.topics.items():
        before = find_record(records, RemedyKind.HOLD_RETENTION, facts.name)
        if before is None or before.result is not RemedyResult.PENDING:
            readers = [each for each in judged if each.share.partition.topic == topic]
            yield from _some(decide_hold(observed.resource.spec, facts, readers, before, now))


def _some(record: RemedyStatus | None) -> tuple[RemedyStatus, ...]:
    return () if record is None else (record,)


def _decide_scale(
    remedy: ScaleRemedy,
    facts: PipelineFacts,
    own: Sequence[Judged],
    load: Load,
    *,
    before: RemedyStatus | None,
    now: datetime,
) -> RemedyStatus | None:
    if not facts.steady or facts.stateless or facts.executors < 1:
        return None
    last, regrets = (before.at, before.count) if before is not None else (None, 0)
    waits = sum(each.sample.lag for each in own if each.sample is not None)
    change = decide_executors(remedy, load, waits, own[0].verdict, last=last, regrets=regrets)
    if change is None:
        return None
    if before is not None and change.executors > facts.executors:
        fell = before.at if before.before is not None and int(before.before) > int(before.wanted) else None
        regrets = count_regrets(remedy, fell=fell, now=now, regrets=regrets)
    return RemedyStatus(
        kind=RemedyKind.SCALE, target=facts.name, before=str(facts.executors), wanted=str(change.executors),
        at=now.replace(microsecond=0), why=change.why, count=regrets,
    )  # fmt: skip
