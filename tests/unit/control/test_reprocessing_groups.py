"""Consumer groups of a reprocessing continue in the new topic at the cut, or the cutover is given up until a person requests it again."""

from typing import Any

from kappa_crds.reprocessing import ReprocessingPhase
from kappa_operator.kafka.model import GroupView
from unit.control.chains import CHAIN, ChainLife, find_chain_end, reprocess_downstream
from unit.control.downstream import find_holding, list_reprocessings
from unit.control.lives import Life, Step, both, write
from unit.control.reprocessings import (
    FIXED,
    SPEC,
    ShadowLife,
    list_phases,
    live,
    live_and_die,
    pause_at,
    request,
)

POLICY = {**SPEC["upgrade"]["reprocessing"], "groups": ["billing"]}
REGISTERED: dict[str, Any] = {**FIXED, "upgrade": {"mode": "Shadow", "reprocessing": POLICY}}


def put_group(members: int = 0, **committed: int) -> Step:
    """Have the group so many members and these offsets of partition 0, by topic; `_r1` is `.r1`."""

    def step(life: Life) -> None:
        offsets = {topic.replace("_", "."): {0: offset} for topic, offset in committed.items()}
        life.operator.brokers["kafka:9092"].groups["billing"] = GroupView("billing", members, offsets)

    return step


def read_group(life: Life) -> Any:
    return life.operator.brokers["kafka:9092"].groups["billing"].committed


def read_message(life: Life) -> str:
    (status,) = list_reprocessings(life)
    return str(status["conditions"][0]["message"])


async def test_a_group_at_the_end_without_members_continues_in_the_new_topic() -> None:
    life = await live(write(SPEC), both(put_group(out=50), write(REGISTERED)))
    assert list_phases(life) == [ReprocessingPhase.DONE]
    assert read_group(life) == {"out": {0: 50}, "out.r1": {0: 70}}
    (status,) = list_reprocessings(life)
    assert status["cut"]["groups"] == ["billing"]


async def test_a_rollback_brings_it_back() -> None:
    life = await live(
        write(SPEC),
        both(put_group(out=50), both(pause_at("Soaking"), write(REGISTERED))),
        both(put_group(out=44, out_r1=70), request("Rollback")),
    )
    assert list_phases(life) == [ReprocessingPhase.ROLLED_BACK]
    assert read_group(life) == {"out": {0: 50}, "out.r1": {0: 70}}


async def test_a_rollback_does_not_wait_long_for_a_group_with_members() -> None:
    life = await live(
        write(SPEC),
        both(put_group(out=50), both(pause_at("Soaking"), write(REGISTERED))),
        both(put_group(3, out=44, out_r1=70), request("Rollback")),
    )
    assert list_phases(life) == [ReprocessingPhase.ROLLED_BACK]
    assert read_group(life) == {"out": {0: 44}, "out.r1": {0: 70}}
    (status,) = list_reprocessings(life)
    assert not status["rollbackCut"].get("groups")


async def test_a_group_with_members_ends_the_attempt_and_a_person_requests_the_next_one() -> None:
    life = await live(write(SPEC), both(put_group(2, out=50), write(REGISTERED)))
    assert list_phases(life) == [ReprocessingPhase.READY_TO_CUT]
    assert "consumer group billing has 2 members, which have to be stopped" in read_message(life)
    assert "kappa reprocess cut" in read_message(life)
    assert find_holding(life) == []
    put_group(out=50)(life)
    request("Cut", "again")(life)
    await life.settle()
    assert list_phases(life) == [ReprocessingPhase.DONE]
    assert read_group(life)["out.r1"] == {0: 70}


async def test_a_group_that_is_behind_or_reads_something_else_ends_the_attempt() -> None:
    behind = await live(write(SPEC), both(put_group(out=43), write(REGISTERED)))
    assert "consumer group billing has a lag of 7 offsets" in read_message(behind)
    other = await live(write(SPEC), both(put_group(other=1), write(REGISTERED)))
    assert "consumer group billing has committed no offsets of out" in read_message(other)
    for life in (behind, other):
        assert list_phases(life) == [ReprocessingPhase.READY_TO_CUT]
        assert find_holding(life) == []
        assert "out.r1" not in read_group(life)


class RegisteredLife(ShadowLife):
    """A life in which what is described has the offsets of the group."""

    def describe(self) -> dict[str, Any]:
        """Return what there is in the end."""
        return {**super().describe(), "group": read_group(self)}


async def test_dying_after_any_write_commits_the_same_positions() -> None:
    wanted, ends = await live_and_die(
        write(SPEC), both(put_group(out=50), write(REGISTERED)), kind=RegisteredLife
    )
    assert wanted["group"] == {"out": {0: 50}, "out.r1": {0: 70}}
    assert {death: end["group"] for death, end in ends.items()} == dict.fromkeys(ends, wanted["group"])
    assert {tuple(end["phases"]) for end in ends.values()} == {("Done",)}


async def test_a_group_that_reads_from_a_member_of_a_chain_continues_in_its_new_version_and_back() -> None:
    spec, old, new = reprocess_downstream(REGISTERED), find_chain_end("tops")[0], find_chain_end("tops.r1")[0]
    life = await live(
        write(CHAIN), both(put_group(tops=old), both(pause_at("Soaking"), write(spec))), kind=ChainLife
    )
    assert read_group(life) == {"tops": {0: old}, "tops.r1": {0: new}}
    (status,) = list_reprocessings(life)
    assert status["cut"]["groups"] == ["billing"]
    both(put_group(tops=old - 6, tops_r1=new), request("Rollback"))(life)
    await life.settle()
    assert list_phases(life) == [ReprocessingPhase.ROLLED_BACK]
    assert read_group(life) == {"tops": {0: old}, "tops.r1": {0: new}}


async def test_a_group_that_is_behind_in_a_member_ends_the_attempt_for_all() -> None:
    spec, old = reprocess_downstream(REGISTERED), find_chain_end("tops")[0]
    life = await live(write(CHAIN), both(put_group(tops=old - 3), write(spec)), kind=ChainLife)
    assert list_phases(life) == [ReprocessingPhase.READY_TO_CUT]
    assert "consumer group billing has a lag of 3 offsets" in read_message(life)
    assert "tops.r1" not in read_group(life)
    assert life.describe()["holding"] == []
