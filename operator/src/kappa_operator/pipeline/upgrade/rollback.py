"""How a change is watched, and how it is rolled back where it fails.

Health: batches follow each other, no crash loop, and a lag that does not grow. Lag is measured as of batches, so a long pause between two
of them does not count as growth. Records that arrived during the handover count as lag that existed: the reference is the lag at the
handover or after the first batch, whichever is more. A change that only adds executors is not judged by lag: with fewer of them it would
grow even faster.

An outage of Kafka is no fault of a revision, and the previous one would meet it too. A driver that died because Kafka did not respond does
not count as a crash, and no time counts while the operator's own check does not find Kafka connected. Where only the drivers of
the new revision do not find it, the change is rolled back after the health timeout.

Rollback: the previous revision takes over again. With a savepoint it continues in a new checkpoint created from that; a change that started
from empty state is rolled back to the previous checkpoint; any other continues in the present one. The checkpoint is recorded before
anything is stopped.
"""

from datetime import datetime
from typing import Any

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.pipeline_status import (
    FirstBatch,
    Health,
    PipelineState,
    Restarts,
    UpgradePhase,
    UpgradeStatus,
)
from kappa_crds.progress import DriverState, Progress
from kappa_crds.quantities import format_count, parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_crds.savepoint import Restoration
from kappa_operator.engine.plan import Plan, Verdict, working
from kappa_operator.pipeline.driver import find_last_failure, has_failed
from kappa_operator.pipeline.model import PipelineObserved, is_taken_back, record
from kappa_operator.pipeline.progress import measure_interval
from kappa_operator.pipeline.progress_cache import SAMPLES, Samples
from kappa_operator.pipeline.revision import strip_operational
from kappa_operator.pipeline.upgrade.change import (
    ENDED,
    REPROCESSING_MODES,
    enter,
    next_checkpoint,
    start_from_empty,
    withdraw,
)
from kappa_operator.savepoint.objects import name_savepoint

MOST_CRASHES = 2
_GIVEN_UP = (
    "its Reprocessing was given up; change the spec, spec.reprocessNonce or spec.restartNonce to try it again"
)
_TOLERANCE = 1.1
_UNFIT = (Reason.STATE_INCOMPATIBLE, Reason.OFFSETS_LOST)


def roll_back(observed: PipelineObserved, now: datetime) -> Plan | None:
    """Record that the previous revision takes over again, where the new one failed while it was watched."""
    status, change = observed.status, observed.status.upgrade
    if change is None or change.phase is not UpgradePhase.WATCHING:
        return None
    if change.revision != status.active.revision or observed.resource.spec.suspend:
        return None
    if status.active.driver is None and not has_failed(status.restarts):
        return None  # it ended because it was requested to
    why = find_failure(
        _delay_start(observed, change),
        status.restarts,
        observed.samples,
        observed.resource.spec,
        now,
        by_lag=_is_by_lag(observed),
    )
    if why is None:
        return None
    if _may_reprocess(observed, change):
        return start_from_empty(observed, change, why, now, replay=True)
    if change.previous is None or observed.previous is None:
        return None
    place, effect = _find_place(observed, change, observed.previous)
    why += effect
    verdict = working(
        PipelineState.PENDING, Reason.ROLLED_BACK, f"the previous revision takes over again: {why}"
    )
    change = enter(change.replace(message=why), UpgradePhase.ROLLING_BACK, now)
    restarts = Restarts(total=status.restarts.total)
    return record(observed, verdict, now, upgrade=change, restarts=restarts, **place)


def _may_reprocess(observed: PipelineObserved, change: UpgradeStatus) -> bool:
    """Return whether the driver itself found that the state does not fit, and the mode allows to start from empty state."""
    restarts = observed.status.restarts
    unfit = restarts.non_retryable_revision == change.revision and restarts.last_reason in _UNFIT
    wants = unfit and change.mode in REPROCESSING_MODES and change.new_checkpoint is None
    return wants and not isinstance(observed.dependencies, Verdict)


def _find_place(
    observed: PipelineObserved, change: UpgradeStatus, previous: Revision
) -> tuple[dict[str, Any], str]:
    """Return the checkpoint in which the previous revision continues, as fields of the status, with an explanation."""
    partitions, beginning = previous.tuning.shuffle_partitions, {"from_beginning": previous.from_beginning}
    if change.new_checkpoint is not None:
        left = {"restoration": previous.restoration, "shuffle_partitions": partitions, **beginning}
        return {
            "checkpoint": change.new_checkpoint.instead_of, **left
        }, "; it continues in the previous checkpoint"  # fmt: skip
    if change.savepoint is None:
        return (beginning, "") if change.backfill else ({}, "")
    kept = None if observed.savepoint is None else observed.savepoint.status
    if observed.savepoint is None or kept is None or kept.taken is None or kept.location is None:
        return (
            {},
            f"; savepoint {change.savepoint} is gone, so it continues from the state of the new revision",
        )
    number = next_checkpoint(observed.status)
    source = Restoration(location=kept.location, savepoint=name_savepoint(observed.savepoint.metadata))
    partitions = kept.shuffle_partitions or partitions
    place = {"checkpoint": number, "last_checkpoint": number, "restoration": source, **beginning}
    return {**place, "shuffle_partitions": partitions}, f"; it is restored from savepoint {change.savepoint}"


def follow_change(observed: PipelineObserved, progress: Progress, now: datetime) -> UpgradeStatus | None:
    """Return the change while the wanted revision runs: healthy, withdrawn, or still watched."""
    change, wanted = observed.status.upgrade, observed.wanted
    if change is None or wanted is None or change.phase in ENDED:
        return change
    if change.intent != wanted.intent and not _is_held(observed):
        return withdraw(change, "the spec was changed back to the revision that runs", now)
    if change.phase is UpgradePhase.ROLLING_BACK:
        begun = all(query.batch_id >= 0 for query in progress.queries) or progress.lag == 0
        return enter(change, UpgradePhase.ROLLED_BACK, now) if begun else change
    if change.phase is not UpgradePhase.WATCHING:
        return change
    noted = _note_health(observed, change, progress, now)
    return _keep_given_up(observed, noted, now) if noted.phase is UpgradePhase.DONE else noted


def _keep_given_up(observed: PipelineObserved, change: UpgradeStatus, now: datetime) -> UpgradeStatus:
    """Return a change of something else that is done: where the spec is one that was given up, that is the last change again."""
    if not observed.is_given_up:
        return change.replace(given_up=None)
    given_up = change.replace(previous=change.revision, intent=None, new_checkpoint=None, message=_GIVEN_UP)
    return enter(given_up, UpgradePhase.REFUSED, now)


def _note_health(
    observed: PipelineObserved, change: UpgradeStatus, progress: Progress, now: datetime
) -> UpgradeStatus:
    """Return the change, done where its driver is healthy, or where nothing was found against it in time."""
    spec, by_lag, samples = observed.resource.spec, _is_by_lag(observed), observed.samples
    health = note_first_batches(change.health, progress)
    change = change.replace(health=health)
    if is_healthy(health, progress, by_lag=by_lag):
        return enter(change, UpgradePhase.DONE, now)
    failure = explain_failure(health, progress, spec, by_lag=by_lag)
    is_late = samples is not None and is_overdue(_delay_start(observed, change), samples, spec, now)
    passed = failure is None and is_late
    return enter(change, UpgradePhase.DONE, now) if passed else change


def _delay_start(observed: PipelineObserved, change: UpgradeStatus) -> UpgradeStatus:
    """Return the change as one that is watched only since Kafka is connected: before, it could not show that it works."""
    found = [each for each in (change.since, observed.connected_since) if each is not None]
    return change.replace(since=max(found, default=None))


def _is_by_lag(observed: PipelineObserved) -> bool:
    """Return whether the change is judged by the lag, too."""
    before = None if observed.previous is None else observed.previous.spec
    return not adds_executors(before, observed.resource.spec)


def _is_held(observed: PipelineObserved) -> bool:
    """Return whether the previous revision runs in place of that of the spec."""
    return observed.requested is None or is_taken_back(observed, observed.requested)


def note_first_batches(health: Health | None, progress: Progress) -> Health:
    """Return the reference values, with the first batches once every query has committed one."""
    known = health or Health()
    if known.batches or not progress.queries or any(query.batch_id < 0 for query in progress.queries):
        return known
    batches = tuple(FirstBatch(sink=query.sink, batch=query.batch_id) for query in progress.queries)
    return Health(lag=max(known.lag, progress.lag), batches=batches)


def adds_executors(before: PipelineSpec | None, after: PipelineSpec) -> bool:
    """Return whether a change does nothing but add executors; `before` is the spec of a revision."""
    if before is None or after.resources.executors.count <= before.resources.executors.count:
        return False
    as_many = after.resources.replace(executors=before.resources.executors)
    return strip_operational(after.replace(resources=as_many)) == before


def is_healthy(health: Health, progress: Progress, *, by_lag: bool = True) -> bool:
    """Return whether a new revision has shown that it works: it has no lag, or commits batches and does not fall behind."""
    begun = all(query.batch_id >= 0 for query in progress.queries)
    if progress.lag == 0:
        return begun or _knows_ends(progress)
    return begun and _advances(health, progress) and not (by_lag and _falls_behind(health, progress))


def find_failure(
    change: UpgradeStatus,
    restarts: Restarts,
    samples: Samples | None,
    spec: PipelineSpec,
    now: datetime,
    *,
    by_lag: bool = True,
) -> str | None:
    """Return why a new revision is to be rolled back, None while it is not.

    A crash loop is a fact. Anything else is judged when the health timeout is over, and only where the last samples agree.
    """
    is_hopeless = restarts.non_retryable_revision == change.revision or restarts.own_crashes >= MOST_CRASHES
    if is_hopeless or _misses_kafka(change, restarts, spec, now):
        return f"{restarts.last_reason}: {restarts.last_failure}"
    if samples is None or len(samples.last) < SAMPLES or not is_overdue(change, samples, spec, now):
        return None
    found = [explain_failure(change.health, each.progress, spec, by_lag=by_lag) for each in samples.last]
    return found[-1] if all(found) else None


def _misses_kafka(change: UpgradeStatus, restarts: Restarts, spec: PipelineSpec, now: datetime) -> bool:
    """Return whether drivers still do not find Kafka after a whole health timeout in which it was connected."""
    failed = find_last_failure(restarts, spec.restart)
    if restarts.crashes < MOST_CRASHES or failed is None:
        return False
    return (failed - (change.since or now)).total_seconds() > parse_duration(spec.upgrade.health_timeout)


def explain_failure(
    health: Health | None, progress: Progress | None, spec: PipelineSpec, *, by_lag: bool = True
) -> str | None:
    """Return what one sample shows against a new revision after the health timeout, None where that is nothing."""
    limit = f"{spec.upgrade.health_timeout} (spec.upgrade.healthTimeout)"
    if progress is None or progress.state is not DriverState.RUNNING:
        return f"it did not run within {limit}"
    health = note_first_batches(health, progress)
    if is_healthy(health, progress, by_lag=by_lag):
        return None
    if progress.lag > 0 and any(query.batch_id < 0 for query in progress.queries):
        return f"it committed no batch within {limit}"
    if by_lag and _falls_behind(health, progress):
        grown = f"{format_count(health.lag)} to {format_count(progress.lag)} records"
        return f"its lag grew from {grown} within {limit}"
    if progress.lag > 0 and not _advances(health, progress) and _is_due(spec):
        return f"it committed a first batch, and no other one within {limit}"
    return None


def is_overdue(change: UpgradeStatus, samples: Samples, spec: PipelineSpec, now: datetime) -> bool:
    """Return whether the health timeout is over, counted from the first sample: the operator may have been away."""
    since = max(change.since or now, samples.since)
    return (now - since).total_seconds() > parse_duration(spec.upgrade.health_timeout)


def _knows_ends(progress: Progress) -> bool:
    """Return whether the ends of all topics are known: before, a lag of 0 has no meaning."""
    return all(source.latest_offsets for query in progress.queries for source in query.sources)


def _advances(health: Health, progress: Progress) -> bool:
    """Return whether each query has committed a batch after its first one. Queries that were added later need none."""
    first = {each.sink: each.batch for each in health.batches}
    return all(query.batch_id > first.get(query.sink, -1) for query in progress.queries)


def _falls_behind(health: Health, progress: Progress) -> bool:
    """Return whether the lag is above its reference by more than a tenth and one batch."""
    batch = sum(query.input_rows for query in progress.queries)
    return progress.lag > health.lag * _TOLERANCE + batch


def _is_due(spec: PipelineSpec) -> bool:
    """Return whether two batches fit into the health timeout."""
    return 2 * measure_interval(spec) <= parse_duration(spec.upgrade.health_timeout)
