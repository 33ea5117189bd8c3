"""The slices of time of a replay, for any log: they are in order, complete, small, and mix no times."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from kappa_pipelines.checkpoint.format.offsets import Offsets
from kappa_pipelines.driver.slices import Ends, Slice, count_records, find_slice

NOW = 10_000
Log = dict[int, list[int]]
"""The timestamps of the records of each partition of one topic."""


def read_ends(log: Log) -> Ends:
    return {"flights": {("flights", part): len(times) for part, times in log.items()}}


def slice_log(log: Log, most: int) -> list[Slice]:
    def lookup(milliseconds: int) -> Ends:
        found: Offsets = {}
        for part, times in log.items():
            later = (offset for offset, time in enumerate(times) if time >= milliseconds)
            if (first := next(later, None)) is not None:
                found["flights", part] = first
        return {"flights": found}

    found = [Slice({"flights": {("flights", part): 0 for part in log}}, 0)]
    while not found[-1].is_last:
        found.append(find_slice(found[-1].ends, read_ends(log), most, (found[-1].time, NOW), lookup))
        assert len(found) < 500, "a replay that never ends"
    return found


LOGS = st.dictionaries(
    st.integers(0, 3), st.lists(st.integers(1, NOW - 1), max_size=60).map(sorted), min_size=1, max_size=4
)


@given(log=LOGS, most=st.integers(1, 40))
def test_each_slice_has_all_records_up_to_one_time_and_no_other(log: Log, most: int) -> None:
    slices = slice_log(log, most)
    assert slices[-1].ends == read_ends(log)
    latest = -1
    for before, after in itertools.pairwise(slices):
        times = [
            time
            for (_, part), end in after.ends["flights"].items()
            for time in log[part][before.ends["flights"][_, part] : end]
        ]
        assert all(time >= latest for time in times)
        latest = max([latest, *times])
        assert len(times) <= most or len(set(times)) == 1
        assert after.is_last or times


@given(
    times=st.dictionaries(st.integers(0, 2), st.lists(st.integers(-1, 3 * NOW), max_size=40), min_size=1),
    most=st.integers(1, 20),
)
def test_timestamps_in_any_order_and_from_the_future_neither_stop_a_replay_nor_send_it_back(
    times: Log, most: int
) -> None:
    slices = slice_log(times, most)
    assert slices[-1].ends == read_ends(times)
    for before, after in itertools.pairwise(slices):
        assert all(after.ends["flights"][at] >= offset for at, offset in before.ends["flights"].items())
        assert after.is_last or count_records(before.ends, after.ends) > 0


def test_a_partition_that_was_added_is_read_at_the_time_of_the_others() -> None:
    slices = slice_log({0: list(range(0, 9000, 100)), 1: list(range(8100, 9000, 10))}, 20)
    counts = [tuple(each.ends["flights"].values()) for each in slices[1:]]
    assert all(second == 0 for first, second in counts if first <= 81)
    assert counts[-1] == (90, 90)
