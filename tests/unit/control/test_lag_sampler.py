"""Sweeps over logs in memory: how little is asked, what is said where something cannot be known, and what is remembered."""

from datetime import UTC, datetime, timedelta

import pytest

from fakes.lag import GONE, FakeBrokers, FakeLog, FakeRetentions
from kappa_operator.lag.forecast import Retention
from kappa_operator.lag.model import ClusterSample, GroupPartition, Partition, Sample
from kappa_operator.lag.sampler import Sampler

START = datetime(2026, 1, 1, tzinfo=UTC)
T0, T1 = Partition("t", 0), Partition("t", 1)
PAIR = GroupPartition("g", T0)
WEEK = 7 * 86_400.0


class Stage:
    """A cluster with a sampler and clocks that a test turns; `count` partitions of topic t with a record each 40 ms."""

    def __init__(self, count: int = 2, records: int = 1000) -> None:
        self.seconds = 0.0
        self.jump = timedelta()
        self.brokers = FakeBrokers()
        for number in range(count):
            log = FakeLog()
            self.brokers.logs[Partition("t", number)] = log
            self.append(log, records)
        self.retention = FakeRetentions(Retention(known=True, time=WEEK))
        self.sampler = self.build()

    def build(self) -> Sampler:
        return Sampler(
            self.brokers,  # type: ignore[arg-type]
            self.retention,  # type: ignore[arg-type]
            now=lambda: START + timedelta(seconds=self.seconds) + self.jump,
            monotonic=lambda: 1000.0 + self.seconds,
        )

    def append(self, log: FakeLog, records: int, apart: float = 0.04) -> None:
        """Write records that end now."""
        first, now = log.end, START.timestamp() + self.seconds
        for index in range(records):
            log.stamps[first + index] = int((now - apart * (records - index)) * 1000)

    def commit(self, offset: int, partition: Partition = T0, group: str = "g") -> None:
        self.brokers.commits.setdefault(group, {})[partition] = offset

    def wait(self, seconds: float) -> None:
        """Let time pass while records come in every partition."""
        self.seconds += seconds
        for log in self.brokers.logs.values():
            self.append(log, round(seconds / 0.04))

    async def sample(self) -> ClusterSample:
        self.brokers.questions = self.brokers.rounds = self.brokers.looks = 0
        return await self.sampler.sample()

    async def look(self, pair: GroupPartition = PAIR) -> Sample:
        return (await self.sample()).samples[pair]

    def age_of(self, offset: int, partition: Partition = T0) -> float:
        return START.timestamp() + self.seconds - self.brokers.logs[partition].stamps[offset] / 1000


async def test_records_and_time_are_sampled_and_other_partitions_of_the_topic_have_no_commit() -> None:
    stage = Stage()
    stage.commit(400)
    sampled = await stage.sample()
    found = sampled.samples[PAIR]
    assert (found.lag, found.committed, found.bound) == (600, 400, False)
    assert found.behind == pytest.approx(stage.age_of(400), abs=0.8)
    assert found.loss == pytest.approx(WEEK - stage.age_of(400), abs=0.8)
    other = sampled.samples[GroupPartition("g", T1)]
    assert (other.committed, other.behind, other.loss) == (None, None, None)
    assert sampled.groups == {"g"}
    assert set(sampled.logs) == {T0, T1}
    assert sampled.failure is None


async def test_a_group_without_progress_is_requested_once() -> None:
    stage = Stage()
    stage.commit(400)
    await stage.sample()
    assert stage.brokers.rounds > 0
    for _ in range(3):
        stage.wait(30)
        assert (await stage.look()).behind == pytest.approx(stage.age_of(400), abs=0.8)
        assert stage.brokers.rounds == 0


async def test_who_moves_through_what_was_seen_coming_takes_at_most_three_rounds() -> None:
    stage = Stage(count=20)
    offsets = {Partition("t", number): 900 + 5 * number for number in range(20)}
    for partition, offset in offsets.items():
        stage.commit(offset, partition)
    await stage.sample()
    for step in range(1, 4):
        stage.wait(30)
        for partition, offset in offsets.items():
            stage.commit(offset + 750 * step, partition)
        sampled = await stage.sample()
        assert stage.brokers.rounds <= 3
        for partition, offset in offsets.items():
            age = stage.age_of(offset + 750 * step, partition)
            assert sampled.samples[GroupPartition("g", partition)].behind == pytest.approx(age, abs=0.8)


async def test_what_is_not_found_in_time_is_unknown_and_found_later() -> None:
    stage = Stage()
    stage.sampler = Sampler(
        stage.brokers,  # type: ignore[arg-type]
        stage.retention,  # type: ignore[arg-type]
        now=lambda: START,
        monotonic=lambda: 0.0,
        patience=-1.0,
    )
    stage.commit(400)
    assert (await stage.look()).behind is None
    stage.sampler = stage.build()
    assert (await stage.look()).behind is not None


async def test_groups_at_different_offsets_of_a_partition_are_all_reported() -> None:
    stage = Stage()
    for number in range(30):
        stage.commit(number * 33, group=f"g{number}")
    sampled = await stage.sample()
    for number in range(30):
        found = sampled.samples[GroupPartition(f"g{number}", T0)]
        assert found.behind == pytest.approx(stage.age_of(number * 33), abs=0.8)


async def test_a_partition_that_cannot_be_read_is_unknown_and_the_others_are_not() -> None:
    stage = Stage()
    stage.commit(400)
    stage.commit(1000, T1)
    stage.brokers.logs[T0].trouble = "the broker says NOT_LEADER_FOR_PARTITION"
    sampled = await stage.sample()
    assert sampled.unknown == {PAIR: "the broker says NOT_LEADER_FOR_PARTITION"}
    assert set(sampled.unavailable) == {T0}
    assert sampled.samples[GroupPartition("g", T1)].lag == 0
    stage.brokers.logs[T0].trouble = ""
    assert (await stage.look()).lag == 600


async def test_a_group_that_may_not_be_read_is_unknown_in_all_that_was_known_of_it() -> None:
    stage = Stage()
    stage.commit(400)
    stage.commit(5, group="other")
    await stage.sample()
    why = "the broker says GROUP_AUTHORIZATION_FAILED"
    stage.brokers.unread["g"] = why
    for _ in range(2):
        sampled = await stage.sample()
        assert (sampled.unread, sampled.unknown) == ({"g": why}, {PAIR: why, GroupPartition("g", T1): why})
        assert GroupPartition("other", T0) in sampled.samples


async def test_the_groups_of_a_broker_that_is_away_are_missed_and_those_that_vanish_are_not() -> None:
    stage = Stage()
    stage.commit(400)
    stage.commit(5, group="other")
    stage.brokers.homes["other"] = 2
    await stage.sample()
    stage.brokers.silent[2] = "broker 2 does not answer"
    del stage.brokers.commits["g"]
    sampled = await stage.sample()
    assert sampled.groups == {"other"}
    assert sampled.unread == {"other": "broker 2 does not answer"}
    assert sampled.unknown[GroupPartition("other", T0)] == "broker 2 does not answer"
    assert not sampled.samples
    del stage.brokers.silent[2]
    assert (await stage.look(GroupPartition("other", T0))).lag == 995


async def test_the_groups_of_a_broker_that_is_gone_are_missed_until_another_one_lists_them() -> None:
    stage = Stage()
    stage.commit(400)
    stage.brokers.homes["g"] = 2
    await stage.sample()
    stage.brokers.numbers = (1,)
    for _ in range(2):
        sampled = await stage.sample()
        assert sampled.unread == {"g": "broker 2, the coordinator of the group, is unavailable"}
        assert PAIR in sampled.unknown
    stage.brokers.homes["g"] = 1
    sampled = await stage.sample()
    assert (sampled.samples[PAIR].lag, sampled.unread, sampled.unknown) == (600, {}, {})


async def test_a_share_that_is_refused_alone_is_unknown_alone() -> None:
    stage = Stage()
    stage.commit(5, T1)
    stage.brokers.refused[PAIR] = "the broker says TOPIC_AUTHORIZATION_FAILED"
    sampled = await stage.sample()
    assert sampled.unknown == stage.brokers.refused
    assert set(sampled.samples) == {GroupPartition("g", T1)}


async def test_a_topic_deleted_during_a_sample_is_unknown() -> None:
    stage = Stage()
    stage.commit(400)
    gone = stage.brokers.read_logs

    async def delete_first(leaders: object) -> object:
        stage.brokers.logs.clear()
        return await gone(leaders)  # type: ignore[arg-type]

    stage.brokers.read_logs = delete_first  # type: ignore[assignment, method-assign]
    assert (await stage.sample()).unknown == {PAIR: GONE}
    sampled = await stage.sample()
    assert sampled.unknown == {PAIR: "the topic was deleted, or this user has no permission to describe it"}


async def test_a_cluster_that_is_away_leaves_nothing_known_and_nothing_forgotten() -> None:
    stage = Stage()
    stage.commit(400)
    await stage.sample()
    stage.brokers.away = True
    for _ in range(2):
        sampled = await stage.sample()
        assert not sampled.samples
        assert set(sampled.unknown) == {PAIR, GroupPartition("g", T1)}
        assert sampled.groups == {"g"} == set(sampled.unread)
        assert sampled.failure is not None
        assert "nobody is there" in sampled.failure
    stage.brokers.away = False
    assert (await stage.look()).lag == 600


async def test_old_values_of_a_recreated_topic_are_dropped() -> None:
    stage = Stage()
    stage.commit(400)
    await stage.sample()
    stage.seconds = 3600.0
    fresh = FakeLog()
    stage.append(fresh, 2000)
    stage.brokers.logs = {T0: fresh}
    stage.brokers.ids["t"] = b"2"
    assert (await stage.look()).behind == pytest.approx(stage.age_of(400), abs=0.8)


async def test_a_group_before_a_known_marker_has_no_lag() -> None:
    stage = Stage(records=999)
    log = stage.brokers.logs[T0]
    stage.append(log, 1)
    log.markers.add(999)
    stage.commit(999)
    first = await stage.look()
    assert (first.lag, stage.brokers.looks) == (1, 0)
    found = await stage.look()
    assert (found.lag, found.behind, found.loss) == (0, 0.0, None)
    await stage.sample()
    assert stage.brokers.looks == 0


async def test_a_marker_at_the_front_does_not_make_what_follows_older() -> None:
    stage = Stage(records=999)
    log = stage.brokers.logs[T0]
    stage.append(log, 1)
    log.markers.add(999)
    stage.commit(999)
    stage.seconds = 600.0
    stage.append(log, 50)
    await stage.sample()
    found = await stage.look()
    assert (found.lag, found.bound) == (50, True)
    assert found.behind == pytest.approx(stage.age_of(1000), abs=0.8)


async def test_without_read_permission_markers_are_not_requested_again_and_lag_is_a_bound() -> None:
    stage = Stage()
    stage.brokers.may_read = False
    stage.commit(990)
    await stage.sample()
    await stage.sample()
    assert stage.brokers.looks == 1
    found = await stage.look()
    assert (found.lag, found.bound, stage.brokers.looks) == (10, True, 0)


async def test_an_open_transaction_ends_what_counts_for_those_who_wait_for_it() -> None:
    stage = Stage()
    stage.brokers.logs[T0].open_from = 900
    stage.commit(400)
    stage.commit(950, group="hasty")
    sampled = await stage.sample()
    assert sampled.samples[PAIR].lag == 500
    assert sampled.samples[GroupPartition("hasty", T0)].lag == 50


@pytest.mark.parametrize("jump", [timedelta(days=-1), timedelta(days=400), timedelta(seconds=-30)])
async def test_a_clock_jump_makes_nothing_negative_and_recovers(
    jump: timedelta,
) -> None:
    stage = Stage()
    stage.commit(400)
    await stage.sample()
    stage.wait(30)
    stage.jump = jump
    found = await stage.look()
    assert found.behind is None or found.behind >= 0
    assert found.loss is None or found.loss >= 0
    stage.jump = timedelta()
    assert (await stage.look()).behind == pytest.approx(stage.age_of(400), abs=0.8)


async def test_a_log_that_is_cut_by_hand_is_forecast_by_its_speed() -> None:
    stage = Stage(records=20_000)
    stage.commit(10_000)
    for step in range(1, 11):
        stage.seconds += 30
        stage.brokers.logs[T0].start = step * 300
        found = await stage.look()
    # Ten offsets a second, and 7,001 to go.
    assert found.loss == pytest.approx(700.1, rel=0.05)
