"""The operator dies after every single write of a reprocessing of three pipelines: all are cut over, or none, and the end is the same."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import effort
from unit.control.chains import (
    BY_HAND,
    CHAIN,
    CHANGED,
    ChainLife,
    Graph,
    delete_member,
    fail_member,
    reprocess_downstream,
    write_member,
)
from unit.control.lives import CRASH, HOPELESS, Step, both, lose_driver, write
from unit.control.reprocessings import (
    OTHER,
    check,
    delete_reprocessing,
    list_phases,
    live_and_die,
    pause_at,
    request,
)

_IN_CI = ("to the end",)
"""The others take a minute of a core each."""
STEPS: dict[str, tuple[Step, ...]] = {
    "to the end": (write(CHAIN), write(CHANGED)),
    "rolling back": (write(CHAIN), both(pause_at("Soaking"), write(CHANGED)), request("Rollback")),
    "aborting": (write(CHAIN), write(BY_HAND), request("Abort")),
    "another spec of a member": (
        write(CHAIN),
        write(BY_HAND),
        write_member("totals", trigger={"maxRecords": 5}),
    ),
    "another spec of a member while all soak": (
        write(CHAIN),
        both(pause_at("Soaking"), write(CHANGED)),
        write_member("tops", trigger={"maxRecords": 5}),
    ),
    "deleting it": (write(CHAIN), write(BY_HAND), delete_reprocessing),
    "deleting a member": (write(CHAIN), write(BY_HAND), delete_member("tops")),
    "a member that cannot run": (write(CHAIN), both(fail_member("totals", HOPELESS), write(CHANGED))),
    "a member that fails while all soak": (
        write(CHAIN),
        both(pause_at("Soaking"), write(CHANGED)),
        fail_member("totals", CRASH),
    ),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in _IN_CI else pytest.mark.chaos) for name in STEPS],
)
async def test_dying_after_any_write_cuts_all_over_or_none(name: str) -> None:
    wanted, ends = await live_and_die(*STEPS[name], kind=ChainLife)
    assert ends
    assert wanted["mixed"] == []
    assert wanted["holding"] == []
    wanted_runs = {role: run[1:] for role, run in wanted.pop("runs").items()}
    for death, end in ends.items():
        runs = {role: run[1:] for role, run in end.pop("runs").items()}
        assert (end, runs) == (wanted, wanted_runs), death


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Draw which topics up to three further pipelines read: each of at least one before it."""
    graph: Graph = {}
    for number in range(draw(st.integers(1, 3))):
        known = ["out", *graph]
        read = draw(st.lists(st.sampled_from(known), min_size=1, max_size=2, unique=True))
        graph[f"p{number}"] = tuple(read)
    return graph


whatever = st.lists(
    st.sampled_from(
        [
            write(CHANGED),
            write(BY_HAND),
            write(reprocess_downstream(OTHER)),
            write_member("p0", trigger={"maxRecords": 5}),
            write_member("p0"),
            delete_member("p0"),
            pause_at("CatchingUp"),
            pause_at("CuttingOver"),
            pause_at("Soaking"),
            lose_driver,
            "Cut",
            "Rollback",
            "Abort",
            "Finish",
        ]
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.chaos
@settings(max_examples=effort.examples(24), deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=graphs(), steps=whatever, deaths=st.lists(st.integers(1, 40), max_size=3))
async def test_whatever_happens_outputs_are_never_of_two_versions(
    graph: Graph, steps: list[Step | str], deaths: list[int]
) -> None:
    life = ChainLife()
    life.graph = graph  # type: ignore[misc]
    life.most = 2 * (1 + len(graph))
    await life.prepare()
    write(CHAIN)(life)
    await life.settle()
    remaining = list(deaths)
    for step in steps:
        if remaining:
            life.operator.cluster.fuse.die_after(remaining.pop())
        if callable(step):
            step(life)
        elif list_phases(life):
            request(step, str(random.random()))(life)
        await life.settle()
    life.pauses = None
    await life.settle()
    check(life)
    assert life.mixed == []
    assert len({".r" in topic for topic in life.resolve_chain().values()}) == 1
