"""What is made of what was gathered: records, time to loss, markers, and the history that a forecast rests on."""

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kappa_operator.lag.forecast import Retention, forecast_loss
from kappa_operator.lag.log_history import LogHistory, Removal
from kappa_operator.lag.markers import FEW, Batch, Markers
from kappa_operator.lag.model import GroupPartition, Partition, PartitionLog, Sample
from kappa_operator.lag.positions import Evidence, build_sample, find_pairs, place, skip_markers
from kappa_operator.lag.timestamps import Search

AT = datetime(2026, 1, 1, tzinfo=UTC)
T0, T1 = Partition("t", 0), Partition("t", 1)
GROUP = GroupPartition("g", T0)
DAY = 86_400.0
KEPT = Retention(known=True, time=7 * DAY)


def log(start: int, end: int, stable: int | None = None) -> PartitionLog:
    return PartitionLog(start, end, end if stable is None else stable)


def sample(committed: int | None, where: PartitionLog, empty: int = 0) -> Sample:
    return Sample(AT, where, committed, empty=empty)


@st.composite
def logs(draw: st.DrawFn) -> PartitionLog:
    start, stable, end = sorted(draw(st.lists(st.integers(0, 10**12), min_size=3, max_size=3)))
    return PartitionLog(start, end, stable)


@settings(max_examples=examples(300), deadline=None)
@given(logs(), st.none() | st.integers(0, 10**12), st.integers(0, 100))
def test_lag_is_never_negative_nor_more_than_the_log_holds(
    where: PartitionLog, committed: int | None, empty: int
) -> None:
    found = sample(committed, where, empty=empty)
    assert 0 <= found.lag <= where.end - where.start
    assert found.lost >= 0
    assert found.ahead >= 0


@pytest.mark.parametrize(
    ("committed", "where", "lag", "lost", "ahead"),
    [
        (10, log(0, 30), 20, 0, 0),
        (10, log(25, 30), 5, 15, 0),
        (30, log(0, 30), 0, 0, 0),
        (None, log(0, 30), 0, 0, 0),
        (10, log(0, 30, stable=20), 10, 0, 0),
        (25, log(0, 30, stable=20), 5, 0, 0),
        (40, log(0, 30), 0, 0, 10),
    ],
)
def test_records_are_counted_over_what_the_group_can_still_read(
    committed: int | None, where: PartitionLog, lag: int, lost: int, ahead: int
) -> None:
    found = sample(committed, where)
    assert (found.lag, found.lost, found.ahead) == (lag, lost, ahead)


def test_a_group_has_a_share_of_every_partition_of_the_topics_that_it_commits_to() -> None:
    found = dict(find_pairs({"g": {T0: 5}, "idle": {}}, {"t": [T0, T1], "u": [Partition("u", 0)]}))
    assert found == {GroupPartition("g", T0): 5, GroupPartition("g", T1): None}


def evidence(
    markers: Markers | None = None,
    found: int | None = None,
    offset: int = 0,
    secret: frozenset[str] = frozenset(),
) -> Evidence:
    search = Search(offset, 0, 0, 0, done=True, stamp=found)
    return Evidence(
        AT,
        {(T0, offset): search},  # type: ignore[dict-item]
        markers or Markers(),
        {"t": KEPT},
        lambda _: None,
        secret,
    )


def test_a_record_that_waits_has_an_age_and_a_time_to_loss() -> None:
    stamp = int((AT.timestamp() - 3600) * 1000)
    found = build_sample(place(GROUP, 10, log(0, 30)), evidence(found=stamp, offset=10))
    assert (found.lag, found.behind, found.loss) == (20, 3600.0, 7 * DAY - 3600)


def test_where_no_timestamp_is_known_neither_age_nor_loss_is() -> None:
    found = build_sample(place(GROUP, 10, log(0, 30)), evidence())
    assert (found.lag, found.behind, found.loss) == (20, None, None)


def test_who_has_read_all_is_not_behind_and_loses_nothing() -> None:
    found = build_sample(place(GROUP, 30, log(0, 30)), evidence())
    assert (found.lag, found.behind, found.loss) == (0, 0.0, None)


def test_a_group_ahead_of_the_log_is_not_up_to_date() -> None:
    found = build_sample(place(GROUP, 40, log(0, 30)), evidence())
    assert (found.lag, found.behind, found.ahead) == (0, None, 10)


def test_a_group_without_commits_is_not_up_to_date() -> None:
    assert build_sample(place(GROUP, None, log(0, 30)), evidence()).behind is None


def test_what_has_gone_is_lost_at_once_even_where_all_has_gone() -> None:
    found = build_sample(place(GROUP, 10, log(30, 30)), evidence())
    assert (found.lag, found.lost, found.loss) == (0, 20, 0.0)


def test_a_group_before_markers_only_has_no_lag() -> None:
    markers = Markers()
    for offset in (28, 29):
        markers.take(T0, Batch(offset, offset, True))
    position = skip_markers(place(GROUP, 28, log(0, 30)), markers)
    found = build_sample(position, evidence(markers))
    assert (found.lag, found.behind, found.loss) == (0, 0.0, None)


def test_markers_between_records_are_not_counted_and_others_may_be_there() -> None:
    markers = Markers()
    markers.take(T0, Batch(12, 12, True))
    found = build_sample(skip_markers(place(GROUP, 10, log(0, 14)), markers), evidence(markers))
    assert (found.lag, found.bound) == (3, True)


def test_without_permission_to_check_markers_lag_is_an_upper_bound() -> None:
    position = place(GROUP, 10, log(0, 14))
    assert not build_sample(position, evidence()).bound
    assert build_sample(position, evidence(secret=frozenset({"t"}))).bound


def test_all_of_few_offsets_and_a_part_of_many_are_checked_for_markers() -> None:
    markers = Markers()
    asked = []
    while (offset := markers.ask(T0, 10, 14)) is not None:
        asked.append(offset)
        markers.take(T0, Batch(offset, offset + (offset == 11), offset == 13))
    assert asked == [10, 11, 13]
    assert markers.count(T0, 10, 14) == 1
    assert markers.ask(T1, 10, 11 + FEW) == 10
    markers.take(T1, Batch(10, 10, True))
    assert markers.ask(T1, 10, 11 + FEW) == 11
    markers.take(T1, Batch(11, 11, False))
    assert markers.ask(T1, 10, 11 + FEW) is None


def test_of_old_offsets_only_the_presence_of_markers_is_kept() -> None:
    markers = Markers()
    for offset, is_marker in ((1, False), (2, True), (3, False), (9, False)):
        markers.take(T0, Batch(offset, offset, is_marker))
    markers.keep({T0: 5})
    assert (markers.is_transactional(T0), markers.ask(T0, 3, 4), markers.ask(T0, 9, 10)) == (True, 3, None)
    markers.keep({})
    assert not markers.is_transactional(T0)


HAND = Removal(start=1000, ago=2.0, rate=10.0)


@pytest.mark.parametrize(
    ("retention", "age", "removal", "oldest", "expected"),
    [
        (KEPT, DAY, None, None, 6 * DAY),
        (KEPT, 9 * DAY, None, None, 0.0),
        (KEPT, None, None, None, None),
        (Retention(known=True, deletes=False, compacts=True), DAY, HAND, None, None),
        (Retention(known=True), DAY, None, None, None),
        (Retention(known=True), DAY, HAND, None, (1500 + 1 - 1000) / 10 - 2),
        (Retention(), DAY, HAND, None, (1500 + 1 - 1000) / 10 - 2),
        (KEPT, DAY, HAND, DAY, (1500 + 1 - 1000) / 10 - 2),
        (KEPT, DAY, HAND, 7 * DAY, 6 * DAY),
        (Retention(known=True, time=7 * DAY, by_size=True), DAY, HAND, 7 * DAY, (1500 + 1 - 1000) / 10 - 2),
        (KEPT, 7 * DAY - 1, HAND, DAY, 1.0),
    ],
)
def test_what_comes_first_is_what_a_record_is_lost_by(
    retention: Retention,
    age: float | None,
    removal: Removal | None,
    oldest: float | None,
    expected: float | None,
) -> None:
    assert forecast_loss(1500, age, retention, removal, oldest) == expected


@settings(max_examples=examples(300), deadline=None)
@given(
    st.integers(0, 10**9),
    st.none() | st.floats(0, 1e9),
    st.none() | st.floats(0, 1e9),
    st.none() | st.builds(Removal, st.integers(0, 10**9), st.floats(0, 1e6), st.floats(1e-6, 1e6)),
)
def test_a_forecast_is_a_number_and_not_below_nothing(
    offset: int, age: float | None, time: float | None, removal: Removal | None
) -> None:
    found = forecast_loss(offset, age, Retention(known=True, time=time), removal)
    assert found is None or (math.isfinite(found) and found >= 0)


def test_configs_become_a_retention() -> None:
    assert Retention.parse({"cleanup.policy": "delete", "retention.ms": "1000", "retention.bytes": "-1"}) == (
        Retention(known=True, time=1.0)
    )
    both = Retention.parse({"cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "9"})
    assert both == Retention(known=True, compacts=True, by_size=True)


def test_a_start_that_moves_in_steps_has_the_speed_of_its_steps() -> None:
    looks = LogHistory()
    for second in range(0, 61):
        looks.add(float(second), {T0: log(second // 10 * 100, 10_000)})
    found = looks.measure_removal(T0)
    assert found is not None
    assert (found.start, found.ago) == (600, 0.0)
    assert found.rate == pytest.approx(10.0, rel=0.1)


def test_a_single_move_is_spread_over_what_was_seen_and_none_is_no_speed() -> None:
    looks = LogHistory()
    for second in range(0, 30, 10):
        looks.add(float(second), {T0: log(100 if second == 20 else 0, 1000), T1: log(0, 1000)})
    assert looks.measure_removal(T0) == Removal(100, 0.0, 5.0)
    assert looks.measure_removal(T1) is None


def test_the_arrival_of_a_record_is_estimated_between_two_samples() -> None:
    looks = LogHistory()
    looks.add(100.0, {T0: log(0, 1000)})
    looks.add(130.0, {T0: log(0, 1300)})
    looks.add(160.0, {T0: log(0, 1300)})
    assert looks.guess_time(T0, 1100) == 110.0
    assert looks.guess_time(T0, 500) is None
    assert looks.guess_time(T0, 1300) is None
    assert looks.guess_time(T1, 0) is None


def test_history_stays_small_and_reaches_back_far() -> None:
    looks = LogHistory()
    for number in range(5000):
        looks.add(number * 30.0, {T0: log(number, number + 100)})
    assert len(looks) == 32
    found = looks.guess_time(T0, 200)
    assert found is not None
    assert abs(found - 101 * 30) < 5000 * 30 / 10
    assert looks.guess_time(T0, 5098) == pytest.approx(4998 * 30.0, abs=60)


def test_of_a_log_that_has_become_shorter_nothing_is_remembered() -> None:
    looks = LogHistory()
    looks.add(0.0, {T0: log(0, 1000), T1: log(0, 10)})
    looks.add(1.0, {T0: log(0, 2000), T1: log(0, 20)})
    looks.add(2.0, {T0: log(0, 1500), T1: log(0, 30)})
    assert looks.guess_time(T0, 1200) is None
    assert looks.guess_time(T1, 15) == 0.5


def test_of_partitions_that_are_gone_memory_comes_back() -> None:
    looks = LogHistory()
    many = {Partition("t", number): log(0, 10) for number in range(100)}
    looks.add(0.0, many)
    looks.add(1.0, {T0: log(0, 20)})
    looks.keep([T0, T1])
    assert looks.guess_time(T0, 15) == 0.5
    assert looks.guess_time(Partition("t", 50), 5) is None
    looks.add(2.0, {Partition("u", 0): log(0, 5), T0: log(0, 30)})
    assert looks.guess_time(T0, 25) == 1.5
