"""When a replay has caught up, from samples with noise, and whether retention is faster."""

import random
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import pytest

from kappa_operator.lag.model import Partition
from kappa_operator.log.eta import Eta, Pace, ReplaySample, estimate
from kappa_operator.log.facts import LogSettings
from kappa_operator.log.overtake import RaceSample, find_overtake, find_overtakes
from kappa_operator.log.rates import Point, measure_rate

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
ONE, TWO = Partition("flights", 1), Partition("flights", 2)


def after(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def run(
    position: Callable[[float], float], end: Callable[[float], float], seconds: Iterable[float]
) -> list[ReplaySample]:
    return [ReplaySample(after(at), int(position(at)), int(end(at))) for at in seconds]


def estimate_one(samples: list[ReplaySample], now: float) -> Eta:
    return estimate({ONE: samples}, after(now))


def test_the_time_left_is_the_rest_by_the_difference_of_both_rates() -> None:
    samples = run(lambda at: 1000 * at, lambda at: 1_000_000 + 200 * at, range(0, 101, 10))
    found = estimate_one(samples, 100)
    assert found.pace is Pace.CATCHING_UP
    assert found.at is not None
    assert (found.at - after(100)).total_seconds() == pytest.approx(920_000 / 800, rel=0.01)


def test_the_slowest_partition_decides() -> None:
    fast = run(lambda at: 1000 * at, lambda at: 100_000, range(0, 61, 10))
    slow = run(lambda at: 100 * at, lambda at: 100_000, range(0, 61, 10))
    found = estimate({ONE: fast, TWO: slow}, after(60))
    assert found.slowest is not None
    assert found.slowest.partition == TWO
    assert found.at == after(1000)
    assert found.message == (
        "caught up in about 15m40s, at 2026-01-01T00:16:40Z; slowest is partition 2 of flights with 94k records at 100/s while 0/s arrive"
    )


@pytest.mark.parametrize("seed", range(20))
def test_noise_and_one_pause_in_five_change_the_estimate_little(seed: int) -> None:
    rng = random.Random(seed)
    position, samples = 0.0, []
    for at in range(0, 600, 10):
        samples.append(ReplaySample(after(at), int(position), 10_000_000 + 500 * at))
        position += 0 if rng.random() < 0.2 else 10 * 5000 * rng.uniform(0.5, 1.5)
    found = estimate_one(samples, 590).slowest
    assert found is not None
    assert found.replayed == pytest.approx(4300, rel=0.25)
    assert found.arriving == pytest.approx(500, rel=0.01)


def test_large_batches_move_in_steps_and_the_rate_is_between_their_ends() -> None:
    samples = run(lambda at: 60_000 * (at // 60), lambda at: 600_000, range(5, 300, 5))
    found = estimate_one(samples, 299)
    assert found.slowest is not None
    assert found.slowest.replayed == pytest.approx(1000)
    assert found.at == after(600)


def test_a_partition_that_does_not_move_makes_no_progress() -> None:
    samples = run(lambda at: 1000 * min(at, 100), lambda at: 1_000_000, range(0, 400, 10))
    found = estimate_one(samples, 390)
    assert found.pace is Pace.NO_PROGRESS
    assert found.at is None
    assert found.message == (
        "partition 1 of flights makes no progress since 2026-01-01T00:01:40Z with 900k records to read"
    )


def test_a_partition_whose_batches_take_long_does_not_stand_still() -> None:
    samples = run(lambda at: 300_000 * (at // 300), lambda at: 3_000_000, range(0, 1000, 20))
    assert estimate_one(samples, 1150).pace is Pace.CATCHING_UP


def test_a_partition_that_gets_more_than_it_reads_never_catches_up() -> None:
    samples = run(lambda at: 1500 * at, lambda at: 1_000_000 + 2000 * at, range(0, 101, 10))
    found = estimate_one(samples, 100)
    assert found.pace is Pace.FALLS_BEHIND
    assert found.message.startswith(
        "never at this rate: partition 1 of flights is read at 1.5k/s and gets 2k/s"
    )


def test_a_partition_at_its_end_has_caught_up_although_records_arrive() -> None:
    samples = run(lambda at: 1000 * at - 900, lambda at: 1000 * at, range(10, 101, 10))
    found = estimate_one(samples, 100)
    assert (found.pace, found.at) == (Pace.CAUGHT_UP, after(100))
    assert found.message == "all 1 partitions have caught up"


def test_an_empty_partition_has_caught_up() -> None:
    assert estimate_one([ReplaySample(BEGIN, 0, 0)], 0).pace is Pace.CAUGHT_UP


def test_one_sample_is_too_few() -> None:
    found = estimate_one([ReplaySample(BEGIN, 0, 100)], 1)
    assert found.pace is Pace.UNKNOWN
    assert found.message.startswith("unknown yet")


def test_samples_before_a_step_back_do_not_count() -> None:
    before = run(lambda at: 5000 * at, lambda at: 1_000_000, range(0, 50, 10))
    later = run(lambda at: 1000 * (at - 50), lambda at: 1_000_000, range(60, 160, 10))
    found = estimate_one([*before, *later], 150).slowest
    assert found is not None
    assert found.replayed == pytest.approx(1000)


def test_a_clock_that_jumps_back_is_no_rate() -> None:
    samples = [
        ReplaySample(after(10), 10, 100),
        ReplaySample(after(10), 20, 100),
        ReplaySample(after(5), 5, 100),
    ]
    assert estimate_one(samples, 11).slowest is not None


def test_nothing_is_known_without_partitions() -> None:
    assert (estimate({}, BEGIN).pace, estimate({}, BEGIN).at) == (Pace.UNKNOWN, None)


def test_the_median_of_slopes_ignores_one_wrong_point() -> None:
    points = [Point(float(at), 10.0 * at) for at in range(10)]
    points[4] = Point(4.0, 1e9)
    assert measure_rate(points) == pytest.approx(10)


WEEK = LogSettings(retention=7 * 86_400.0)


def race(at: float, position: int, start: int = 0, age: float | None = None) -> RaceSample:
    """Return a sample; the age is that of the record at the position, at that time."""
    return RaceSample(after(at), position, start, None if age is None else after(at).timestamp() - age)


def test_a_replay_that_makes_no_progress_is_overtaken_when_its_record_is_too_old() -> None:
    samples = [race(at, 100, age=6 * 86_400.0 + at) for at in (0, 60)]
    found = find_overtake(ONE, samples, WEEK, after(60))
    assert found is not None
    assert found.at == after(86_400)
    assert found.describe(after(60)) == (
        "retention may remove records of partition 1 of flights in 23h59m that the replay has not read by then"
    )


def test_a_replay_that_reads_the_log_faster_than_time_passes_is_not_overtaken() -> None:
    samples = [race(at, 100 * at, age=6.9 * 86_400.0 - 50 * at) for at in range(1, 100, 10)]
    assert find_overtake(ONE, samples, WEEK, after(91)) is None


def test_a_slow_replay_is_overtaken_later_than_one_that_makes_no_progress() -> None:
    samples = [race(at, at, age=6 * 86_400.0 + 0.5 * at) for at in range(0, 101, 10)]
    found = find_overtake(ONE, samples, WEEK, after(100))
    assert found is not None
    assert (found.at - after(100)).total_seconds() == pytest.approx(2 * 86_400, rel=0.01)


def test_a_replay_that_is_done_before_is_not_overtaken() -> None:
    samples = [race(0, 100, age=6 * 86_400.0)]
    assert find_overtake(ONE, samples, WEEK, BEGIN, done=after(3600)) is None


def test_offsets_that_are_gone_are_lost() -> None:
    found = find_overtake(ONE, [race(0, 100, start=150)], WEEK, BEGIN)
    assert found is not None
    assert (found.at, found.lost) == (BEGIN, 50)
    assert "has removed 50 offsets" in found.describe(BEGIN)


def test_a_start_that_moves_without_retention_by_time_overtakes_too() -> None:
    samples = [race(at, 1000 + 10 * at, start=30 * at) for at in range(0, 11, 5)]
    found = find_overtake(ONE, samples, LogSettings(), after(10))
    assert found is not None
    assert (found.at - after(10)).total_seconds() == pytest.approx(800 / 20)


def test_one_removal_of_a_segment_counts() -> None:
    samples = [race(at, 1000, start=0 if at < 100 else 500) for at in range(0, 101, 10)]
    found = find_overtake(ONE, samples, LogSettings(), after(100))
    assert found is not None
    assert (found.at - after(100)).total_seconds() == pytest.approx(100)


@pytest.mark.parametrize("settings", [None, LogSettings(), LogSettings(deletes=False, compacts=True)])
def test_nothing_is_overtaken_where_nothing_is_removed(settings: LogSettings | None) -> None:
    assert find_overtake(ONE, [race(0, 5, age=1e9), race(10, 5, age=1e9)], settings, after(10)) is None


def test_the_most_urgent_partition_is_first_and_one_that_is_done_before_is_left_out() -> None:
    three = Partition("flights", 3)
    samples = {
        ONE: [race(0, 100, age=5 * 86_400.0)],
        TWO: [race(0, 100, age=6 * 86_400.0)],
        three: [race(0, 100, age=6.5 * 86_400.0)],
    }
    replay = [ReplaySample(after(at), at, 3700) for at in range(0, 101, 10)]
    eta = estimate({three: replay}, after(100))
    found = find_overtakes(samples, {"flights": WEEK}, BEGIN, eta)
    assert [each.partition for each in found] == [TWO, ONE]
