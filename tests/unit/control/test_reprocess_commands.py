"""`kappa reprocess`: which Reprocessing it means, what it requests, when that is done, and what a person sees."""

import io

import pytest
from rich.console import Console

from kappa_crds.kinds import find_kind
from kappa_crds.reprocessing import RequestAction
from kappa_operator.cli.errors import CommandError
from kappa_operator.cli.reprocess_requests import find_reprocessing, judge_action, request_action
from kappa_operator.cli.reprocess_watch import build_watch
from unit.control.lives import both, write
from unit.control.reprocessings import FIXED, SPEC, ShadowLife, find_all, live, pause_at

BY_HAND = {**FIXED, "upgrade": {"mode": "Shadow", "reprocessing": {"soak": "1m"}}}


async def wait_at_the_gate() -> ShadowLife:
    return await live(write(SPEC), write(BY_HAND))


def show(life: ShadowLife) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(build_watch(find_kind("Reprocessing").parse(find_all(life)[0])))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


async def test_the_pipeline_stands_for_its_newest_reprocessing() -> None:
    life = await wait_at_the_gate()
    api = life.operator.cluster
    by_pipeline = await find_reprocessing(api, "shop", "delays")
    assert (await find_reprocessing(api, "shop", by_pipeline.metadata.name)) == by_pipeline
    with pytest.raises(CommandError, match="neither a Reprocessing"):
        await find_reprocessing(api, "shop", "flights")


async def test_a_request_is_done_when_its_phase_is_there_and_one_that_fits_no_phase_is_not_sent() -> None:
    life = await wait_at_the_gate()
    api = life.operator.cluster
    with pytest.raises(CommandError, match="it fits in Soaking"):
        await request_action(api, "shop", "delays", RequestAction.ROLLBACK)
    assert "request" not in find_all(life)[0]["spec"]
    await request_action(api, "shop", "delays", RequestAction.CUT)
    judge = judge_action(RequestAction.CUT)
    pending = judge(find_kind("Reprocessing").parse(find_all(life)[0]))
    assert (pending.done, pending.failed) == (False, False)
    both(pause_at("Soaking"))(life)
    await life.settle()
    assert judge(find_kind("Reprocessing").parse(find_all(life)[0])).done
    await request_action(api, "shop", "delays", RequestAction.ROLLBACK)
    await life.settle()
    rolled = find_kind("Reprocessing").parse(find_all(life)[0])
    assert judge_action(RequestAction.ROLLBACK)(rolled).done
    assert judge_action(RequestAction.FINISH)(rolled).failed


async def test_a_person_sees_the_phase_the_command_that_passes_its_gate_and_the_time_left() -> None:
    catching_up = await live(write(SPEC), both(pause_at("CatchingUp"), write(BY_HAND)))
    for _ in range(8):
        await catching_up.step()
    text = show(catching_up)
    assert "CatchingUp" in text
    assert "TIME LEFT" in text
    life = await wait_at_the_gate()
    assert "7 equal" in show(life)
    assert "kappa reprocess cut delays-" in show(life)


async def test_a_person_sees_how_many_executors_a_replay_has_of_those_that_it_requests() -> None:
    upgrade = {"mode": "Shadow", "reprocessing": {"soak": "1m", "replay": {"executors": 10}}}
    many = {**BY_HAND, "resources": {"executors": {"count": 2}}, "upgrade": upgrade}
    life = await live(write(SPEC), both(pause_at("CatchingUp"), write(many)))
    assert "executors: 3 of 10" in await show_executors(life, 3, replaying=True)
    assert "executors: 2 of 2" in await show_executors(life, 2, replaying=False)


async def show_executors(life: ShadowLife, executors: int, *, replaying: bool) -> str:
    """Return what a person sees when drivers report so many executors."""
    for _ in range(8):
        await life.step()
        reports = life.operator.drivers.progress
        for address in reports:
            reports[address] = reports[address].replace(executors=executors, replaying=replaying)
    return show(life)
