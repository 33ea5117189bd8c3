"""How long the last start took, and how long the next one would: pure, from what the driver measured and when its pod was made."""

from kappa_crds.progress import Progress, Recovery
from kappa_crds.quantities import format_duration
from kappa_crds.recovery import RecoveryStatus
from kappa_operator.pipeline.driver import DriverPod
from kappa_operator.pipeline.model import PipelineObserved
from kappa_operator.pipeline.progress import measure_rate
from kappa_operator.pipeline.tuning import count_cores


def build_recovery(
    observed: PipelineObserved, current: DriverPod, progress: Progress
) -> RecoveryStatus | None:
    """Return how the current driver's start went; what is known of one before while it is not over."""
    before, found = observed.status.recovery, progress.recovery
    if found is None:
        return before
    early = 0.0 if found.warm else _measure_pod(current, found)
    last = before.prepare_seconds if before is not None else None
    known = last if found.warm else round(early + found.prepare_seconds, 1)
    return RecoveryStatus(
        generation=current.generation,
        warm=found.warm,
        took=format_duration(early + found.seconds),
        seconds=round(early + found.seconds, 1),
        state_seconds=round(found.state_seconds, 1),
        state_rows=found.state_rows,
        records=found.records,
        prepare_seconds=known,
        expected_seconds=None if known is None else round(known + _foresee(observed, progress, found)),
    )


def _measure_pod(current: DriverPod, found: Recovery) -> float:
    """Return the seconds from the making of the pod to its process; 0 where that is not known, or clocks differ."""
    if current.created is None:
        return 0.0
    return max(0.0, (found.since - current.created).total_seconds())


def _foresee(observed: PipelineObserved, progress: Progress, found: Recovery) -> float:
    """Return the seconds that loading state and catching up would take now."""
    rows = sum(query.state_rows for query in progress.queries)
    growth = rows / found.state_rows if found.state_rows else 1.0
    at_once = min(count_cores(observed.resource.spec), observed.status.shuffle_partitions or 1)
    rate = measure_rate(progress)
    catch_up = progress.lag / rate if rate > 0 else 0.0
    return found.state_seconds / at_once * growth + catch_up
