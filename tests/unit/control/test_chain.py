"""Pipelines that read from each other are reprocessed, cut over and rolled back as one."""

from typing import ClassVar

import pytest

from fakes.context import FakeDrivers
from kappa_crds import API_VERSION
from kappa_crds.kinds import find_kind
from kappa_crds.reprocessing import ReprocessingPhase
from kappa_operator.cli.reprocess_plan import RequestedPolicy, plan_start
from kappa_operator.cli.reprocess_watch import build_watch
from kappa_operator.engine.keys import Key
from kappa_operator.errors import DriverUnreachable
from kappa_operator.pipeline.drivers import ControlAccess
from unit.control.chains import (
    BY_HAND,
    CHAIN,
    CHANGED,
    DIAMOND,
    ChainLife,
    DiamondLife,
    Graph,
    delete_member,
    fail_member,
    find_chain_end,
    read_member,
    reprocess_downstream,
    resolve_all,
    write_member,
)
from unit.control.lives import CRASH, HOPELESS, both, delete, write
from unit.control.reprocessings import (
    FIXED,
    OTHER,
    SPEC,
    check,
    delete_reprocessing,
    find_all,
    list_outputs,
    list_phases,
    live,
    pause_at,
    request,
)
from unit.control.screens import render

OLD = {"out": "out", "totals": "totals", "tops": "tops"}
OTHER_CHANGE = reprocess_downstream(OTHER, gates={"cut": "Manual"})
NEW = {"out": "out.r1", "totals": "totals.r1", "tops": "tops.r1"}


def get_topics(life: ChainLife) -> dict[str, str]:
    """Return what the outputs resolve to."""
    return {name: each.topic for name, each in resolve_all(life).items()}


async def run(*steps: object, kind: type[ChainLife] = ChainLife) -> ChainLife:
    """Go through the steps with a chain; fail where outputs of both versions were active at once."""
    life = await live(*steps, kind=kind)  # type: ignore[arg-type]
    assert isinstance(life, kind)
    assert life.mixed == []
    check(life)
    return life


async def test_a_chain_of_three_is_cut_over_as_one() -> None:
    life = await run(write(CHAIN), both(pause_at("Soaking"), write(CHANGED)))
    assert get_topics(life) == NEW
    status = find_all(life)[0]["status"]
    assert [each["pipelineRef"] for each in status["members"]] == ["totals", "tops"]
    for name, found in resolve_all(life).items():
        (move,) = found.moves
        assert (move.old, move.until) == (name, find_chain_end(name))
        assert (move.new, move.begin) == (f"{name}.r1", find_chain_end(f"{name}.r1"))
    assert [each["topic"] for each in read_member(life, "tops")["inputs"]] == ["totals.r1"]
    await life.settle()
    assert list_phases(life) == [ReprocessingPhase.DONE]
    assert life.node.count_alive() == 3
    assert life.describe()["holding"] == []


async def test_a_rollback_takes_all_back_as_one() -> None:
    life = await run(write(CHAIN), both(pause_at("Soaking"), write(CHANGED)), request("Rollback"))
    assert list_phases(life) == [ReprocessingPhase.ROLLED_BACK]
    assert get_topics(life) == OLD
    for name, found in resolve_all(life).items():
        there, back = found.moves
        assert (there.new, back.old, back.new) == (f"{name}.r1", f"{name}.r1", name)
        assert (back.until, back.begin) == (find_chain_end(f"{name}.r1"), find_chain_end(name))
    for name in ("totals", "tops"):
        status = read_member(life, name)
        assert status.get("inputs", []) == []
        assert status["upgrade"]["phase"] == "Withdrawn"
        assert [each["role"] for each in status["runs"]] == ["active"]
    assert life.node.count_alive() == 3


async def test_a_driver_that_does_not_answer_keeps_no_other_one_held_after_a_rollback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resume, asked = FakeDrivers.resume, list[str]()

    async def answer(drivers: FakeDrivers, address: str, access: ControlAccess) -> None:
        if asked == ["rollback"]:
            asked.append(address)
            raise DriverUnreachable("the connection was lost")
        await resume(drivers, address, access)

    monkeypatch.setattr(FakeDrivers, "resume", answer)
    rollback = both(lambda life: asked.append("rollback"), request("Rollback"))
    life = await run(write(CHAIN), both(pause_at("Soaking"), write(CHANGED)), rollback)
    assert list_phases(life) == [ReprocessingPhase.ROLLED_BACK]
    assert len(asked) == 2
    held = [each for each in life.operator.drivers.progress.values() if each.hold is not None]
    assert len(held) <= 1, "it ends by itself after two minutes"


async def test_an_abort_removes_the_runs_and_the_topics_of_all() -> None:
    life = await run(write(CHAIN), write(BY_HAND))
    assert list_phases(life) == [ReprocessingPhase.READY_TO_CUT]
    assert life.node.count_alive() == 6
    assert {"out.r1", "totals.r1", "tops.r1"} <= set(life.describe()["topics"])
    held = {
        body["metadata"]["name"]
        for body in life.operator.cluster.find(API_VERSION, "Topic")
        if any("hold" in each for each in body["metadata"].get("annotations", {}))
    }
    assert held == {"in", "out.r1", "totals.r1"}, "what a new version still has to read is not deleted"
    request("Abort")(life)
    await life.settle()
    assert list_phases(life) == [ReprocessingPhase.ABORTED]
    assert life.node.count_alive() == 3
    assert not [each for each in life.describe()["topics"] if ".r" in each]
    assert get_topics(life) == OLD


async def test_outputs_of_all_are_compared_and_the_gate_counts_all() -> None:
    life = await run(write(CHAIN), write(BY_HAND))
    status = find_all(life)[0]["status"]
    assert [each["comparison"]["unexpected"] for each in status["members"]] == [0, 0]
    assert "Pipeline tops: sink to0: " in status["comparison"]["message"]
    compared = [(each.old.topic, each.new.topic) for each in life.operator.drivers.compared]
    assert compared == list(NEW.items())


async def test_a_pipeline_that_reads_from_two_members_is_cut_over_with_both() -> None:
    life = await run(write(CHAIN), both(pause_at("Soaking"), write(CHANGED)), kind=DiamondLife)
    assert {each.partition(".")[2] for each in get_topics(life).values()} == {"r1"}
    assert [each["topic"] for each in read_member(life, "joined")["inputs"]] == ["left.r1", "right.r1"]
    request("Rollback")(life)
    await life.settle()
    assert get_topics(life) == {name: name for name in ("out", *DIAMOND)}


async def test_a_member_whose_spec_changes_before_the_cut_ends_it_for_all() -> None:
    life = await run(write(CHAIN), write(BY_HAND), write_member("totals", trigger={"maxRecords": 5}))
    assert list_phases(life) == [ReprocessingPhase.ABORTED]
    assert "the spec of Pipeline totals was changed" in find_all(life)[0]["status"]["why"]
    assert get_topics(life) == OLD
    assert read_member(life, "totals")["upgrade"]["phase"] == "Done", "its own change is made"
    assert life.node.count_alive() == 3


async def test_a_member_whose_spec_changes_while_all_soak_ends_the_soak_time_of_all() -> None:
    life = await run(
        write(CHAIN),
        both(pause_at("Soaking"), write(CHANGED)),
        write_member("totals", trigger={"maxRecords": 5}),
    )
    assert list_phases(life) == [ReprocessingPhase.DONE]
    assert get_topics(life) == NEW
    assert life.node.count_alive() == 3
    assert read_member(life, "totals")["upgrade"]["phase"] == "Done"


async def test_a_member_that_is_deleted_before_the_cut_ends_it() -> None:
    life = await run(write(CHAIN), write(BY_HAND), delete_member("tops"))
    assert list_phases(life) == [ReprocessingPhase.ABORTED]
    assert find_all(life)[0]["status"]["why"] == "Pipeline tops was deleted"
    assert get_topics(life) == {"out": "out", "totals": "totals"}


async def test_a_new_version_of_a_member_that_cannot_run_fails_all_before_the_cut() -> None:
    life = await run(write(CHAIN), both(fail_member("totals", HOPELESS), write(CHANGED)))
    assert list_phases(life) == [ReprocessingPhase.FAILED]
    assert "the new version of Pipeline totals cannot run" in find_all(life)[0]["status"]["why"]
    assert get_topics(life) == OLD
    assert life.node.count_alive() == 3


async def test_a_member_that_fails_while_all_soak_rolls_all_back_where_it_has_no_common_point() -> None:
    life = await run(write(CHAIN), both(pause_at("Soaking"), write(CHANGED)), fail_member("totals", CRASH))
    assert list_phases(life) == [ReprocessingPhase.ROLLED_BACK]
    assert get_topics(life) == OLD
    status = find_all(life)[0]["status"]
    assert [each["rollbackCut"]["new"][0]["offsets"] for each in status["members"]] == [{}, {}]
    assert status["rollbackCut"]["new"][0]["offsets"], "the first pipeline has an exact point"


async def test_pipelines_that_read_from_each_other_are_refused() -> None:
    class CycleLife(ChainLife):
        graph: ClassVar[Graph] = {"totals": ("out", "tops"), "tops": ("totals",)}

    life = await run(write(CHAIN), write(CHANGED), kind=CycleLife)
    condition = find_all(life)[0]["status"]["conditions"][0]
    assert condition["reason"] == "ChainBlocked"
    assert "read the outputs of each other (tops -> totals -> tops)" in condition["message"] or (
        "(totals -> tops -> totals)" in condition["message"]
    )


async def test_a_recorded_cut_is_made_by_all_although_a_spec_changes_at_the_same_moment() -> None:
    life = await run(write(CHAIN), both(pause_at("CuttingOver"), write(CHANGED)))
    reprocessing = Key("Reprocessing", "shop", find_all(life)[0]["metadata"]["name"])
    while "cut" not in find_all(life)[0]["status"]:
        life.operator.drivers.outputs_at.update(list_outputs(life))
        await life.operator.reconcile(reprocessing)
    assert get_topics(life) == NEW, "the one write decides for all"
    write_member("tops", trigger={"maxRecords": 5})(life)
    write(OTHER_CHANGE)(life)
    for name in ("tops", "delays"):
        await life.operator.reconcile(Key("Pipeline", "shop", name))
    assert get_topics(life) == NEW
    await life.settle()
    assert life.mixed == []
    assert sorted(list_phases(life)) == [ReprocessingPhase.DONE, ReprocessingPhase.READY_TO_CUT]
    assert get_topics(life) == NEW


async def test_start_with_downstream_makes_dependent_pipelines_members() -> None:
    life = await run(write(SPEC))
    policy = RequestedPolicy(downstream=True)
    planned = await plan_start(life.operator.cluster, "shop", "delays", FIXED, "noon", policy=policy)
    await life.operator.cluster.merge(planned.ref, planned.patch)
    pause_at("CatchingUp")(life)
    await life.settle()
    screen = render(build_watch(find_kind("Reprocessing").parse(find_all(life)[0])))
    assert "with Pipeline totals: does not take part yet; reads from delays" in screen
    await life.settle()
    assert get_topics(life) == NEW


async def test_members_make_a_recorded_cut_although_the_first_pipeline_is_deleted() -> None:
    life = await run(write(CHAIN), both(pause_at("CuttingOver"), write(CHANGED)))
    reprocessing = Key("Reprocessing", "shop", find_all(life)[0]["metadata"]["name"])
    while "cut" not in find_all(life)[0]["status"]:
        life.operator.drivers.outputs_at.update(list_outputs(life))
        await life.operator.reconcile(reprocessing)
    delete(life)
    await life.settle()
    assert get_topics(life) == {name: NEW[name] for name in ("totals", "tops")}
    assert find_all(life) == []
    assert life.node.count_alive() == 2
    assert [each["role"] for each in read_member(life, "tops")["runs"]] == ["active"]


async def test_deleting_the_reprocessing_removes_the_runs_of_all() -> None:
    life = await run(write(CHAIN), write(BY_HAND), delete_reprocessing)
    assert get_topics(life) == OLD
    assert find_all(life) == []
    assert life.node.count_alive() == 3
