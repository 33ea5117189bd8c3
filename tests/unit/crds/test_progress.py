"""Lag: what is in the topics and not processed yet."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from kappa_crds.progress import (
    DriverExit,
    DriverState,
    Hold,
    HoldPhase,
    InputVector,
    Progress,
    QueryProgress,
    SourceProgress,
    find_common_cut,
)
from kappa_crds.reasons import Reason

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def source(name: str, end: dict[int, int], latest: dict[int, int]) -> SourceProgress:
    return SourceProgress(name=name, topic=name, end_offsets={name: end}, latest_offsets={name: latest})


def query(*sources: SourceProgress, sink: str = "out") -> QueryProgress:
    return QueryProgress(sink=sink, query_id="q", run_id="r", batch_id=1, timestamp=NOW, sources=sources)


def progress(*queries: QueryProgress) -> Progress:
    return Progress(
        namespace="default",
        pipeline="delays",
        revision="delays-1",
        generation=1,
        state=DriverState.RUNNING,
        started_at=NOW,
        queries=queries,
    )


@pytest.mark.parametrize(
    ("says", "end", "latest", "lag"),
    [
        ("nothing was read and nothing is there", {}, {}, 0),
        ("all is read", {0: 5, 1: 7}, {0: 5, 1: 7}, 0),
        ("each partition counts", {0: 5, 1: 7}, {0: 6, 1: 10}, 4),
        ("a partition ahead of what was seen does not make up for another", {0: 9, 1: 0}, {0: 5, 1: 3}, 3),
        ("a partition that no batch has read yet does not count", {0: 5}, {0: 5, 1: 100}, 0),
        ("a partition that is gone does not count", {0: 5, 1: 7}, {0: 6}, 1),
    ],
)
def test_the_lag_of_a_source(says: str, end: dict[int, int], latest: dict[int, int], lag: int) -> None:
    assert source("flights", end, latest).lag == lag, says


def test_every_topic_of_a_source_counts() -> None:
    ends, latest = {"a": {0: 5}, "b": {0: 5}}, {"a": {0: 7}, "b": {0: 6}, "new": {0: 9}}
    read = SourceProgress(name="all", topic="a|b|new", end_offsets=ends, latest_offsets=latest)
    assert read.lag == 3


def test_a_pipeline_that_has_no_batch_yet_has_no_lag() -> None:
    assert progress().lag == 0


def test_the_lags_of_different_sources_add_up() -> None:
    behind = query(source("flights", {0: 0}, {0: 3}), source("weather", {0: 0}, {0: 4}))
    assert progress(behind).lag == 7


def test_a_source_that_two_sinks_read_counts_once_by_the_one_further_behind() -> None:
    fast = query(source("flights", {0: 9}, {0: 10}), sink="fast")
    slow = query(source("flights", {0: 2}, {0: 10}), sink="slow")
    assert progress(fast, slow).lag == 8


def test_progress_reads_back_as_it_was_sent() -> None:
    sent = progress(query(source("flights", {0: 1}, {0: 2})))
    assert Progress.model_validate_json(sent.model_dump_json(by_alias=True)) == sent


def test_offsets_are_numbers_by_topic_and_partition_even_after_json() -> None:
    sent = source("flights", {10: 1}, {10: 2})
    assert SourceProgress.model_validate_json(sent.model_dump_json(by_alias=True)).end_offsets == {
        "flights": {10: 1}
    }


def test_a_failure_travels_with_the_progress() -> None:
    end = DriverExit(reason=Reason.INVALID_SQL, message="view hourly", retryable=False)
    sent = progress().replace(state=DriverState.FAILED, error=end)
    assert Progress.model_validate_json(sent.model_dump_json(by_alias=True)).error == end


def test_a_reason_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValidationError, match="reason"):
        DriverExit.model_validate({"reason": "Invented", "message": ""})


def test_a_driver_of_release_0_1_in_its_dry_run_is_understood() -> None:
    report = progress().model_dump(mode="json") | {"state": "Rehearsing"}
    assert Progress.model_validate(report).state is DriverState.DRY_RUN
    with pytest.raises(ValidationError):
        Progress.model_validate(report | {"state": "Dreaming"})


def at(idle: dict[str, int] | None = None, **offsets: dict[int, int]) -> InputVector:
    return InputVector(offsets=offsets, idle=idle or {})


@pytest.mark.parametrize(
    ("says", "positions", "cut"),
    [
        ("no driver, no cut", [], at()),
        ("one driver is at its own", [at(flights={0: 5})], at(flights={0: 5})),
        ("each partition has its highest", [at(a={0: 5, 1: 2}), at(a={0: 3, 1: 9})], at(a={0: 5, 1: 9})),
        ("a partition that only one has found", [at(a={0: 5}), at(a={0: 5, 1: 0})], at(a={0: 5, 1: 0})),
        ("a topic that only one reads", [at(a={0: 5}), at(b={0: 7})], at(a={0: 5}, b={0: 7})),
        ("the latest idle time", [at({"x": 10, "y": 4}), at({"x": 9})], at({"x": 10, "y": 4})),
    ],
)
def test_the_common_cut(says: str, positions: list[InputVector], cut: InputVector) -> None:
    assert find_common_cut(positions) == cut, says
    assert find_common_cut((*positions, cut)) == cut, says


def test_a_hold_has_reached_a_target_that_it_was_given_and_not_refused() -> None:
    cut = at(flights={0: 5})
    held = Hold(phase=HoldPhase.HOLDING, until=NOW, position=cut, target=cut)
    assert held.has_reached(Hold.model_validate_json(held.model_dump_json(by_alias=True)).target or at())
    assert not held.replace(target=None).has_reached(cut)
    assert not held.replace(phase=HoldPhase.ADVANCING).has_reached(cut)
    assert not held.replace(refusal="the log ends before").has_reached(cut)
    assert not held.has_reached(at(flights={0: 6}))


def test_a_report_of_an_earlier_release_has_no_hold_and_is_of_an_active_driver() -> None:
    known = progress().model_dump(mode="json", by_alias=True, exclude_none=True)
    known.pop("role")
    assert (Progress.model_validate(known).role, Progress.model_validate(known).hold) == ("active", None)
