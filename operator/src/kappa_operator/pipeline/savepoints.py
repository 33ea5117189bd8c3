"""The steps for `spec.savepoints` of a pipeline: a savepoint when the schedule is due, and the deletion of expired ones.

The Savepoint of a scheduled time is named by that time, and created before the time is recorded as handled: creating it twice creates one.
Times that passed while the operator was away are handled together, by one savepoint.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from cronsim import CronSim, CronSimError

from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.savepoint import Cause
from kappa_crds.savepoint_policy import SavepointPolicy
from kappa_operator.engine.actions import CreateObject, DeleteObject, EmitEvent, RecordStatus
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.plan import Failure, Plan
from kappa_operator.pipeline.model import PipelineObserved
from kappa_operator.savepoint.objects import SavepointResource, build_savepoint

_LONGEST_WAIT = 3600.0


def concerns_savepoint(failure: Failure) -> bool:
    """Return whether a scheduled Savepoint could not be created, or one not be deleted."""
    match failure.action:
        case CreateObject(manifest):
            return bool(manifest["kind"] == "Savepoint" and manifest["spec"]["cause"] == Cause.SCHEDULE)
        case DeleteObject(ref, _, _):
            return ref.kind == "Savepoint"
        case _:
            return False


def take_scheduled_savepoint(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Create the Savepoint that is due, then record until when the schedule was handled."""
    resource, policy = observed.resource, observed.resource.spec.savepoints
    seen = resource.status.last_scheduled
    if policy is None or policy.schedule is None or observed.refused:
        return None
    record = RecordStatus(resource.status.replace(last_scheduled=now.replace(microsecond=0)))
    if seen is None:
        return Plan((record,), requeue=True)
    try:
        due = find_next(policy.schedule, seen)
    except CronSimError as error:
        message = f"spec.savepoints.schedule {policy.schedule!r} is not a valid cron expression: {error}; no savepoint is taken"
        warn = EmitEvent(Reason.INVALID_SPEC, message, warning=True)
        is_long_ago = now - seen > timedelta(seconds=_LONGEST_WAIT)
        return Plan((warn, record), requeue=True) if is_long_ago else None
    if due > now:
        return None
    if not _may_take(observed):
        return Plan((record,), requeue=True)
    metadata = resource.metadata
    name = f"{metadata.name}-{due.astimezone(UTC):%Y%m%d%H%M}"
    savepoint = build_savepoint(metadata.namespace, metadata.name, name, Cause.SCHEDULE, policy.exports)
    return Plan((CreateObject(savepoint), record), requeue=True)


def expire_savepoints(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Delete the savepoints that spec.savepoints does not keep any more."""
    policy = observed.resource.spec.savepoints
    if policy is None or observed.refused:
        return None
    actions = []
    for savepoint, why in find_expired(observed.savepoints, observed.restored, policy, now):
        metadata = savepoint.metadata
        ref = ObjectRef(savepoint.api_version, savepoint.kind, metadata.namespace, metadata.name)
        actions.append(DeleteObject(ref, metadata.uid, why))
    return Plan(tuple(actions), requeue=True) if actions else None


def wait_for_schedule(
    observed: PipelineObserved, now: datetime, longest: float | None = None
) -> float | None:
    """Return the seconds until the next reconcile: when the schedule is due, at most `longest`."""
    policy = observed.resource.spec.savepoints
    if policy is None or policy.schedule is None:
        return longest
    try:
        due = max(1.0, (find_next(policy.schedule, now) - now).total_seconds())
    except CronSimError:
        due = _LONGEST_WAIT
    return min(due, _LONGEST_WAIT, _LONGEST_WAIT if longest is None else longest)


def find_next(schedule: str, after: datetime) -> datetime:
    """Return the first time of a schedule after a time; raise CronSimError where there is none."""
    try:
        return next(CronSim(schedule, after))
    except StopIteration:
        raise CronSimError("no such day exists") from None


def _may_take(observed: PipelineObserved) -> bool:
    """Return whether another savepoint holds something new: the pipeline is not at rest, and the previous one was taken."""
    pending = (
        each for each in observed.savepoints if each.spec.cause is Cause.SCHEDULE and not _is_over(each)
    )
    return not observed.resource.spec.suspend and next(pending, None) is None


def _is_over(savepoint: SavepointResource) -> bool:
    gone = savepoint.metadata.deletion_timestamp is not None
    return savepoint.status.taken is not None or savepoint.status.state == "Failed" or gone


def find_expired(
    savepoints: tuple[SavepointResource, ...],
    restored: frozenset[str],
    policy: SavepointPolicy,
    now: datetime,
) -> Iterator[tuple[SavepointResource, str]]:
    """Yield the savepoints to delete, and why: never the newest of all, and none that a pipeline is restored from."""
    there = [each for each in savepoints if each.metadata.deletion_timestamp is None and each.status.taken]
    there.sort(key=lambda each: (each.status.taken, each.metadata.name), reverse=True)
    made = [each for each in there if each.spec.cause is not Cause.MANUAL]
    for number, savepoint in enumerate(made):
        if savepoint is there[0] or savepoint.metadata.name in restored:
            continue
        why = _explain_expiry(savepoint, number, policy, now)
        if why is not None:
            yield savepoint, why


def _explain_expiry(
    savepoint: SavepointResource, newer: int, policy: SavepointPolicy, now: datetime
) -> str | None:
    taken = savepoint.status.taken
    if policy.max_count is not None and newer >= policy.max_count:
        return f"there are {newer} newer ones, and spec.savepoints.maxCount is {policy.max_count}"
    if policy.max_age is None or taken is None:
        return None
    age = (now - taken).total_seconds()
    return (
        f"it is older than spec.savepoints.maxAge, {policy.max_age}"
        if age > parse_duration(policy.max_age)
        else None
    )
