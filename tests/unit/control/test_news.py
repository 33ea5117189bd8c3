"""The status of a running pipeline is written on news, and its figures twice a minute."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from kappa_crds.pipeline_status import PipelineStatus
from kappa_crds.progress import Progress, QueryProgress
from kappa_crds.reasons import Reason
from kappa_operator.engine.plan import Verdict
from kappa_operator.pipeline.decide import decide_pipeline
from kappa_operator.pipeline.pace import IDLE
from unit.control.lives import PIPELINE, SPEC, Life, write
from unit.control.pipelines import NOW, observed, pod, running, started

SECOND = timedelta(seconds=1)


def report(batch: int, rate: float = 1200.0, **fields: Any) -> Progress:
    base = running()
    query: QueryProgress = base.queries[0].replace(
        batch_id=batch, timestamp=NOW, total_input_rows=batch * 10, processed_rows_per_second=rate
    )
    return base.replace(queries=(query,), **fields)


def write_first() -> PipelineStatus:
    """Return the status after the first look at a running driver."""
    plan = decide_pipeline(observed(started(), pod(), progress=report(42)), NOW)
    assert isinstance(plan.status, PipelineStatus)
    return plan.status


def decide(
    status: PipelineStatus, after: timedelta, progress: Progress, **fields: Any
) -> PipelineStatus | None:
    resource = started().replace(status=status)
    plan = decide_pipeline(observed(resource, pod(), progress=progress, **fields), NOW + after)
    assert plan.status is None or isinstance(plan.status, PipelineStatus)
    return plan.status


def test_figures_that_changed_are_not_written_at_once() -> None:
    assert decide(write_first(), 3 * SECOND, report(43, rate=900.0)) is None


def test_figures_that_changed_are_written_after_half_a_minute() -> None:
    status = decide(write_first(), 30 * SECOND, report(50))
    assert status is not None
    assert (status.batch, status.measured_at) == (50, NOW + 30 * SECOND)


def test_a_pipeline_that_stays_as_it_is_needs_no_write() -> None:
    assert decide(write_first(), 3600 * SECOND, report(42, reported_at=NOW)) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"dependencies": Verdict("Pending", Reason.CLUSTER_NOT_READY, "KafkaCluster main is not ready")},
        {"progress": report(43, dead_lettered=0).replace(generation=7)},
    ],
)
def test_a_change_of_what_is_reported_is_written_at_once(changed: dict[str, Any]) -> None:
    fields = {"progress": report(43), **changed}
    assert decide(write_first(), 3 * SECOND, **fields) is not None


def test_the_first_unreadable_record_is_news_and_the_second_is_not() -> None:
    first = report(43)
    query = first.queries[0]
    status = decide(write_first(), SECOND, first.replace(queries=(query.replace(total_malformed_rows=1),)))
    assert status is not None
    assert "1 unreadable" in status.conditions[0].message
    second = first.replace(queries=(query.replace(total_malformed_rows=2),))
    assert decide(status, 2 * SECOND, second) is None


async def test_a_pipeline_that_runs_for_a_minute_is_written_twice() -> None:
    life = Life()
    await life.prepare()
    write(SPEC)(life)
    await life.settle()
    (address, progress), *_ = life.operator.drivers.progress.items()
    writes, batch = life.operator.cluster.fuse.writes, 100
    for _ in range(20):
        batch += 1
        life.operator.clock.advance(3.0)
        queries = report(batch).queries
        life.operator.drivers.progress[address] = progress.replace(queries=queries)
        await life.operator.reconcile(PIPELINE)
    assert life.operator.cluster.fuse.writes - writes == 2


@pytest.mark.parametrize(
    ("lag", "drivers", "seconds"),
    [
        (True, 1, 3.0),
        (True, 1000, 10.0),
        (True, 9000, 30.0),
        (False, 1, 10.0),
        (False, 1000, 1000 / 7),
        (False, 9000, 150.0),
    ],
)
def test_the_more_drivers_there_are_the_less_often_each_is_polled(
    lag: bool, drivers: int, seconds: float
) -> None:
    progress = report(42) if lag else report(42).replace(queries=())
    plan = decide_pipeline(observed(started(), pod(), progress=progress, drivers=drivers), NOW)
    assert plan.requeue_after is not None
    assert seconds / 2 <= plan.requeue_after <= seconds * 1.5
    if drivers == 1:
        assert plan.requeue_after == seconds


def test_drivers_that_were_polled_at_once_are_polled_in_small_groups_from_then_on() -> None:
    interval = IDLE.get_interval(1000)
    waits = [IDLE.get_wait(1000, f"shop/p{number}", NOW) for number in range(1000)]
    groups = Counter(round((NOW.timestamp() + wait) / IDLE.together, 3) for wait in waits)
    assert all(moment.is_integer() for moment in groups)
    assert max(groups.values()) <= 2 * IDLE.rate * IDLE.together
    assert len(groups) >= interval / IDLE.together
    for number, wait in enumerate(waits):
        then = NOW + timedelta(seconds=wait)
        again = IDLE.get_wait(1000, f"shop/p{number}", then)
        assert again == pytest.approx(interval, abs=IDLE.together)
