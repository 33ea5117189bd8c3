"""What to report about the groups that a LagPolicy selects: pure, from the last sample of Kafka and the lag history.

Each sample extends the history, in memory. The status is written when something important changed, and at long intervals, so
that an operator that restarts continues from it.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from kappa_crds.conditions import Condition
from kappa_crds.lagpolicy import LAG_HEALTHY, LaggingPartition, LagPolicyStatus
from kappa_crds.lagstate import LagState, Severity
from kappa_crds.pipeline_status import PipelineState
from kappa_operator import intervals
from kappa_operator.engine.actions import Action, KeepLagHistories, RecordStatus
from kappa_operator.engine.kinds import Step
from kappa_operator.engine.plan import Plan
from kappa_operator.lag.evaluate import WELL, Verdict
from kappa_operator.lag.groupwise import Judged, advance_all, judge_all
from kappa_operator.lag.messages import explain, name_pair, render_lag
from kappa_operator.lag.model import ClusterSample
from kappa_operator.lag.rules import Rules
from kappa_operator.lagpolicy.alert import build_alert_news, find_alerts
from kappa_operator.lagpolicy.deletion import delete_policy, hold_policy
from kappa_operator.lagpolicy.messages import build_all_conditions, build_news, is_contested, say_missing
from kappa_operator.lagpolicy.model import (
    LagPolicyObserved,
    LagPolicyResource,
    build_rules,
    write_histories,
)
from kappa_operator.lagpolicy.mute import Mute, find_mute
from kappa_operator.lagpolicy.notification import Notified, Outlook, decide_notifications, find_failed_calls
from kappa_operator.lagpolicy.remediation.decide import decide_remediation

_MANY = 500
SHOWN, REMEMBERED, MISSED = 10, 100, 10
_SOON, _SELDOM = timedelta(minutes=1), timedelta(minutes=10)
"""Maximum age of a status while a condition is pending, and while everything is healthy."""
_CHANGING = ("last_sampled", "evaluated", "lag_history", "loads", "lag", "worst", "lagging", "conditions")
"""Fields whose figures change with each sample; of group partitions and conditions only the verdict counts."""


def is_long(observed: LagPolicyObserved) -> bool:
    """Return whether there are so many group partitions that others would wait; each takes some 20 microseconds."""
    pairs = 0 if observed.sampled is None else len(observed.sampled.samples)
    return max(pairs, len(observed.histories)) > _MANY


def wait_for_sample(observed: LagPolicyObserved, now: datetime) -> Plan | None:
    """Wait for the first sample of a new process while the status is still recent."""
    resource = observed.resource
    is_recent = observed.sampled is None and is_fresh(resource, build_rules(resource.spec), now)
    return Plan(requeue_after=intervals.SAMPLE) if is_recent else None


def evaluate(observed: LagPolicyObserved, now: datetime) -> Plan:
    """Evaluate all group partitions, remediate and notify, and report what changed."""
    resource = observed.resource
    rules, mute = build_rules(resource.spec), find_mute(resource.spec.mute, now)
    sampled = observed.sampled or ClusterSample(now, 0.0, failure="there is no sample yet")
    histories = advance_all(observed.histories, sampled, rules, observed.alive)
    judged = judge_all(histories, sampled, rules, now)
    alone = not is_contested(resource.spec, observed.rivals)
    remedied = decide_remediation(observed, judged, rules, now, may_begin=alone)
    status = build_status(observed, judged, rules, mute, now).replace(
        remediations=remedied.records,
        loads={name: load.to_json() for name, load in remedied.loads.items()},
    )
    alerts = find_alerts(resource.spec, resource.metadata, now)
    before = resource.status
    ended = now.replace(microsecond=0) if before.alerts and not alerts else before.alerts_ended
    status = status.replace(alerts=alerts, alerts_ended=ended)
    notified = _decide_notifications(observed, status, mute, now)
    status = status.replace(notifications=notified.records)
    keep = KeepLagHistories(histories, remedied.loads)
    news = (*build_news(resource.status, status), *build_alert_news(resource.status.alerts, alerts))
    first: tuple[Action, ...] = (keep, *news)
    return _build_plan(resource.status, status, first, (*remedied.actions, *notified.actions))


LAG_POLICY_STEPS: tuple[Step[LagPolicyObserved], ...] = (
    delete_policy,
    hold_policy,
    wait_for_sample,
    evaluate,
)


def _decide_notifications(
    observed: LagPolicyObserved, status: LagPolicyStatus, mute: Mute, now: datetime
) -> Notified:
    """Return the notifications of the policy in its present state."""
    resource, remediation = observed.resource, observed.resource.spec.remediation
    health = next(each for each in status.conditions if each.type == LAG_HEALTHY)
    found = [*find_failed_calls(observed.failures), *([observed.delivery] if observed.delivery else ())]
    outlook = Outlook(
        resource.metadata, now, status.severity, LagState(status.state or LagState.UNKNOWN), health.message,
        status.cluster, mute.until is not None, found,
    )  # fmt: skip
    webhook = None if remediation is None else remediation.webhook
    return decide_notifications(webhook, outlook, resource.status.notifications)


def is_fresh(resource: LagPolicyResource, rules: Rules, now: datetime) -> bool:
    """Return whether the status is recent: an operator that restarts has no sample yet, and the previous one had."""
    status, seen = resource.status, resource.status.last_sampled
    is_same = status.observed_generation == resource.metadata.generation
    return is_same and seen is not None and abs((now - seen).total_seconds()) <= rules.silence


def _build_plan(
    before: LagPolicyStatus,
    status: LagPolicyStatus,
    first: tuple[Action, ...],
    remediation: tuple[Action, ...],
) -> Plan:
    """Return the plan: what is done for the first time is recorded before it is done."""
    is_same = (status.remediations, status.notifications) == (before.remediations, before.notifications)
    if remediation and not is_same:
        return Plan((*first, RecordStatus(status), *remediation), requeue_after=intervals.SAMPLE)
    return Plan((*first, *remediation), status if is_news(before, status) else None, intervals.SAMPLE)


def build_status(
    observed: LagPolicyObserved, judged: Sequence[Judged], rules: Rules, mute: Mute, now: datetime
) -> LagPolicyStatus:
    """Return the status of a policy after a sample."""
    before = observed.resource.status
    missing = find_missing(observed, judged)
    worst = find_worst(observed, judged, missing, rules, now)
    verdict = Verdict(worst.state, worst.severity)
    same = (before.state, before.severity) == (verdict.state.value, verdict.severity)
    remembered = [each for each in judged if not each.history.is_plain]
    fields: dict[str, Any] = {
        "observed_generation": observed.resource.metadata.generation,
        "state": verdict.state.value,
        "severity": verdict.severity,
        "since": before.since if same and before.since else now.replace(microsecond=0),
        "cluster": observed.cluster or before.cluster,
        "lag": _say_largest(judged),
        "worst": worst,
        "lagging": tuple(
            _show(observed, each, rules, now)
            for each in judged[:SHOWN]
            if each.verdict.state is not LagState.OK
        ),
        "groups": len({each.pair.group for each in judged}),
        "group_partitions": dict(sorted(Counter(each.verdict.state.value for each in judged).items())),
        "missing": missing[:MISSED],
        "muted_until": mute.until,
        "last_sampled": observed.sampled.at.replace(microsecond=0)
        if observed.sampled
        else before.last_sampled,
        "evaluated": now.replace(microsecond=0),
        "lag_history": write_histories({each.pair: each.history for each in remembered[:REMEMBERED]}),
    }
    conditions = build_all_conditions(observed, worst, len(judged), mute, now)
    return before.replace(conditions=conditions, **fields)


def is_news(before: LagPolicyStatus, after: LagPolicyStatus) -> bool:
    """Return whether a status is worth a write: something of importance changed, or the last write is long ago."""
    if _get_gist(before) != _get_gist(after) or before.evaluated is None or after.evaluated is None:
        return True
    age = after.evaluated - before.evaluated
    is_quiet = not after.lag_history and after.lag_history == before.lag_history
    return age < timedelta(0) or age >= (_SELDOM if is_quiet else _SOON)


def find_missing(observed: LagPolicyObserved, judged: Sequence[Judged]) -> tuple[str, ...]:
    """Return the groups that the spec names and of which nothing is known."""
    seen = {each.pair.group for each in judged}
    return tuple(group for group in observed.wanted if group not in seen)


def find_worst(
    observed: LagPolicyObserved, judged: Sequence[Judged], missing: Sequence[str], rules: Rules, now: datetime
) -> LaggingPartition:
    """Return the worst of all; an unknown one where groups are missing, or nothing is selected."""
    worst = _show(observed, _choose_worst(judged), rules, now) if judged else None
    if worst is not None and worst.severity is not Severity.NONE:
        return worst
    if worst is not None and not missing:
        return worst
    name, why = missing[0] if missing else "", say_missing(observed, missing)
    return LaggingPartition(name=name, group=name, state=LagState.UNKNOWN, severity=Severity.NONE, why=why)


def _choose_worst(judged: Sequence[Judged]) -> Judged:
    """Return the worst of all; if all are healthy, the one with the largest lag."""
    if judged[0].verdict != WELL:
        return judged[0]
    return max(judged, key=lambda each: each.rank)


def _show(observed: LagPolicyObserved, judged: Judged, rules: Rules, now: datetime) -> LaggingPartition:
    pair, sample = judged.pair, judged.sample
    behind, loss = (None, None) if sample is None else (sample.behind, sample.loss)
    return LaggingPartition(
        name=name_pair(pair), group=pair.group, topic=pair.partition.topic, partition=pair.partition.number,
        state=judged.verdict.state, severity=judged.verdict.severity,
        since=judged.history.since.replace(microsecond=0),
        lag_records=None if sample is None else sample.lag,
        lag_seconds=None if behind is None else max(0, round(behind)),
        time_to_loss_seconds=None if loss is None else max(0, round(loss)),
        why=explain(judged, rules, now) + _say_pipeline(observed, judged),
    )  # fmt: skip


def _say_pipeline(observed: LagPolicyObserved, judged: Judged) -> str:
    """Describe the state of an unhealthy pipeline, if it is the cause."""
    pipeline = observed.pipelines.get(judged.pair.group)
    if pipeline is None or pipeline.state == PipelineState.RUNNING.value or judged.verdict == WELL:
        return ""
    return f"; Pipeline {pipeline.name} is {pipeline.state or 'new'}"


def _say_largest(judged: Sequence[Judged]) -> str | None:
    samples = [each.sample for each in judged if each.sample is not None]
    if not samples:
        return None
    return render_lag(max(samples, key=lambda sample: (sample.behind or 0.0, sample.lag)))


def _get_gist(status: LagPolicyStatus) -> tuple[Any, ...]:
    """Return what of a status is of importance."""

    def gist(condition: Condition) -> tuple[Any, ...]:
        return condition.type, condition.status, condition.reason, condition.observed_generation

    def identity(pair: LaggingPartition) -> tuple[Any, ...]:
        return pair.name, pair.state, pair.severity

    rest = status.model_dump(exclude=set(_CHANGING))
    worst = None if status.worst is None else identity(status.worst)
    return rest, worst, set(map(identity, status.lagging)), list(map(gist, status.conditions))
