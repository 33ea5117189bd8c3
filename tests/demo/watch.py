"""Follows the pipeline until it has processed every record, and until its status shows that.

The figures decide when it is done, never a time: no lag, and all records of the log read. A driver that took over from
another counts its own records only; then the pipeline's consumer group must have reached the end of every partition. The figures of
the status are written at an interval, and dead letters beside the query, so the last ones follow.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from demo.errors import DemoError
from kappa_crds.conditions import ConditionType, find_condition
from kappa_crds.pipeline_status import PipelineStatus

EVERY_SECONDS = 2.0
PATIENCE_SECONDS = 180.0
DEADLINE_SECONDS = 900.0
FIGURES_SECONDS = 60.0
"""How long the status may take to show the last figures."""


@dataclass(frozen=True)
class Target:
    """What has to be processed: records in the log, those among them that go to the dead-letter topic."""

    total: int
    malformed: int


class NotProcessedError(DemoError):
    """The pipeline will not, or not in time, process the log."""


def has_read_all(status: PipelineStatus, target: Target, is_group_at_end: Callable[[], bool]) -> bool:
    """Whether every record of the log has been processed."""
    if status.lag_records == 0 and (status.records or 0) >= target.total:
        return True
    return is_group_at_end()


def shows_all(status: PipelineStatus, target: Target) -> bool:
    """Whether the figures of the status are the final ones."""
    letters = status.dead_lettered or 0
    return (status.records or 0) >= target.total and status.lag_records == 0 and letters >= target.malformed


def say_status(status: PipelineStatus, target: Target) -> str:
    """Describe the progress of the pipeline in one line."""
    if status.records is None and status.lag_records is None:
        return f"{status.state or 'new'}: {_say_ready(status)}"
    parts = [
        f"records in {status.records or 0:,} of {target.total:,}",
        f"lag {'?' if status.lag_records is None else format(status.lag_records, ',')}",
        f"batch {'–' if status.batch is None else status.batch}",
        f"rate {status.rate or '–'}",
        f"dead letters {status.dead_lettered or 0:,}",
    ]
    if status.watermark is not None:
        parts.append(f"watermark {status.watermark:%Y-%m-%d %H:%M}")
    return f"{status.state or 'new'}: " + " · ".join(parts)


def _say_ready(status: PipelineStatus) -> str:
    ready = find_condition(status.conditions, ConditionType.READY)
    return f"{ready.reason}: {ready.message}" if ready else "waiting for the operator"


def find_stall(status: PipelineStatus) -> str | None:
    """Return why the pipeline cannot continue without an external change, or None."""
    stalled = find_condition(status.conditions, ConditionType.STALLED)
    if stalled is None or stalled.status != "True":
        return None
    return f"the pipeline is stalled: {stalled.reason}: {stalled.message}"


def _signs_of_life(status: PipelineStatus) -> tuple[object, ...]:
    return (
        status.state,
        status.active.generation,
        status.batch,
        status.records,
        status.lag_records,
        status.dead_lettered,
    )


def watch(
    read: Callable[[], PipelineStatus],
    target: Target,
    is_group_at_end: Callable[[], bool],
    say: Callable[[str], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> PipelineStatus:
    """Return the status once all is processed; NotProcessedError on a stall, or when nothing moves for too long."""
    began = moved = clock()
    read_at: float | None = None
    signs: tuple[object, ...] = ()
    while True:
        status = read()
        say(say_status(status, target))
        if read_at is None and has_read_all(status, target, is_group_at_end):
            read_at = clock()
        if read_at is not None and (shows_all(status, target) or clock() - read_at > FIGURES_SECONDS):
            return status
        if (stall := find_stall(status)) is not None:
            raise NotProcessedError(stall)
        if _signs_of_life(status) != signs:
            signs, moved = _signs_of_life(status), clock()
        if clock() - moved > PATIENCE_SECONDS:
            raise NotProcessedError(f"no progress for {PATIENCE_SECONDS:.0f} s")
        if clock() - began > DEADLINE_SECONDS:
            raise NotProcessedError(f"not all records are processed after {DEADLINE_SECONDS:.0f} s")
        sleep(EVERY_SECONDS)
