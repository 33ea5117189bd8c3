"""The common cut: both drivers hold, advance to one point of the input, and report the ends of their outputs there (ADR 66).

The point is the highest offset of each partition that a driver has reached or was sent to, so it is the same however often it is computed.
After a hold that ends before both are there, both hold once more. A recorded cut stays right when the drivers continue: both have committed just there.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from kappa_crds.progress import HoldPhase, InputVector, find_common_cut
from kappa_crds.reprocessing import Cut, write_positions
from kappa_operator.engine.actions import Action, AdvanceDriver, ContinueDriver, HoldDriver
from kappa_operator.reprocessing.model import Driver, ReprocessingObserved

HOLD_SECONDS = 120.0
"""How long a driver holds at most without another request."""


@dataclass(frozen=True, slots=True)
class Reaching:
    """How far a cut is: what is to be done, a message for people, or the cut."""

    message: str
    actions: tuple[Action, ...] = ()
    cut: Cut | None = None
    awaits_groups: bool = False
    """Whether all drivers hold at the cut, and only consumer groups are missing."""


def reach_cut(observed: ReprocessingObserved, now: datetime) -> Reaching:
    """Return the next step to a common cut of both drivers."""
    drivers = [each for each in (observed.active, observed.side) if each is not None]
    missing = [
        _name(each) for each in drivers if not each.is_running or each.pod is None or each.pod.address is None
    ]
    if len(drivers) < 2 or missing:
        return Reaching(f"waiting until both drivers run ({', '.join(missing) or 'one is missing'})")
    refused = next(
        (
            each.progress.hold.refusal
            for each in drivers
            if each.progress and each.progress.hold and each.progress.hold.refusal
        ),
        "",
    )
    if refused:
        return Reaching(
            f"a driver cannot reach the common input: {refused}; both continue, and it is tried again",
            continue_drivers(observed),
        )
    holds = tuple(hold_drivers(drivers))
    if not all(
        each.progress and each.progress.hold and each.progress.hold.phase is not HoldPhase.ENDING
        for each in drivers
    ):
        return Reaching("both drivers end their batch", holds)
    target = find_target(drivers)
    late = [each for each in drivers if not has_reached(each, target)]
    if late:
        advance = (each for driver in late for each in advance_driver(driver, target))
        names = ", ".join(_name(each) for each in late)
        return Reaching(f"{names} reads up to the common input", (*holds, *advance))
    return Reaching("both drivers hold at the common input", cut=build_cut(drivers, target, now))


def find_target(drivers: list[Driver]) -> InputVector:
    """Return the highest offset of each partition that a driver is at, or was sent to."""
    holds = [each.progress.hold for each in drivers if each.progress and each.progress.hold]
    sent = [hold.target for hold in holds if hold.target is not None]
    return find_common_cut([*(hold.position for hold in holds), *sent])


def build_cut(drivers: list[Driver], target: InputVector, now: datetime) -> Cut:
    """Return the cut at which the active driver and that of the side run hold."""
    old, new = (
        each.progress.hold.outputs if each.progress and each.progress.hold else {} for each in drivers
    )
    return Cut(
        inputs=write_positions(target.offsets),
        old=write_positions(old),
        new=write_positions(new),
        taken=now.replace(microsecond=0),
    )


def continue_drivers(observed: ReprocessingObserved) -> tuple[Action, ...]:
    """Return what ends the holds of both drivers, and of those of readers, as far as they hold."""
    readers = (each.driver for each in observed.readers)
    return tuple(
        ContinueDriver(each.pod.ref, each.pod.address, each.token)
        for each in (observed.active, observed.side, *readers)
        if each is not None
        and each.pod
        and each.pod.address
        and each.progress
        and each.progress.hold is not None
    )


def hold_drivers(drivers: Iterable[Driver], seconds: float = HOLD_SECONDS) -> Iterator[HoldDriver]:
    """Yield what makes each driver hold, or hold longer."""
    for each in drivers:
        if each.pod is None or each.pod.address is None or each.progress is None:
            continue
        hold, at = each.progress.hold, each.progress.reported_at
        left = None if hold is None or at is None else (hold.until - at).total_seconds()
        if hold is None or (left is not None and left < seconds / 2):
            yield HoldDriver(each.pod.ref, each.pod.address, each.token, seconds)


def has_reached(driver: Driver, target: InputVector) -> bool:
    """Return whether a driver holds at this point."""
    hold = driver.progress.hold if driver.progress else None
    return hold is not None and hold.has_reached(target)


def advance_driver(driver: Driver, target: InputVector) -> Iterator[AdvanceDriver]:
    """Yield what makes a driver that holds advance, where it was not sent there yet."""
    hold = driver.progress.hold if driver.progress else None
    if driver.pod and driver.pod.address and hold and hold.target != target:
        yield AdvanceDriver(driver.pod.ref, driver.pod.address, driver.token, target)


def _name(driver: Driver) -> str:
    return driver.run.driver or f"the driver of the {driver.run.role} run"
