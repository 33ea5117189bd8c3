"""What to do about the archive of a Topic: begin the runs that are due, record what each did, and report it.

The number of a run is recorded before its pod is created, and the pod's name holds it. What a run did is recorded before its pod is
deleted, and the next one is not begun before. So there are never two pods, and a crash of the operator loses no answer.
"""

from datetime import datetime

from kappa_crds.archive import ARCHIVED, ArchivedPartition, ArchiveStatus
from kappa_crds.archive_work import ArchiveResult
from kappa_crds.conditions import Condition, ConditionStatus
from kappa_crds.progress import DriverExit
from kappa_crds.quantities import format_count, format_duration, format_size
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import WorkState
from kappa_operator import intervals
from kappa_operator.archive.model import (
    ArchiveObserved,
    Place,
    is_at_risk,
    is_current,
    measure_wait,
)
from kappa_operator.archive.objects import GRACE, RUN_SECONDS, TopicResource, build_pod_ref, create_pod
from kappa_operator.engine.actions import (
    Action,
    ApplyObject,
    CreateObject,
    DeleteObject,
    EmitEvent,
    RecordStatus,
)
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.plan import Failure, Plan, build_condition
from kappa_operator.engine.work_pods import WorkPod
from kappa_operator.topic.checks import TopicObserved

_LONGEST = RUN_SECONDS + 2 * GRACE


def follow_archive(observed: TopicObserved, now: datetime) -> Plan | None:
    """Record what the run under way did, delete its pod, or create it where it is missing; None while it works."""
    archive, status = observed.archive, observed.resource.status.archive
    if archive is None or status is None or status.state is WorkState.DONE:
        return None
    pod = archive.pod
    delete = () if pod is None or pod.deleting else (DeleteObject(pod.ref, pod.uid, "its run has ended"),)
    if status.state is WorkState.ENDED or not _is_wanted(observed, status):
        return Plan((*delete, _record(observed, status.replace(state=WorkState.DONE))), requeue=True)
    refused = _find_refusal(observed, status)
    if refused is not None:
        return _finish(observed, status, _fail(f"the pod cannot be created: {refused.error.message}"))
    if pod is None:
        return _create(observed, archive, status)
    if pod.deleting:
        return None
    result = pod.result or _give_up(pod, now)
    return None if result is None else _finish(observed, status, result)


def begin_archive(observed: TopicObserved, now: datetime) -> Plan | None:
    """Record a run that is due, then create its pod."""
    spec, archive, status = observed.resource.spec.archive, observed.archive, observed.resource.status.archive
    if spec is None or archive is None or archive.place is None or observed.view is None:
        return None
    if (status is not None and status.state is not WorkState.DONE) or observed.failures:
        return None
    if _measure_wait(observed, now) > 0:
        return None
    begun = _begin(observed, archive.place, status, now)
    return Plan((_record(observed, begun), *_create_pod(observed, archive.place, begun)), requeue=True)


def _begin(
    observed: TopicObserved, place: Place, status: ArchiveStatus | None, now: datetime
) -> ArchiveStatus:
    at, view = now.replace(microsecond=0), observed.view
    topic_id = "" if view is None else view.topic_id
    number = 1 if status is None else status.number + 1
    if status is not None and is_current(status, topic_id, place.store):
        return status.replace(number=number, state=WorkState.RUNNING, at=at)
    return ArchiveStatus(number=number, at=at, topic_id=topic_id, store=place.store, since=at)


def _is_wanted(observed: TopicObserved, status: ArchiveStatus) -> bool:
    """Return whether the run under way is of the topic and the store as they are now."""
    archive = observed.archive
    if observed.resource.spec.archive is None or archive is None:
        return False
    topic_id = None if observed.view is None else observed.view.topic_id
    return is_current(status, topic_id, None if archive.place is None else archive.place.store)


def _create(observed: TopicObserved, archive: ArchiveObserved, status: ArchiveStatus) -> Plan | None:
    """Create the pod of a run that was recorded, unless that failed in this reconcile."""
    if archive.place is None:
        return _finish(observed, status, _fail(archive.problem.message if archive.problem else "no place"))
    if observed.failures:
        return None
    return Plan(_create_pod(observed, archive.place, status), requeue=True)


def _create_pod(observed: TopicObserved, place: Place, status: ArchiveStatus) -> tuple[Action, ...]:
    assert observed.archive is not None  # noqa: S101 - the place is a part of it
    return create_pod(observed.resource, observed.archive, place, observed.topic, status)


def _find_refusal(observed: TopicObserved, status: ArchiveStatus) -> Failure | None:
    """Return why the pod, or its NetworkPolicy, could not be created, if it could not."""
    ref = build_pod_ref(observed.resource, status.number)
    for failure in observed.failures:
        match failure.action:
            case ApplyObject():
                return failure
            case CreateObject(manifest) if ObjectRef.of(manifest) == ref:
                return failure
    return None


def _give_up(pod: WorkPod[ArchiveResult], now: datetime) -> ArchiveResult | None:
    """Return the result of a pod that takes too long, which is only one that does not start: the kubelet ends others."""
    if (now - pod.created).total_seconds() <= _LONGEST:
        return None
    return _fail(f"the pod did not end within {format_duration(_LONGEST)}: {pod.waits or 'no reason given'}")


def _fail(message: str) -> ArchiveResult:
    return ArchiveResult(failure=DriverExit(reason=Reason.ARCHIVE_FAILED, message=message))


def _finish(observed: TopicObserved, status: ArchiveStatus, result: ArchiveResult) -> Plan:
    """Record what a run did. Its pod is deleted afterwards: a crash in between finds it again."""
    if result.failure is not None:
        ended = status.replace(
            state=WorkState.ENDED, failures=status.failures + 1, message=result.failure.message
        )
        news = status.message != ended.message
        event = EmitEvent(Reason.ARCHIVE_FAILED, f"the archive: {ended.message}", warning=True)
        return Plan((_record(observed, ended), *((event,) if news else ())), requeue=True)
    ended = status.replace(
        state=WorkState.ENDED,
        failures=0,
        message="",
        complete=status.at if result.is_complete else status.complete,
        partitions=tuple(
            ArchivedPartition(partition=number, first=first, end=end)
            for number, (first, end) in enumerate(result.ranges)
        ),
        behind=result.behind,
        segments=result.segments,
        size_bytes=result.size_bytes,
        lost=result.lost or status.lost,
    )
    message = f"records were removed before they were archived: {result.lost}; retain the topic for longer"
    lost = (EmitEvent(Reason.ARCHIVE_INCOMPLETE, message, warning=True),) if result.lost else ()
    return Plan((_record(observed, ended), *lost), requeue=True)


def _record(observed: TopicObserved, archive: ArchiveStatus) -> RecordStatus:
    return RecordStatus(observed.resource.status.replace(archive=archive))


def _measure_wait(observed: TopicObserved, now: datetime) -> float:
    spec, status, archive = observed.resource.spec.archive, observed.resource.status.archive, observed.archive
    assert spec is not None  # noqa: S101 - callers ask for a declared archive only
    place = None if archive is None else archive.place
    topic_id = None if observed.view is None else observed.view.topic_id
    current = status is None or is_current(status, topic_id, None if place is None else place.store)
    return measure_wait(spec, status, now, observed.resource.metadata.uid, current=current)


def choose_wait(observed: TopicObserved, now: datetime) -> float | None:
    """Return the seconds until the archive needs the next reconcile; None without one."""
    archive, status = observed.archive, observed.resource.status.archive
    if archive is None:
        return None
    if status is not None and status.state is not WorkState.DONE:
        return intervals.WORKING
    if observed.resource.spec.archive is None:
        return None
    if archive.problem is not None or observed.view is None:
        return intervals.WAITING
    return max(intervals.WORKING, _measure_wait(observed, now))


def report_archive(observed: TopicObserved, now: datetime) -> tuple[Condition, ...]:
    """Return the condition Archived, none without an archive."""
    if observed.resource.spec.archive is None or observed.archive is None:
        return ()
    status, reason, message = judge_archive(observed.resource, observed.archive, now)
    generation = observed.resource.metadata.generation
    return (build_condition(ARCHIVED, status, reason, message, generation=generation, now=now),)


def judge_archive(
    resource: TopicResource, observed: ArchiveObserved, now: datetime
) -> tuple[ConditionStatus, Reason, str]:
    """Return the status, the reason and the message of the condition."""
    status, problem = resource.status.archive, observed.problem
    cause = problem.message if problem is not None else status.message if status is not None else ""
    if is_at_risk(status, observed.retention, now):
        assert status is not None and observed.retention is not None  # noqa: S101 - or there is no risk
        limit = format_duration(observed.retention)
        message = (
            f"records after {status.safe_until:%Y-%m-%dT%H:%M:%SZ} may not be archived, and the retention is {limit}; it is held"
            f" meanwhile: {cause or 'the runs do not keep up with new records'}"
        )
        return "False", Reason.ARCHIVE_BEHIND, message
    if problem is not None:
        return "False", problem.reason, cause
    if status is not None and status.failures:
        return "False", Reason.ARCHIVE_FAILED, cause
    if status is None or status.complete is None:
        return "Unknown", Reason.ARCHIVING, "records are archived for the first time"
    return "True", Reason.ARCHIVED, _describe(status, observed.retention)


def _describe(status: ArchiveStatus, retention: float | None) -> str:
    count = sum(each.end - each.first for each in status.partitions)
    message = (
        f"all records up to {status.complete:%Y-%m-%dT%H:%M:%SZ} are archived: {format_count(count)} offsets of"
        f" {len(status.partitions)} partitions, {format_size(status.size_bytes)}"
    )
    if retention is None:
        message += "; spec.retention.time is not declared, so the retention is not held where a run fails"
    return f"{message}; lost before they were archived: {status.lost}" if status.lost else message
