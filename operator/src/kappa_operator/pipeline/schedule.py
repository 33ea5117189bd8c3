"""What `spec.savepoints` of a pipeline asks for: a savepoint when the schedule says so, and the deletion of what is kept long enough.

The Savepoint of a moment is named by that moment, and made before the moment is recorded as seen to: making it twice makes one. Moments
that passed while nobody looked are seen to together, by one. The pipeline itself comes first and is decided without regard to this.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from cronsim import CronSim, CronSimError

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.savepoint import Cause
from kappa_crds.savepoint_policy import SavepointPolicy
from kappa_operator.engine.actions import Action, CreateObject, DeleteObject, EmitEvent, RecordStatus
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.plan import Failure, Plan
from kappa_operator.pipeline.decide import decide_pipeline
from kappa_operator.pipeline.model import PipelineObserved
from kappa_operator.pipeline.objects import PipelineResource
from kappa_operator.savepoint.objects import SavepointResource, build_scheduled

_LONGEST_WAIT = 3600.0


@dataclass(frozen=True, slots=True)
class KeptPipeline:
    """A pipeline, its savepoints, and the names of those that a pipeline is to go on from.

    `refused` says that a Savepoint could not be made or deleted just now.
    """

    pipeline: PipelineObserved
    savepoints: tuple[SavepointResource, ...] = ()
    restored: frozenset[str] = frozenset()
    refused: bool = False

    @property
    def resource(self) -> PipelineResource:
        """Return the pipeline."""
        return self.pipeline.resource


def concerns_savepoint(failure: Failure) -> bool:
    """Return whether a Savepoint of the schedule could not be made, or one not be deleted."""
    match failure.action:
        case CreateObject(manifest):
            return bool(manifest["kind"] == "Savepoint" and manifest["spec"]["cause"] == Cause.SCHEDULE)
        case DeleteObject(ref, _, _):
            return ref.kind == "Savepoint"
        case _:
            return False


def decide_kept_pipeline(observed: KeptPipeline, now: datetime) -> Plan:
    """Return the next step for the pipeline; where it has none to take at once, the next one for its savepoints."""
    plan, policy = decide_pipeline(observed.pipeline, now), observed.resource.spec.savepoints
    is_busy = plan.requeue or plan.actions or observed.pipeline.failures or observed.refused
    if policy is None or is_busy or observed.resource.metadata.deletion_timestamp is not None:
        return plan
    due = _decide_schedule(observed, policy, now)
    if due:
        return Plan(due, requeue=True)
    waits = [plan.requeue_after, _measure_wait(observed.resource, policy, now)]
    requeue = min((wait for wait in waits if wait is not None), default=None)
    return Plan(tuple(_decide_retention(observed, policy, now)), plan.status, requeue)


def _decide_schedule(observed: KeptPipeline, policy: SavepointPolicy, now: datetime) -> tuple[Action, ...]:
    resource, seen = observed.resource, observed.resource.status.last_scheduled
    if policy.schedule is None:
        return ()
    record = RecordStatus(resource.status.replace(last_scheduled=now.replace(microsecond=0)))
    if seen is None:
        return (record,)
    try:
        due = find_next(policy.schedule, seen)
    except CronSimError as error:
        said = (
            f"spec.savepoints.schedule {policy.schedule!r} is no time of cron: {error}; no savepoint is taken"
        )
        return (EmitEvent(Reason.INVALID_SPEC, said, warning=True), record) if _is_long_ago(seen, now) else ()
    if due > now:
        return ()
    if not _may_take(observed, resource.spec):
        return (record,)
    return (CreateObject(build_scheduled(resource.metadata, due, policy.exports)), record)


def find_next(schedule: str, after: datetime) -> datetime:
    """Return the first moment of a schedule after a time; raise CronSimError where there is none."""
    try:
        return next(CronSim(schedule, after))
    except StopIteration:
        raise CronSimError("there is no such day") from None


def _is_long_ago(seen: datetime, now: datetime) -> bool:
    return now - seen > timedelta(seconds=_LONGEST_WAIT)


def _may_take(observed: KeptPipeline, spec: PipelineSpec) -> bool:
    """Return whether a savepoint would say something new: not of a pipeline at rest, nor while the one before is not taken."""
    pending = (
        each for each in observed.savepoints if each.spec.cause is Cause.SCHEDULE and not _is_over(each)
    )
    return not spec.suspend and next(pending, None) is None


def _is_over(savepoint: SavepointResource) -> bool:
    gone = savepoint.metadata.deletion_timestamp is not None
    return savepoint.status.taken is not None or savepoint.status.state == "Failed" or gone


def _measure_wait(resource: PipelineResource, policy: SavepointPolicy, now: datetime) -> float | None:
    """Return the seconds until the schedule is to be looked at again."""
    if policy.schedule is None:
        return None
    try:
        due = find_next(policy.schedule, now)
    except CronSimError:
        return _LONGEST_WAIT
    return min(_LONGEST_WAIT, max(1.0, (due - now).total_seconds()))


def _decide_retention(observed: KeptPipeline, policy: SavepointPolicy, now: datetime) -> Iterator[Action]:
    for savepoint, why in find_expired(observed.savepoints, observed.restored, policy, now):
        metadata = savepoint.metadata
        ref = ObjectRef(savepoint.api_version, savepoint.kind, metadata.namespace, metadata.name)
        yield DeleteObject(ref, metadata.uid, why)


def find_expired(
    savepoints: tuple[SavepointResource, ...],
    restored: frozenset[str],
    policy: SavepointPolicy,
    now: datetime,
) -> Iterator[tuple[SavepointResource, str]]:
    """Yield what is kept long enough, and why: never the newest savepoint of all, and none that a pipeline goes on from."""
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
