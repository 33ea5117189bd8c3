"""Pipelines that read the outputs of a reprocessed one are moved at the cut, with their state, and back by a rollback."""

import pytest

from fakes.kubelet import SINCE
from kappa_crds.reprocessing import ReprocessingPhase
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.pipeline.objects import PIPELINE_LABEL
from unit.control.downstream import (
    TOTALS,
    DownstreamLife,
    LaterLife,
    find_holding,
    find_topics,
    list_reprocessings,
    read_totals,
    write_totals,
)
from unit.control.lives import CRASH, PIPELINE, both, lose_driver, write
from unit.control.reprocessings import (
    FIXED,
    SPEC,
    fail_active,
    find_all,
    list_outputs,
    list_phases,
    live,
    pause_at,
    request,
)
from unit.control.test_reprocessing_crashes import BY_HAND

MOVED = {
    "name": "out",
    "topic": "out.r1",
    "move": {"old": "out", "new": "out.r1", "until": {"0": 50}, "begin": {"0": 70}},
}


def strip(inputs: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return the inputs without the names of Reprocessings."""
    for each in inputs:
        move = each.get("move")
        if isinstance(move, dict):
            del move["reprocessing"]
    return inputs


async def test_a_pipeline_that_reads_the_output_continues_in_the_new_topic_at_the_cut() -> None:
    life = await live(write(SPEC), both(pause_at("Soaking"), write(FIXED)), kind=DownstreamLife)
    await life.settle()
    (status,) = list_reprocessings(life)
    assert status["cut"]["readers"] == ["totals"]
    assert strip(read_totals(life)["inputs"]) == [MOVED]
    assert find_topics(life) == ["out.r1"]
    assert find_holding(life) == []
    assert read_totals(life)["upgrade"]["phase"] == "Done"


async def test_a_rollback_moves_it_back() -> None:
    life = await live(
        write(SPEC), both(pause_at("Soaking"), write(FIXED)), request("Rollback"), kind=DownstreamLife
    )
    assert list_phases(life) == [ReprocessingPhase.ROLLED_BACK]
    (moved,) = strip(read_totals(life)["inputs"])
    assert moved["topic"] == "out"
    assert moved["move"] == {"old": "out.r1", "new": "out", "until": {"0": 70}, "begin": {"0": 50}}
    assert find_topics(life) == ["out"]
    assert find_holding(life) == []


async def test_no_driver_holds_for_a_reader_that_does_not_run_and_it_says_so() -> None:
    life = await live(write(SPEC), write_totals(suspend=True), write(FIXED), kind=DownstreamLife)
    assert list_phases(life) == [ReprocessingPhase.CUTTING_OVER]
    (status,) = list_reprocessings(life)
    assert "Pipeline totals does not run" in status["conditions"][0]["message"]
    assert find_holding(life) == []
    write_totals()(life)
    await life.settle()
    assert find_topics(life) == ["out.r1"]


async def test_no_driver_holds_for_a_reader_that_is_far_behind() -> None:
    life = DownstreamLife()
    life.lag = 1000
    await life.prepare()
    write(SPEC)(life)
    await life.settle()
    life.lag = 0
    write(FIXED)(life)
    await life.settle()
    (status,) = list_reprocessings(life)
    assert "Pipeline totals has a lag of 1000 records" in status["conditions"][0]["message"]
    assert find_holding(life) == []


async def test_an_abort_before_the_cut_lets_all_continue() -> None:
    life = await live(write(SPEC), write(BY_HAND), request("Abort"), kind=DownstreamLife)
    assert find_topics(life) == ["out"]
    assert find_holding(life) == []
    assert not read_totals(life).get("inputs")


async def test_a_rollback_waits_for_a_reader_whose_driver_was_lost() -> None:
    soaking = {"mode": "Shadow", "reprocessing": {"gates": {"cut": "Automatic"}, "soak": "9h"}}
    life = await live(write(SPEC), write({**FIXED, "upgrade": soaking}), kind=DownstreamLife)
    life.node.broken = lambda pod: CRASH if pod["metadata"]["labels"][PIPELINE_LABEL] == "totals" else None
    life.node.step()
    life.node.broken = lambda _pod: None
    request("Rollback")(life)
    reprocessing = Key("Reprocessing", "shop", find_all(life)[0]["metadata"]["name"])
    for _ in range(100):  # seconds in which no driver starts
        for key in (PIPELINE, TOTALS, reprocessing):
            await life.operator.reconcile(key)
        life.operator.clock.advance(1)
    await life.settle()
    assert find_all(life)[0]["status"]["rollbackCut"]["readers"] == ["totals"]
    assert (find_topics(life), find_holding(life)) == (["out"], [])


async def test_a_rollback_without_a_common_cut_leaves_the_reader_and_says_what_it_reads() -> None:
    life = await live(
        write(SPEC), both(pause_at("Soaking"), write(FIXED)), fail_active(CRASH), kind=DownstreamLife
    )
    assert list_phases(life) == [ReprocessingPhase.ROLLED_BACK]
    assert find_topics(life) == ["out.r1"]
    assert "out.r1 is read, and out is written now" in read_totals(life)["conditions"][0]["message"]


async def test_a_pipeline_that_is_created_later_reads_the_present_version() -> None:
    life = await live(
        write(SPEC),
        both(pause_at("Soaking"), write(FIXED)),
        request("Finish"),
        write_totals(),
        kind=LaterLife,
    )
    assert find_topics(life) == ["out.r1"]
    assert strip(read_totals(life)["inputs"]) == [{"name": "out", "topic": "out.r1"}]


@pytest.mark.parametrize("phase", ["CuttingOver", pytest.param("Soaking", marks=pytest.mark.chaos)])
async def test_drivers_that_are_lost_around_the_cut_end_in_one_version(phase: str) -> None:
    life = await live(write(SPEC), both(pause_at(phase), write(FIXED)), lose_driver, kind=DownstreamLife)
    assert find_topics(life) == ["out.r1"]
    assert find_holding(life) == []
    assert life.describe()["outputs"] == ["out.r1"]
    assert life.node.most_of_one == 1


async def test_a_reader_whose_driver_is_lost_after_the_cut_starts_only_when_the_versions_are_exchanged() -> (
    None
):
    life = await live(write(SPEC), both(pause_at("CuttingOver"), write(FIXED)), kind=DownstreamLife)
    (body,) = find_all(life)
    reprocessing = Key("Reprocessing", "shop", body["metadata"]["name"])
    while "cut" not in list_reprocessings(life)[0]:
        life.operator.drivers.outputs_at.update(list_outputs(life))
        await life.operator.reconcile(reprocessing)
    (pod,) = (pod for pod in life.node.find_pods() if pod["metadata"]["name"].startswith("totals"))
    life.operator.cluster.remove(ObjectRef.of(pod))
    for _ in range(5):
        await life.operator.reconcile(TOTALS)
        life.node.step()
        life.operator.clock.advance(10)
    assert find_topics(life) == []
    assert "is about to move its readers" in read_totals(life)["conditions"][0]["message"]
    await life.settle()
    assert find_topics(life) == ["out.r1"]
    assert isinstance(life, DownstreamLife)
    assert life.begun == ["out", "out.r1"]


async def test_a_topic_that_goes_by_policy_stays_until_its_reader_has_left_it() -> None:
    deleting = {"mode": "Shadow", "reprocessing": {**SPEC["upgrade"]["reprocessing"], "outputs": "Delete"}}
    life = await live(
        write(SPEC), both(pause_at("Soaking"), write({**FIXED, "upgrade": deleting})), kind=DownstreamLife
    )
    while find_topics(life) != ["out.r1"]:
        await life.step()
    request("Rollback")(life)
    for _ in range(40):
        await life.step(without=TOTALS)
    assert list_phases(life) == [ReprocessingPhase.ROLLED_BACK]
    assert life.node.count_alive() == 2, "the driver of the new version has ended"
    assert "out.r1" in life.describe()["topics"]
    await life.settle()
    assert find_topics(life) == ["out"]
    assert "out.r1" not in life.describe()["topics"]


async def test_a_reader_holds_for_long_only_when_the_cut_is_about_to_be_recorded() -> None:
    life = await live(write(SPEC), both(pause_at("CuttingOver"), write(FIXED)), kind=DownstreamLife)
    lengths: list[float] = []
    for _ in range(20):
        for address, progress in life.operator.drivers.progress.items():
            life.operator.drivers.progress[address] = progress.replace(reported_at=progress.started_at)
        await life.step()
        held = [each.hold for each in life.operator.drivers.progress.values() if each.pipeline == "totals"]
        lengths += [(hold.until - SINCE).total_seconds() for hold in held if hold is not None]
        if "cut" in list_reprocessings(life)[0]:
            break
    assert sorted(set(lengths)) == [120, 600]
