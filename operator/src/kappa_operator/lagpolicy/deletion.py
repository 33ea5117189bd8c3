"""What to do when a LagPolicy that throttles producers is deleted: their quotas are restored first."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from kappa_crds.lagremediation import LAG_FINALIZER, RemediationStatus
from kappa_crds.reasons import Reason
from kappa_crds.resource import ResourceStatus
from kappa_operator import intervals
from kappa_operator.engine.actions import Action, RecordStatus, RemoveFinalizer
from kappa_operator.engine.plan import Plan, hold_deletion, stalled, update_status, working
from kappa_operator.lagpolicy.model import LagPolicyObserved
from kappa_operator.lagpolicy.remediation.model import is_news, tell
from kappa_operator.lagpolicy.remediation.producers import (
    build_quota_action,
    is_held,
    lose,
    release,
    settle_throttle,
)

_WHY = "the policy is deleted"


def hold_policy(observed: LagPolicyObserved, _now: datetime) -> Plan | None:
    """Hold deletion only of a policy that may throttle producers, or does so."""
    resource = observed.resource
    remediation = resource.spec.remediation
    may_throttle = remediation is not None and remediation.throttle_producers is not None
    wanted = may_throttle or any(map(is_held, resource.status.remediations))
    return hold_deletion(resource, LAG_FINALIZER, wanted=wanted)


def delete_policy(observed: LagPolicyObserved, now: datetime) -> Plan | None:
    """Restore what is held and release the policy, or report what blocks that; None while the policy is not deleted."""
    resource = observed.resource
    if resource.metadata.deletion_timestamp is None:
        return None
    if LAG_FINALIZER not in resource.metadata.finalizers:
        return Plan()
    before = resource.status.remediations
    records = tuple(_give_back(observed, each, now) for each in before)
    events = [tell(record) for record, known in zip(records, before, strict=True) if is_news(record, known)]
    held = [each for each in records if is_held(each)]
    if not held:
        return Plan((*events, RemoveFinalizer(LAG_FINALIZER)))
    status = _build_status(observed, records, held, now)
    failed = [each.action for each in observed.failures]
    actions = [action for action in _build_actions(observed, held) if action not in failed]
    if records != before:
        return Plan(
            (*events, RecordStatus(status), *actions), requeue_after=intervals.SOON, requeue=not failed
        )
    return Plan((*events, *actions), status, intervals.SOON)


def _give_back(observed: LagPolicyObserved, record: RemediationStatus, now: datetime) -> RemediationStatus:
    """Return a record with its quota on the way back; one that cannot be read is read again."""
    facts = observed.find_quota(record)
    if not is_held(record) or facts is None:
        return record
    settled = settle_throttle(record, facts, observed.failures)
    if settled.original is None:
        return settled
    if facts.problem is not None:
        return lose(settled, facts) if facts.gone else settled.replace(message=facts.problem.message)
    return release(settled, facts, _WHY, now)


def _build_actions(observed: LagPolicyObserved, held: Sequence[RemediationStatus]) -> Iterator[Action]:
    for each in held:
        facts = observed.find_quota(each)
        if facts is not None and facts.problem is None and each.original is None:
            yield build_quota_action(each, facts)


def _build_status(
    observed: LagPolicyObserved,
    records: tuple[RemediationStatus, ...],
    held: Sequence[RemediationStatus],
    now: datetime,
) -> ResourceStatus:
    blocked = next((each for each in held if each.message is not None), None)
    if blocked is None:
        names = ", ".join(each.target for each in held)
        verdict = working("Deleting", Reason.RECONCILING, f"the quota of {names} in Kafka is restored")
    else:
        message = (
            f"{blocked.message}; fix that, or restore the quota of {blocked.target} ({blocked.original or blocked.wanted}) with"
            f" kafka-configs and remove the finalizer {LAG_FINALIZER}"
        )
        verdict = stalled("Deleting", Reason.DELETION_BLOCKED, message)
    return update_status(observed.resource, verdict, now, remediations=records)
