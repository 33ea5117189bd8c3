"""What to do when a LagPolicy is deleted that slows producers down: their quotas go back first, and what is in the way is said."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from kappa_crds.lagpause import LAG_FINALIZER
from kappa_crds.lagpolicy import LagPolicyStatus
from kappa_crds.lagremedy import RemedyStatus
from kappa_crds.reasons import Reason
from kappa_operator.engine.actions import Action, AddFinalizer, RecordStatus, RemoveFinalizer
from kappa_operator.engine.plan import Plan, build_conditions, stalled, working
from kappa_operator.lagpolicy.model import LagPolicyObserved, LagPolicyResource
from kappa_operator.lagpolicy.remediation.model import is_news, tell
from kappa_operator.lagpolicy.remediation.producers import (
    build_quota_action,
    is_held,
    lose,
    release,
    settle_pause,
)

_POLL = 5.0
_WHY = "the policy is deleted"


def decide_finalizer(resource: LagPolicyResource) -> Action | None:
    """Hold deletion only of a policy that may slow producers down, or does so."""
    remedies = resource.spec.remedies
    asked = remedies is not None and remedies.pause_producers is not None
    wanted = asked or any(map(is_held, resource.status.remedies))
    if wanted == (LAG_FINALIZER in resource.metadata.finalizers):
        return None
    return AddFinalizer(LAG_FINALIZER) if wanted else RemoveFinalizer(LAG_FINALIZER)


def decide_deletion(observed: LagPolicyObserved, now: datetime) -> Plan:
    """Give back what is held and let the policy go, or say what is in the way."""
    resource = observed.resource
    if LAG_FINALIZER not in resource.metadata.finalizers:
        return Plan()
    before = resource.status.remedies
    records = tuple(_give_back(observed, each, now) for each in before)
    told = [tell(record) for record, known in zip(records, before, strict=True) if is_news(record, known)]
    held = [each for each in records if is_held(each)]
    if not held:
        return Plan((*told, RemoveFinalizer(LAG_FINALIZER)))
    status = _build_status(observed, records, held, now)
    failed = [each.action for each in observed.failures]
    actions = [action for action in _build_actions(observed, held) if action not in failed]
    if records != before:
        return Plan((*told, RecordStatus(status), *actions), requeue_after=_POLL, requeue=not failed)
    return Plan((*told, *actions), status, _POLL)


def _give_back(observed: LagPolicyObserved, record: RemedyStatus, now: datetime) -> RemedyStatus:
    """Return a record with its quota on the way back; one that cannot be read is asked for again."""
    facts = observed.quotas.get((record.cluster or "", record.target))
    if not is_held(record) or facts is None:
        return record
    settled = settle_pause(record, facts, observed.failures)
    if settled.original is None:
        return settled
    if facts.problem is not None:
        return lose(settled, facts) if facts.gone else settled.replace(message=facts.problem.message)
    return release(settled, facts, _WHY, now)


def _build_actions(observed: LagPolicyObserved, held: Sequence[RemedyStatus]) -> Iterator[Action]:
    for each in held:
        facts = observed.quotas.get((each.cluster or "", each.target))
        if facts is not None and facts.problem is None and each.original is None:
            yield build_quota_action(each, facts)


def _build_status(
    observed: LagPolicyObserved,
    records: tuple[RemedyStatus, ...],
    held: Sequence[RemedyStatus],
    now: datetime,
) -> LagPolicyStatus:
    status, generation = observed.resource.status, observed.resource.metadata.generation
    blocked = next((each for each in held if each.message is not None), None)
    if blocked is None:
        names = ", ".join(each.target for each in held)
        verdict = working("Deleting", Reason.RECONCILING, f"the quota of {names} in Kafka is put back")
    else:
        said = (
            f"{blocked.message}; repair that, or put the quota of {blocked.target} back ({blocked.original or blocked.wanted}) with"
            f" kafka-configs and remove the finalizer {LAG_FINALIZER}"
        )
        verdict = stalled("Deleting", Reason.DELETION_BLOCKED, said)
    conditions = build_conditions(verdict, status.conditions, generation, now)
    return status.replace(
        conditions=conditions, state=verdict.state, observed_generation=generation, remedies=records
    )
