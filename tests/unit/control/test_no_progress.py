"""A pipeline whose batches have stopped shows it, with since when; its rate ages with the time since the last batch."""

from datetime import timedelta
from typing import Any

import pytest

from kappa_crds.conditions import find_condition
from kappa_crds.pipeline_status import PipelineStatus
from kappa_crds.progress import Progress
from kappa_crds.reasons import Reason
from kappa_operator.pipeline.decide import decide_pipeline
from kappa_operator.pipeline.progress import find_pause
from unit.control.pipelines import NOW, observed, pod, running, started

BATCH = {"triggerExecution": 2000}


def progress(*, lag: int = 10, **fields: Any) -> Progress:
    """Return the progress of a driver whose last batch of 2,400 records began at NOW and took two seconds."""
    known = running()
    (query,) = known.queries
    (source,) = query.sources
    ahead = source.replace(latest_offsets={"in": {0: 90 + lag}})
    query = query.replace(input_rows=2400, duration_ms=BATCH, sources=(ahead,), **fields)
    return known.replace(queries=(query,))


def status_after(seconds: float, reported: Progress) -> PipelineStatus:
    plan = decide_pipeline(observed(started(), pod(), progress=reported), NOW + timedelta(seconds=seconds))
    assert isinstance(plan.status, PipelineStatus)
    return plan.status


def ready_of(status: PipelineStatus) -> tuple[str, str, str]:
    ready = find_condition(status.conditions, "Ready")
    assert ready is not None
    return ready.status, ready.reason, ready.message


def test_batches_that_have_stopped_while_records_wait_are_reported_with_since_when() -> None:
    ready, reason, message = ready_of(status_after(75, progress()))
    assert (ready, reason) == ("Unknown", Reason.NO_PROGRESS)
    assert "12:00:02" in message
    assert "batch 42" in message


@pytest.mark.parametrize("seconds", [0, 3, 10])
def test_a_batch_that_is_under_way_is_progress(seconds: float) -> None:
    status = status_after(seconds, progress())
    assert ready_of(status)[:2] == ("True", Reason.RUNNING)
    assert status.rate == "1.2k/s"


def test_a_pipeline_that_has_nothing_to_read_makes_progress_at_a_rate_of_nothing() -> None:
    status = status_after(3600, progress(lag=0))
    assert ready_of(status)[:2] == ("True", Reason.RUNNING)
    assert status.rate == "0/s"


def test_a_rate_without_a_new_batch_comes_from_the_time_since_the_last_one() -> None:
    assert [status_after(seconds, progress()).rate for seconds in (40, 80, 2400)] == ["60/s", "30/s", "1/s"]


def test_batches_that_start_seldom_are_no_pause() -> None:
    spec = started({"trigger": {"interval": "10m"}}).spec
    assert find_pause(progress(), spec, NOW + timedelta(seconds=590)) is None
    assert find_pause(progress(), spec, NOW + timedelta(seconds=650)) == NOW + timedelta(seconds=2)


def test_a_query_without_a_batch_is_not_judged_by_its_age() -> None:
    assert ready_of(status_after(3600, progress(batch_id=-1)))[1] == Reason.RUNNING


def test_a_driver_whose_clock_differs_from_the_operators_is_judged_by_its_own() -> None:
    behind = progress().replace(reported_at=NOW + timedelta(seconds=3))
    assert ready_of(status_after(3600, behind))[1] == Reason.RUNNING
    stopped = progress().replace(reported_at=NOW + timedelta(seconds=75))
    assert ready_of(status_after(-3600, stopped))[1] == Reason.NO_PROGRESS
