"""A reprocessing for some keys: what each driver computes, what people see of it, and that it never cuts over."""

import io
from typing import Any

import pytest
from rich.console import Console

from kappa_crds.comparison import ComparisonSummary
from kappa_crds.kinds import find_kind
from kappa_crds.reprocessing import SinkComparison
from kappa_crds.reprocessing_policy import ReprocessingPolicy
from kappa_operator.cli.reprocess_forecast import Forecast, describe_forecast
from kappa_operator.cli.reprocess_plan import RequestedPolicy, plan_start
from kappa_operator.cli.reprocess_watch import build_watch
from kappa_operator.reprocessing.compare import describe
from unit.control.lives import CRASH, HOPELESS, PIPELINE, Step, both, write
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

ONLY = "k IN ('A',\n 'B')"
SHOWN = "only rows where k IN ('A', 'B')"
FROM = "2025-12-31T12:00:00Z"
POLICY: dict[str, Any] = {"only": ONLY, "gates": {"cut": "Never"}}


def reprocess(**policy: Any) -> dict[str, Any]:
    return {**FIXED, "upgrade": {"mode": "Shadow", "reprocessing": {**POLICY, **policy}}}


async def test_each_driver_of_the_new_version_gets_the_condition_and_the_active_one_does_not() -> None:
    life = await live(write(SPEC), both(fail_new(CRASH), pause_at("CatchingUp"), write(reprocess())))
    for _ in range(60):
        await life.step()
        active, *others = read_profiles(life)
        assert active is None
        assert all(profile["only"] == ONLY for profile in others)
    assert len(life.node.made) > 2, "the new version had several drivers"
    whole = await live(write(SPEC), write(FIXED))
    assert all("only" not in profile for profile in read_profiles(whole) if profile), (
        "an earlier runtime refuses it"
    )


async def test_it_goes_with_a_time() -> None:
    life = await live(write(SPEC), both(pause_at("ReadyToCut"), write(reprocess(**{"from": FROM}))))
    profile = read_profiles(life)[-1]
    assert (profile["only"], profile["start"]) == (ONLY, FROM)
    assert f"; {SHOWN}; the new version has read records from {FROM} on" in read_message(life)


async def test_people_see_the_condition_in_the_pipeline_the_reprocessing_and_its_events() -> None:
    life = await live(write(SPEC), both(pause_at("CatchingUp"), write(reprocess())))
    events = life.operator.list_events()
    assert any(f"a Reprocessing computes the whole log again, {SHOWN}: " in note for note in events)
    assert any(f"the log is checked from its start, {SHOWN} are computed: " in note for note in events)
    ready = life.operator.get_condition(PIPELINE)[2]
    assert ready.startswith(f"a Reprocessing computes the whole log again, {SHOWN} beside this version (")
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(build_watch(find_kind("Reprocessing").parse(find_all(life)[-1])))
    assert SHOWN in console.export_text()
    await life.settle()
    assert read_message(life).count(SHOWN) == 1


async def test_it_never_cuts_over_also_where_a_person_requests_it() -> None:
    life = await live(write(SPEC), write(reprocess()), request("Cut"))
    assert describe_life(life)["phases"] == ["ReadyToCut"]
    assert [note for note in life.operator.list_events() if "request Cut" in note] == [
        "request Cut is refused, because spec.gates.cut is Never; a run for some rows lacks all others, so start one without spec.only"
    ]


SCENES: dict[str, tuple[Step, ...]] = {
    "comparing": (write(SPEC), write(reprocess())),
    "aborting": (write(SPEC), write(reprocess()), request("Abort")),
    "a condition that the driver refuses": (write(SPEC), both(fail_new(HOPELESS), write(reprocess()))),
    "all rows after it": (write(SPEC), write(reprocess()), write({**FIXED, "reprocessNonce": "whole"})),
}


@pytest.mark.parametrize("scene", SCENES)
async def test_the_operator_may_end_after_any_write(scene: str) -> None:
    end, ends = await live_and_die(*SCENES[scene])
    assert all(each == end for each in ends.values()), ends
    phases = {
        "comparing": ["ReadyToCut"],
        "aborting": ["Aborted"],
        "a condition that the driver refuses": ["Failed"],
        "all rows after it": ["Aborted", "Done"],
    }
    assert sorted(end["phases"]) == phases[scene]


def test_a_long_condition_is_cut_in_messages() -> None:
    rows = ReprocessingPolicy.model_validate({**POLICY, "only": "k = 1 OR " * 1000 + "k = 2"}).rows
    assert rows.startswith("only rows where k = 1 OR ") and rows.endswith(" …") and len(rows) < 250
    assert describe((SinkComparison(sink="log", summary=ComparisonSummary(equal=7)),), None, rows).endswith(
        rows
    )


async def test_the_command_starts_one_that_never_cuts_over_and_a_dry_run_shows_the_condition() -> None:
    life = await live(write(SPEC))
    policy = RequestedPolicy(only="k = 'A'")
    planned = await plan_start(life.operator.cluster, "shop", "delays", None, "noon", policy=policy)
    found = planned.wanted.spec.upgrade.reprocessing
    assert (found.only, found.gates.cut) == ("k = 'A'", "Never")
    assert "  rows     only rows where k = 'A', for a comparison" in list(
        describe_forecast(Forecast(planned))
    )
