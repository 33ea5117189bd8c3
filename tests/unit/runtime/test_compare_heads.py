"""Outputs whose oldest records were deleted: what is left of their ranges, and which rows are undecided then."""

from datetime import UTC, datetime

import pytest

from kappa_crds.comparison import (
    ComparisonSummary,
    DifferenceKind,
    DifferenceSample,
    OutputRange,
    StreamWindows,
)
from kappa_pipelines.compare.bounds import clip_range, find_deleted
from kappa_pipelines.compare.heads import doubt_missing, find_window_after

WANTED = OutputRange(topic="out", start={0: 0, 1: 0, 2: 0}, end={0: 10, 1: 10, 2: 10})


def test_a_range_begins_at_the_first_available_offset_and_never_after_its_end() -> None:
    present = OutputRange(topic="out", start={0: 0, 1: 4, 2: 50}, end={0: 90, 1: 90, 2: 90})
    clipped = clip_range(WANTED, present)
    assert clipped.start == {0: 0, 1: 4, 2: 10}
    assert find_deleted(WANTED, clipped) == {"1": 4, "2": 10}
    assert find_deleted(WANTED, WANTED) == {}


@pytest.mark.parametrize(
    ("deleted", "counts"),
    [
        ({}, (3, 4, 0)),
        ({"old_start": {"0": 5}}, (3, 0, 4)),
        ({"new_start": {"0": 5}}, (0, 4, 3)),
        ({"old_start": {"0": 5}, "new_start": {"0": 5}}, (0, 0, 7)),
    ],
)
def test_a_row_that_the_other_version_may_have_had_is_undecided(
    deleted: dict[str, dict[str, int]], counts: tuple[int, int, int]
) -> None:
    samples = tuple(DifferenceSample(kind=kind, key="k") for kind in DifferenceKind)
    found = doubt_missing(ComparisonSummary(changed=1, only_old=3, only_new=4, samples=samples, **deleted))
    assert (found.only_old, found.only_new, found.undecided) == counts
    kinds = {each.kind for each in found.samples}
    assert (DifferenceKind.ONLY_NEW in kinds, DifferenceKind.ONLY_OLD in kinds) == (
        counts[1] > 0,
        counts[0] > 0,
    )
    assert found.changed == 1


def test_a_version_that_has_begun_later_may_lack_what_only_the_other_one_has() -> None:
    found = doubt_missing(ComparisonSummary(changed=1, only_old=3, only_new=4), begun=True)
    assert (found.changed, found.only_old, found.only_new, found.undecided) == (1, 0, 4, 3)


@pytest.mark.parametrize(("second", "hour"), [(0.0, 12), (0.001, 13), (59.0, 13)])
def test_the_first_window_begins_at_the_time_or_later(second: float, hour: int) -> None:
    moment = datetime.fromtimestamp(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp() + second, UTC)
    found = find_window_after(moment, StreamWindows(column="ts", size="1h"))
    assert datetime.fromtimestamp(found, UTC) == datetime(2026, 1, 1, hour, tzinfo=UTC)
