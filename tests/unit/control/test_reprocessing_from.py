"""A reprocessing from a time: what is read and compared, what is refused, and that it never cuts over."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fakes.context import build_resource
from kappa_crds.comparison import ComparisonSummary, StreamWindows
from kappa_crds.reprocessing import SinkComparison
from kappa_operator.cli.reprocess_forecast import Forecast, describe_forecast
from kappa_operator.cli.reprocess_plan import RequestedPolicy, plan_start
from kappa_operator.lag.model import Partition, PartitionLog
from kappa_operator.log.facts import PartitionFacts, Record
from kappa_operator.reprocessing.compare import describe
from unit.control.lives import CRASH, HOPELESS, Life, Step, both, write
from unit.control.reprocessings import (
    FIXED,
    SPEC,
    fail_new,
    find_all,
    live,
    live_and_die,
    pause_at,
    read_message,
    read_profiles,
    request,
)
from unit.control.reprocessings import describe as describe_life

START = datetime(2025, 12, 31, 12, tzinfo=UTC)
FROM = "2025-12-31T12:00:00Z"
NEVER: dict[str, Any] = {"from": FROM, "gates": {"cut": "Never"}}
WINDOWED = {**NEVER, "warmUp": "2h", "comparison": {"windows": {"column": "hour"}}}


def reprocess(policy: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**FIXED, "upgrade": {"mode": "Shadow", "reprocessing": policy}, **fields}


def have_log(start: int, first: datetime) -> Step:
    """Have a log that begins at an offset, with a first record of a time."""

    def step(life: Life) -> None:
        record = Record(start, int(first.timestamp() * 1000))
        facts = PartitionFacts(0, PartitionLog(start, 100, 100), record, begin=start)
        life.operator.brokers["kafka:9092"].logs[Partition("in", 0)] = facts

    return step


@pytest.mark.parametrize(("policy", "since", "warms_up"), [(NEVER, 0, False), (WINDOWED, 2, True)])
async def test_the_driver_starts_at_the_time_and_results_that_need_earlier_records_are_not_compared(
    policy: dict[str, Any], since: int, warms_up: bool
) -> None:
    life = await live(write(SPEC), both(pause_at("ReadyToCut"), write(reprocess(policy))))
    profile = read_profiles(life)[-1]
    assert (profile["start"], profile.get("warmsUp", False)) == (FROM, warms_up)
    (compared,) = life.operator.drivers.compared
    assert compared.since == START + timedelta(hours=since)
    assert compared.windows == (StreamWindows(column="hour") if warms_up else None)
    assert f"the new version has read records from {FROM} on" in read_message(life)


async def test_each_driver_of_the_new_version_gets_the_same_start() -> None:
    life = await live(write(SPEC), both(fail_new(CRASH), pause_at("CatchingUp"), write(reprocess(NEVER))))
    for _ in range(60):
        await life.step()
    starts = [profile["start"] for profile in read_profiles(life) if profile]
    assert starts and set(starts) == {FROM}


async def test_records_from_before_the_time_may_be_gone() -> None:
    gone = have_log(50, START - timedelta(hours=1))
    life = await live(write(SPEC), both(gone, write(reprocess(NEVER))))
    assert describe_life(life)["phases"] == ["ReadyToCut"]
    whole = await live(write(SPEC), both(gone, write(FIXED)))
    assert describe_life(whole)["phases"] == ["Proving"], "a run over the whole log needs them"
    late = await live(write(SPEC), both(have_log(50, START + timedelta(hours=1)), write(reprocess(NEVER))))
    assert describe_life(late)["phases"] == ["Proving"]
    assert "some of offsets 0 to 49" in read_message(late)


async def test_it_never_cuts_over_also_where_a_person_requests_it() -> None:
    life = await live(write(SPEC), write(reprocess(NEVER)), request("Cut"))
    assert describe_life(life)["phases"] == ["ReadyToCut"]
    events = [note for note in life.operator.list_events() if "request Cut" in note]
    assert events == [
        "request Cut is refused, because spec.gates.cut is Never; a run from a time lacks earlier results, so start one without spec.from"
    ]
    request("Abort")(life)
    await life.settle()
    found = describe_life(life)
    assert (found["phases"], found["outputs"], found["alive"]) == (["Aborted"], ["out"], 1)


TRANSACTIONS = {
    "name": "events",
    "topic": "in",
    "format": {"json": {"schema": "k STRING"}},
    "envelope": {"debezium": {"columns": {"op": "op"}, "transactions": {"topic": "done"}}},
}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (reprocess({**NEVER, "from": "2999-01-01T00:00:00Z"}), "is in the future"),
        (reprocess(NEVER, sources=[TRANSACTIONS]), "does not go with sources of whole transactions"),
    ],
)
async def test_a_start_that_is_not_possible_ends_it_with_the_reason(
    spec: dict[str, Any], message: str
) -> None:
    def declare(life: Life) -> None:
        life.operator.cluster.put(build_resource("Topic", "done"))

    life = await live(write(SPEC), declare, write(spec))
    found = describe_life(life)
    assert (found["phases"], found["outputs"], found["alive"]) == (["Failed"], ["out"], 1)
    assert message in find_all(life)[0]["status"]["why"]


SCENES: dict[str, tuple[Step, ...]] = {
    "comparing": (write(SPEC), write(reprocess(WINDOWED))),
    "aborting": (write(SPEC), write(reprocess(NEVER)), request("Abort")),
    "a query that needs earlier records": (write(SPEC), both(fail_new(HOPELESS), write(reprocess(NEVER)))),
    "the whole log after it": (
        write(SPEC),
        write(reprocess(NEVER)),
        write({**FIXED, "reprocessNonce": "whole"}),
    ),
}


@pytest.mark.parametrize("scene", SCENES)
async def test_the_operator_may_end_after_any_write(scene: str) -> None:
    end, ends = await live_and_die(*SCENES[scene])
    assert all(each == end for each in ends.values()), ends
    phases = {
        "comparing": ["ReadyToCut"],
        "aborting": ["Aborted"],
        "a query that needs earlier records": ["Failed"],
        "the whole log after it": ["Aborted", "Done"],
    }
    assert sorted(end["phases"]) == phases[scene]


def test_the_message_has_where_the_comparison_begins_and_why_rows_are_undecided() -> None:
    windowed = ComparisonSummary(equal=7, undecided=1, since=START)
    text = describe((SinkComparison(sink="log", summary=windowed),), FROM)
    assert text == (
        f"sink log: 7 equal, 1 undecided (windows from {FROM}); the new version has read records from {FROM} on"
    )
    table = ComparisonSummary(equal=7, undecided=2)
    text = describe((SinkComparison(sink="log", summary=table),), FROM)
    assert text.endswith(f"records from {FROM} on, so a row that only the old one has is undecided")


async def test_the_command_starts_one_that_never_cuts_over_and_a_dry_run_shows_the_time() -> None:
    life = await live(write(SPEC))
    policy = RequestedPolicy(start=FROM, warm_up="1h")
    planned = await plan_start(life.operator.cluster, "shop", "delays", None, "noon", policy=policy)
    found = planned.wanted.spec.upgrade.reprocessing
    assert (found.from_, found.warm_up, found.gates.cut) == (FROM, "1h", "Never")
    assert planned.wanted.spec.reprocess_nonce == "noon"
    assert f"over the log from {FROM} on, for a comparison" in next(describe_forecast(Forecast(planned)))
