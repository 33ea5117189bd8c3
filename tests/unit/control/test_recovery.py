"""How long a start took, as the status says it, and what the next one would take."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from kappa_crds.pipeline_status import PipelineStatus
from kappa_crds.progress import Progress, Recovery
from kappa_operator.pipeline.decide import decide_pipeline
from kappa_operator.pipeline.progress import build_recovery
from unit.control.pipelines import NOW, observed, pod, running, started

SINCE = NOW - timedelta(minutes=1)


def progress(*, state_rows: int = 1000, rate: float = 5.0, **fields: Any) -> Progress:
    """Return what a driver says that took 10 seconds from its process on, 6 of them before its first batch."""
    measured = {
        "since": SINCE,
        "seconds": 10.0,
        "prepare_seconds": 6.0,
        "state_seconds": 2.0,
        "state_rows": 1000,
        "records": 90,
    }
    said = running(recovery=Recovery(**{**measured, **fields}))
    query = said.queries[0].replace(state_rows=state_rows, processed_rows_per_second=rate)
    return said.replace(queries=(query,))


def look(said: Progress, **status: Any) -> PipelineStatus:
    made = pod(created=SINCE - timedelta(seconds=4))
    plan = decide_pipeline(replace(observed(started(**status), made), progress=said), NOW)
    assert isinstance(plan.status, PipelineStatus)
    return plan.status


def test_a_start_counts_from_its_pod_to_the_first_batches() -> None:
    recovery = look(progress()).recovery
    assert recovery is not None
    assert (recovery.generation, recovery.took, recovery.seconds, recovery.prepare_seconds) == (
        1,
        "14s",
        14.0,
        10.0,
    )
    assert (recovery.state_seconds, recovery.state_rows, recovery.records) == (2.0, 1000, 90)


def test_the_next_one_takes_as_long_with_the_state_and_the_lag_of_now() -> None:
    recovery = look(progress(state_rows=3000)).recovery
    assert recovery is not None
    assert recovery.expected_seconds == 10 + 3 * 2 + 10 / 5


def test_where_the_rate_is_not_known_catching_up_is_not_counted() -> None:
    recovery = look(progress(rate=0.0)).recovery
    assert recovery is not None
    assert recovery.expected_seconds == 12


def test_a_warm_start_counts_from_the_handover_and_knows_a_cold_one_by_the_last() -> None:
    recovery = look(progress(warm=True, seconds=1.5, prepare_seconds=0.5)).recovery
    assert recovery is not None
    assert (recovery.warm, recovery.took, recovery.expected_seconds) == (True, "1.5s", None)
    before = look(progress()).recovery
    assert before is not None
    recovery = look(progress(warm=True), recovery=before.to_manifest()).recovery
    assert recovery is not None
    assert (recovery.prepare_seconds, recovery.expected_seconds) == (10.0, 14)


def test_until_a_start_is_complete_the_previous_value_stays() -> None:
    before = look(progress()).recovery
    assert before is not None
    starting = replace(observed(started(recovery=before.to_manifest()), pod()), progress=running())
    assert build_recovery(starting, pod(), running()) == before


def test_clocks_that_differ_make_no_start_shorter_than_it_was() -> None:
    made = pod(created=SINCE + timedelta(seconds=9))
    found = build_recovery(observed(started(), made), made, progress())
    assert found is not None
    assert found.seconds == 10.0
