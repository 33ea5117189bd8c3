"""When a changed revision has shown that it works, and when it is to be taken back, one situation a test."""

from datetime import timedelta
from typing import Any

import pytest

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.pipeline_status import FirstBatch, Health, Restarts, UpgradePhase, UpgradeStatus
from kappa_crds.progress import DriverState, Progress
from kappa_operator.engine.keys import Key
from kappa_operator.pipeline.progress_cache import LONGEST_GAP, SAMPLES, ProgressCache, Samples
from kappa_operator.pipeline.revision import strip_operational
from kappa_operator.pipeline.upgrade.rollback import (
    adds_executors,
    find_failure,
    is_healthy,
    note_first_batches,
)
from unit.control.pipelines import NOW, SPEC, running, sample, sample_all

SINCE = timedelta(minutes=4)
LATE = timedelta(minutes=6)
FIRST = Health(lag=1000, batches=(FirstBatch(sink="log", batch=42),))


def at(batch: int, lag: int, rows: int = 0, **fields: Any) -> Progress:
    """Return the progress of a driver at this batch and so many records behind."""
    base = running(2, **fields)
    query = base.queries[0]
    source = query.sources[0].replace(latest_offsets={"in": {0: 90 + lag}})
    return base.replace(queries=(query.replace(batch_id=batch, input_rows=rows, sources=(source,)),))


def judge(progress: Progress | None, after: timedelta, health: Health | None = FIRST, **more: Any) -> str:
    """Return why the revision is taken back, or nothing."""
    change = UpgradeStatus(phase=UpgradePhase.WATCHING, revision="new", health=health, since=NOW)
    restarts = Restarts(**more.pop("restarts", {}))
    spec = PipelineSpec.model_validate({**SPEC, **more})
    return find_failure(change, restarts, sample(progress, after), spec, NOW + after) or ""


def test_the_first_batches_are_noted_once_every_query_has_one() -> None:
    assert note_first_batches(Health(lag=5), at(-1, 10)) == Health(lag=5)
    noted = note_first_batches(Health(lag=5), at(42, 10))
    assert noted == Health(lag=10, batches=(FirstBatch(sink="log", batch=42),))
    assert note_first_batches(noted, at(43, 500)) == noted


def test_what_was_waiting_at_the_handover_counts_where_it_was_more() -> None:
    assert note_first_batches(Health(lag=900), at(42, 10)).lag == 900


@pytest.mark.parametrize(
    ("progress", "healthy"),
    [
        (at(42, 0), True),
        (at(-1, 0), True),
        (at(42, 10), False),
        (at(43, 10), True),
        (at(43, 1100), True),
        (at(43, 1101), False),
        (at(43, 1300, rows=200), True),
    ],
)
def test_it_works_when_batches_follow_each_other_and_the_lag_is_not_above_what_it_was(
    progress: Progress, healthy: bool
) -> None:
    assert is_healthy(FIRST, progress) is healthy


def test_lag_that_grows_is_no_reason_to_take_executors_away_again() -> None:
    def specify(count: int, **more: Any) -> PipelineSpec:
        return PipelineSpec.model_validate({**SPEC, "resources": {"executors": {"count": count}}, **more})

    before = strip_operational(specify(1))
    assert adds_executors(before, specify(3, restartNonce="again", restart={"maxDelay": "5s"}))
    assert not adds_executors(strip_operational(specify(3)), specify(1))
    assert not adds_executors(before, specify(3, trigger={"interval": "1h"}))
    assert not adds_executors(None, specify(3))
    change = UpgradeStatus(phase=UpgradePhase.WATCHING, revision="new", health=FIRST, since=NOW)
    grown = at(43, 9000)
    said = find_failure(change, Restarts(), sample(grown, LATE), specify(3), NOW + LATE)
    assert said == "its lag grew from 1k to 9k records within 5m (spec.upgrade.healthTimeout)"
    assert find_failure(change, Restarts(), sample(grown, LATE), specify(3), NOW + LATE, by_lag=False) is None
    assert is_healthy(FIRST, grown, by_lag=False)
    assert not is_healthy(FIRST, at(42, 9000), by_lag=False), "batches have to follow each other all the same"


def test_a_driver_that_does_not_know_the_ends_of_its_topics_yet_has_not_shown_anything() -> None:
    fresh = at(-1, 0)
    source = fresh.queries[0].sources[0].replace(latest_offsets={})
    unknown = fresh.replace(queries=(fresh.queries[0].replace(sources=(source,)),))
    assert not is_healthy(FIRST, unknown)
    assert judge(unknown, LATE) == "", "nor that it does not work"


def test_each_query_needs_a_second_batch() -> None:
    both = at(43, 10)
    other = both.queries[0].replace(sink="more", batch_id=7)
    first = FIRST.replace(batches=(*FIRST.batches, FirstBatch(sink="more", batch=7)))
    assert not is_healthy(first, both.replace(queries=(*both.queries, other)))
    assert is_healthy(first, both.replace(queries=(*both.queries, other.replace(batch_id=8))))


def test_a_crash_loop_does_not_wait_for_the_time_to_be_over() -> None:
    crashed = {"crashes": 2, "last_reason": "DriverCrashed", "last_failure": "out of luck"}
    assert judge(None, timedelta(0), restarts=crashed) == "DriverCrashed: out of luck"
    assert judge(None, timedelta(0), restarts={**crashed, "crashes": 1}) == ""


@pytest.mark.parametrize(
    ("progress", "why"),
    [
        (None, "it did not run within 5m"),
        (at(42, 10, state=DriverState.STARTING), "it did not run within 5m"),
        (at(-1, 10), "it committed no batch within 5m"),
        (at(42, 10), "it committed a first batch, and no other one within 5m"),
        (at(50, 5000), "its lag grew from 1k to 5k records within 5m"),
        (at(50, 1000), ""),
        (at(42, 0), ""),
    ],
)
def test_when_the_time_is_over_it_is_judged_by_what_it_has_shown(progress: Progress | None, why: str) -> None:
    assert judge(progress, SINCE) == ""
    assert judge(progress, LATE).removesuffix(" (spec.upgrade.healthTimeout)") == why


@pytest.mark.parametrize(
    "trigger", [{"interval": "10m"}, {"interval": "3m"}, {"realTime": {"checkpointInterval": "4m"}}]
)
def test_where_two_batches_do_not_fit_into_the_time_one_is_enough(trigger: dict[str, Any]) -> None:
    assert judge(at(42, 10), LATE, trigger=trigger) == ""
    assert "no batch" in judge(at(-1, 10), LATE, trigger=trigger)


def test_two_batches_that_just_fit_are_required() -> None:
    assert "no other one" in judge(at(42, 10), LATE, trigger={"interval": "150s"})


WATCHED = UpgradeStatus(phase=UpgradePhase.WATCHING, revision="new", health=FIRST, since=NOW)
PLAIN = PipelineSpec.model_validate(SPEC)


def find(samples: Samples, change: UpgradeStatus = WATCHED) -> str | None:
    return find_failure(change, Restarts(), samples, PLAIN, samples.until)


@pytest.mark.parametrize("missed", range(1, SAMPLES))
def test_samples_that_were_missed_are_no_verdict(missed: int) -> None:
    working = [at(43, 10)] * 60
    assert find(sample_all([*working, *[None] * missed], NOW)) is None
    assert find(sample_all([*working, *[None] * SAMPLES], NOW)) is not None


def test_a_sample_that_was_answered_between_those_that_were_missed_shows_that_it_runs() -> None:
    assert find(sample_all([*[None] * 60, at(43, 10), None], NOW)) is None


@pytest.mark.parametrize("away", [timedelta(hours=1), timedelta(days=30)])
@pytest.mark.parametrize("shown", [None, at(-1, 10), at(42, 10), at(50, 5000)])
def test_the_time_counts_from_the_first_sample_where_the_operator_was_away(
    away: timedelta, shown: Progress | None
) -> None:
    minutes = [shown] * 6  # samples of one minute
    assert find(sample_all(minutes, NOW + away)) is None
    assert find(sample_all(minutes * 6, NOW + away)) is not None


def test_a_gap_between_samples_starts_the_time_again() -> None:
    cache, key = ProgressCache(), Key("Pipeline", "shop", "delays")
    for seconds in range(0, 290, 10):
        cache.record(key, 2, NOW + timedelta(seconds=seconds), None)
    back = NOW + timedelta(seconds=280) + LONGEST_GAP + timedelta(hours=1)
    for seconds in range(0, 100, 10):
        samples = cache.record(key, 2, back + timedelta(seconds=seconds), None)
        assert find(samples) is None
    assert samples.since == back


def test_another_generation_has_samples_of_its_own() -> None:
    cache, key = ProgressCache(), Key("Pipeline", "shop", "delays")
    cache.record(key, 1, NOW, None)
    assert cache.record(key, 2, NOW + timedelta(seconds=5), None).since == NOW + timedelta(seconds=5)


def test_reconciles_that_follow_each_other_at_once_are_one_sample() -> None:
    cache, key = ProgressCache(), Key("Pipeline", "shop", "delays")
    for milliseconds in range(0, 1000, 100):
        samples = cache.record(key, 2, NOW + timedelta(milliseconds=milliseconds), None)
    assert len(samples.last) == 1


def test_a_clock_that_jumps_ahead_is_a_gap_and_one_that_jumps_back_is_none() -> None:
    cache, key = ProgressCache(), Key("Pipeline", "shop", "delays")
    cache.record(key, 2, NOW, None)
    assert cache.record(key, 2, NOW + timedelta(days=1), None).since == NOW + timedelta(days=1)
    assert find(cache.record(key, 2, NOW, None)) is None
