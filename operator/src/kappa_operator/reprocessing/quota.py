"""The quota of a replay in Kafka: recorded first, set while the new version catches up, and removed after that (ADR 74)."""

from datetime import datetime

from kappa_crds.reprocessing import ReprocessingPhase
from kappa_operator.engine.actions import RecordStatus, SetQuota
from kappa_operator.engine.plan import Plan, find_failure
from kappa_operator.kafka.model import Rate
from kappa_operator.reprocessing.model import ReprocessingObserved, record
from kappa_operator.reprocessing.objects import ReprocessingResource


def find_wanted_quota(resource: ReprocessingResource) -> int | None:
    """Return the bytes per second that the consumers of the replay may read from each broker now; None for no quota."""
    is_replaying = resource.status.phase is ReprocessingPhase.CATCHING_UP
    return resource.spec.replay.max_bytes_per_second if is_replaying else None


def limit_replay(observed: ReprocessingObserved, _now: datetime) -> Plan | None:
    """Set or remove the quota. What fails is tried again with the next reconcile, and blocks no other step."""
    quota, recorded = observed.quota, observed.status.replay_quota
    if quota is None or find_failure(observed.failures, SetQuota) is not None:
        return None
    wanted = find_wanted_quota(observed.resource)
    if wanted is None:
        if recorded is None:
            return None
        removed = SetQuota(quota.cluster, quota.client, None, Rate.CONSUMER)
        return Plan((removed, RecordStatus(observed.status.replace(replay_quota=None))), requeue=True)
    if recorded != wanted:
        return record(observed, replay_quota=wanted)
    if quota.rate == wanted:
        return None
    return Plan((SetQuota(quota.cluster, quota.client, wanted, Rate.CONSUMER),), requeue=True)


def explain_quota(observed: ReprocessingObserved) -> str:
    """Return why the quota is not set, empty where it is or none is wanted."""
    failure = find_failure(observed.failures, SetQuota)
    return "" if failure is None else f"; it reads without its quota: {failure.error.message}"
