"""The health gate of a changed revision: batches follow each other, no crash loop, and a lag that does not grow. Pure.

Lag is measured as of batches, so a long pause between two of them is not taken for growth. What was not processed while the drivers
followed each other counts as lag that was there: the reference is the lag at the handover or after the first batch, whichever is more.
A change that does nothing but add executors is not judged by lag: with the fewer that there were it would grow even faster.
"""

from datetime import datetime

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.pipeline_status import FirstBatch, Health, Restarts, UpgradeStatus
from kappa_crds.progress import DriverState, Progress
from kappa_crds.quantities import format_count, parse_duration
from kappa_operator.pipeline.progress import measure_interval
from kappa_operator.pipeline.progress_cache import SAMPLES, Samples
from kappa_operator.pipeline.revision import strip_operational

MOST_CRASHES = 2
_TOLERANCE = 1.1


def note_first_batches(health: Health | None, progress: Progress) -> Health:
    """Return what is measured against, with the first batches once every query has committed one."""
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
    """Return whether a new revision has shown that it works: it has nothing left to read, or goes on and does not fall behind."""
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
    if restarts.non_retryable_revision == change.revision or restarts.crashes >= MOST_CRASHES:
        return f"{restarts.last_reason}: {restarts.last_failure}"
    if samples is None or len(samples.last) < SAMPLES or not is_overdue(change, samples, spec, now):
        return None
    found = [explain_failure(change.health, each.progress, spec, by_lag=by_lag) for each in samples.last]
    return found[-1] if all(found) else None


def explain_failure(
    health: Health | None, progress: Progress | None, spec: PipelineSpec, *, by_lag: bool = True
) -> str | None:
    """Return what one sample shows against a new revision whose time is over, None where that is nothing."""
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
    """Return whether the ends of all topics are known: before, a lag of nothing means nothing."""
    return all(source.latest_offsets for query in progress.queries for source in query.sources)


def _advances(health: Health, progress: Progress) -> bool:
    """Return whether each query has committed a batch after its first one. Queries that came later need none."""
    first = {each.sink: each.batch for each in health.batches}
    return all(query.batch_id > first.get(query.sink, -1) for query in progress.queries)


def _falls_behind(health: Health, progress: Progress) -> bool:
    """Return whether the lag is above its reference by more than a tenth and one batch."""
    batch = sum(query.input_rows for query in progress.queries)
    return progress.lag > health.lag * _TOLERANCE + batch


def _is_due(spec: PipelineSpec) -> bool:
    """Return whether two batches fit into the time that there is."""
    return 2 * measure_interval(spec) <= parse_duration(spec.upgrade.health_timeout)
