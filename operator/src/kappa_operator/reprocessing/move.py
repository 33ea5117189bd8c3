"""The cut of readers: other Pipelines read the old outputs exactly up to their ends at the common cut, and hold there (ADR 72).

They are brought there last, while both versions hold and nothing is written. No driver holds for a reader that
does not run, or is far behind: both versions hold only when all readers are near. The cut is recorded when all are there; from then on they follow it themselves.
"""

from collections.abc import Iterator
from datetime import datetime

from kappa_crds.progress import HoldPhase, InputVector
from kappa_crds.reprocessing import Cut
from kappa_operator.engine.actions import Action, HoldDriver
from kappa_operator.reprocessing.catch_up import is_near
from kappa_operator.reprocessing.cut import (
    Reaching,
    advance_driver,
    continue_drivers,
    has_reached,
    hold_drivers,
    list_drivers,
    reach_cut,
    read_all,
)
from kappa_operator.reprocessing.groups import GROUP_PATIENCE, commit_positions, find_obstacles
from kappa_operator.reprocessing.model import Reader, ReprocessingObserved

READER_HOLD_SECONDS = 600.0
"""How long a reader holds at the cut without another request: it must not read on before it is moved, also where the operator is away."""


def reach_moving_cut(
    observed: ReprocessingObserved,
    now: datetime,
    *,
    leaves_readers: bool = False,
    leaves_groups: bool = False,
    lost: frozenset[str] = frozenset(),
) -> Reaching:
    """Return the next step to a common cut of all drivers, all readers and consumer groups.

    With `leaves_readers` and `leaves_groups` without those that are not able to, and without parties that are `lost`.
    """
    blocked = {each.name: why for each in observed.readers if (why := _find_obstacle(each))}
    if blocked and not leaves_readers:
        names = ", ".join(f"Pipeline {name} {why}" for name, why in blocked.items())
        return Reaching(f"waiting for readers of the outputs: {names}", continue_drivers(observed))
    reaching = reach_cut(observed, now, lost)
    if not reaching.cuts:
        return reaching
    readers = [each for each in observed.readers if each.name not in blocked and lost.isdisjoint(each.reads)]
    reaching = _reach_readers(observed, readers, reaching.cuts)
    if not reaching.cuts:
        return reaching
    reaching = _reach_groups(observed, readers, reaching.cuts, leaves=leaves_groups)
    longer = tuple(hold_drivers((each.driver for each in readers), READER_HOLD_SECONDS))
    if not reaching.cuts or not longer or observed.failure:
        return reaching
    return Reaching("all hold; readers hold longer, until they are moved", longer)


def _reach_groups(
    observed: ReprocessingObserved, readers: list[Reader], cuts: tuple[Cut, ...], *, leaves: bool
) -> Reaching:
    obstacles = find_obstacles(observed.groups, cuts)
    if observed.group_problem and not leaves:
        obstacles = {"": f"cannot be read: {observed.group_problem}"}
    holds = tuple(_hold_all(observed, readers))
    if obstacles and not leaves:
        names = ", ".join(f"consumer group {name} {why}" for name, why in obstacles.items())
        message = f"all drivers hold, at most {GROUP_PATIENCE:.0f} s, for consumer groups: {names}"
        return Reaching(message, holds, awaits_groups=True)
    commits = tuple(each for each in commit_positions(observed, cuts) if each.group not in obstacles)
    if commits and not observed.failure:
        return Reaching(
            "the positions of consumer groups are committed", (*holds, *commits), awaits_groups=True
        )
    groups = () if commits else (each.name for each in observed.groups if each.name not in obstacles)
    first, *others = cuts
    return Reaching("all hold", cuts=(first.replace(groups=tuple(sorted(groups))), *others))


def _hold_all(observed: ReprocessingObserved, readers: list[Reader]) -> Iterator[HoldDriver]:
    yield from hold_drivers(list_drivers(observed))
    yield from hold_drivers(each.driver for each in readers)


def keep_holding(observed: ReprocessingObserved) -> tuple[Action, ...]:
    """Return what keeps readers where they are until the versions are exchanged."""
    held = [each.driver for each in observed.readers if each.hold is not None]
    return tuple(hold_drivers(held, READER_HOLD_SECONDS))


def _find_obstacle(reader: Reader) -> str:
    """Return why a reader cannot be brought to the cut soon, empty where it can."""
    driver = reader.driver
    if reader.is_changing:
        return "is being changed"
    if not driver.is_running or driver.pod is None or driver.pod.address is None:
        return "does not run"
    if driver.progress is not None and reader.hold is None and not is_near(driver.progress, 0):
        return f"has a lag of {driver.progress.lag} records"
    return ""


def _reach_readers(observed: ReprocessingObserved, readers: list[Reader], cuts: tuple[Cut, ...]) -> Reaching:
    refused = (each for each in readers if each.hold and each.hold.refusal)
    refusal = next((f"Pipeline {each.name}: {each.hold.refusal}" for each in refused if each.hold), "")
    if refusal:
        return Reaching(
            f"a reader cannot reach the end of the old outputs: {refusal}; all continue, and it is tried again",
            continue_drivers(observed),
        )
    actions: list[Action] = list(_hold_all(observed, readers))
    late = []
    for each in readers:
        target = find_target(each, cuts)
        if target is None or not has_reached(each.driver, target):
            late.append(each.name)
            actions += () if target is None else advance_driver(each.driver, target)
    if late:
        message = f"Pipeline {', '.join(late)} reads up to the end of the old outputs"
        return Reaching(message, tuple(actions))
    moved = (
        cut.replace(readers=tuple(sorted(each.name for each in readers if party.name in each.reads)))
        for party, cut in zip(observed.parties, cuts, strict=True)
    )
    return Reaching("both drivers and all readers hold", cuts=tuple(moved))


def find_target(reader: Reader, cuts: tuple[Cut, ...]) -> InputVector | None:
    """Return the point of a reader with the ends of the old outputs at the cut; None before it holds."""
    hold = reader.hold
    if hold is None or hold.phase is HoldPhase.ENDING:
        return None
    old, position = read_all(cut.old for cut in cuts), hold.position.offsets
    ends = {topic: old[topic] for topic in old if topic in position}
    return hold.position.replace(offsets={**position, **ends})
