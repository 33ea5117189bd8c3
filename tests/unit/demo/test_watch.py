"""Following a pipeline: it ends when the numbers say so, and fails clearly when nothing moves."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import repeat
from typing import Any

import pytest

from demo.watch import (
    DEADLINE_SECONDS,
    FIGURES_SECONDS,
    PATIENCE_SECONDS,
    NotProcessedError,
    Target,
    say_status,
    watch,
)
from kappa_crds.conditions import Condition
from kappa_crds.pipeline_status import PipelineStatus

TARGET = Target(total=100, malformed=3)


def status(**fields: Any) -> PipelineStatus:
    return PipelineStatus(**fields)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def follow(
    statuses: Iterator[PipelineStatus], clock: Clock | None = None, group: Callable[[], bool] = lambda: False
) -> PipelineStatus:
    clock = clock or Clock()
    return watch(lambda: next(statuses), TARGET, group, lambda text: None, clock=clock, sleep=clock.sleep)


def test_it_ends_when_all_records_are_read_and_no_lag_is_left() -> None:
    done = status(records=100, lag_records=0, dead_lettered=3)
    assert follow(iter([status(), status(records=60, lag_records=40), done])) == done


def test_no_lag_before_all_was_loaded_is_not_the_end() -> None:
    done = status(records=100, lag_records=0, dead_lettered=3)
    assert follow(iter([status(records=0, lag_records=0), status(records=60, lag_records=0), done])) == done


def test_all_records_read_with_lag_left_is_not_the_end() -> None:
    done = status(records=101, lag_records=0, dead_lettered=3)
    assert follow(iter([status(records=100, lag_records=1), done])) == done


def test_after_a_change_of_drivers_the_consumer_group_decides() -> None:
    second = status(records=10, lag_records=0, generation=2)
    answers, clock = iter([False, True]), Clock()
    assert follow(repeat(second), clock, group=lambda: next(answers)) == second
    assert FIGURES_SECONDS < clock.now < FIGURES_SECONDS + 10, "the figures of the first driver never come"


def test_the_last_status_has_the_dead_letters_that_were_counted_after_the_last_record() -> None:
    read = status(records=100, lag_records=0, dead_lettered=1)
    last = read.replace(dead_lettered=3)
    assert follow(iter([read, read, last])) == last


def stalled() -> PipelineStatus:
    condition = Condition(
        type="Stalled",
        status="True",
        reason="InvalidSql",
        message="view hourly",
        last_transition_time=datetime(2026, 1, 1, tzinfo=UTC),
    )
    return status(conditions=(condition,))


def test_a_stall_fails_at_once_with_its_reason() -> None:
    with pytest.raises(NotProcessedError, match="InvalidSql: view hourly"):
        follow(iter([stalled()]))


def forever(fields: Callable[[int], dict[str, Any]]) -> Iterator[PipelineStatus]:
    number = 0
    while True:
        yield status(**fields(number))
        number += 1


def test_it_fails_when_nothing_moves() -> None:
    clock = Clock()
    with pytest.raises(NotProcessedError, match="no progress for"):
        follow(forever(lambda n: {"records": 5, "lag_records": 95}), clock)
    assert PATIENCE_SECONDS < clock.now < PATIENCE_SECONDS + 10


def test_it_fails_when_it_takes_too_long_however_much_moves() -> None:
    clock = Clock()
    with pytest.raises(NotProcessedError, match="after 900 s"):
        follow(forever(lambda n: {"records": 5, "lag_records": n + 1}), clock)
    assert DEADLINE_SECONDS < clock.now < DEADLINE_SECONDS + 10


def test_a_line_has_records_lag_batch_and_rate() -> None:
    line = say_status(
        status(state="Running", records=60, lag_records=40, batch=3, rate="12k/s", dead_lettered=2), TARGET
    )
    assert line == "Running: records in 60 of 100 · lag 40 · batch 3 · rate 12k/s · dead letters 2"


def test_before_the_first_progress_the_line_shows_what_it_waits_for() -> None:
    assert say_status(stalled(), TARGET) == "new: waiting for the operator"
