"""The common cut: both drivers hold, advance to one point of the input, and report the ends of their outputs there (ADR 66).

The point is the highest offset of each partition that a driver has reached or was sent to, so it is the same however often it is computed.
After a hold that ends before both are there, both hold once more. A recorded cut stays right when the drivers continue: both have committed just there.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from kappa_crds.permissions import name_version
from kappa_crds.progress import HoldPhase, InputVector, TopicOffsets, find_common_cut
from kappa_crds.reprocessing import Cut, TopicPosition, read_positions, write_positions
from kappa_operator.engine.actions import Action, AdvanceDriver, ContinueDriver, HoldDriver
from kappa_operator.reprocessing.model import Driver, ReprocessingObserved

HOLD_SECONDS = 120.0
"""How long a driver holds at most without another request."""


@dataclass(frozen=True, slots=True)
class Reaching:
    """How far a cut is: what is to be done, a message for people, or the cut."""

    message: str
    actions: tuple[Action, ...] = ()
    cuts: tuple[Cut, ...] = ()
    """The cut of each party, the first pipeline first; none before all are there."""
    awaits_groups: bool = False
    """Whether all drivers hold at the cut, and only consumer groups are missing."""


def reach_cut(observed: ReprocessingObserved, now: datetime, lost: frozenset[str] = frozenset()) -> Reaching:
    """Return the next step to a common cut of all drivers, from the first pipeline to the last: each advances to the ends of those that it reads.

    Parties that are `lost` do not run, and have no ends.
    """
    parties = [each for each in observed.parties if each.name not in lost]
    pairs = [[each for each in (party.active, party.side) if each is not None] for party in parties]
    drivers = [driver for pair in pairs for driver in pair]
    missing = [
        _name(each) for each in drivers if not each.is_running or each.pod is None or each.pod.address is None
    ]
    if missing or any(len(pair) < 2 for pair in pairs):
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
    cuts: dict[str, Cut] = {}
    for party, pair in zip(parties, pairs, strict=True):
        sources = () if party.member is None else (cuts[name] for name in party.member.after if name in cuts)
        targets = find_targets(pair, tuple(sources))
        late = [each for each in zip(pair, targets, strict=True) if not has_reached(*each)]
        if late:
            advance = (each for driver, target in late for each in advance_driver(driver, target))
            names = ", ".join(_name(driver) for driver, _ in late)
            return Reaching(f"{names} reads up to the common input", (*holds, *advance))
        cuts[party.name] = build_cut(pair, targets, now)
    lost_cuts = {each.name: build_empty_cut(each, now) for each in observed.parties if each.name in lost}
    return Reaching(
        "both drivers hold at the common input",
        cuts=tuple({**cuts, **lost_cuts}[each.name] for each in observed.parties),
    )


def find_targets(pair: list[Driver], sources: tuple[Cut, ...]) -> tuple[InputVector, ...]:
    """Return where the two drivers of a pipeline have to be: at the ends of the outputs in `sources`, each of its own version.

    Elsewhere at the highest offset of each partition that one of them is at, or was sent to.
    """
    ends = [read_all(getattr(each, version) for each in sources) for version in ("old", "new")]
    holds = [each.progress.hold for each in pair if each.progress and each.progress.hold]
    known = [*(hold.position for hold in holds), *(hold.target for hold in holds if hold.target is not None)]
    common = find_common_cut(known)
    shared = {
        topic: parts for topic, parts in common.offsets.items() if not any(topic in each for each in ends)
    }
    return tuple(
        common.replace(
            offsets={
                **shared,
                **{topic: own[topic] for topic in hold.position.offsets if topic in own},
            }
        )
        for hold, own in zip(holds, ends, strict=True)
    )


def read_all(positions: Iterable[tuple[TopicPosition, ...]]) -> TopicOffsets:
    """Return the offsets of all positions in one map."""
    return {topic: offsets for each in positions for topic, offsets in read_positions(each).items()}


def build_cut(pair: list[Driver], targets: tuple[InputVector, ...], now: datetime) -> Cut:
    """Return the cut at which the active driver and that of the side run hold."""
    old, new = (each.progress.hold.outputs if each.progress and each.progress.hold else {} for each in pair)
    inputs = {topic: parts for target in targets for topic, parts in target.offsets.items()}
    return Cut(
        inputs=write_positions(inputs),
        old=write_positions(old),
        new=write_positions(new),
        taken=now.replace(microsecond=0),
    )


def build_empty_cut(party: ReprocessingObserved, now: datetime) -> Cut:
    """Return the cut of a pipeline whose active version does not run: it has the topics, and no offsets that stand for one input."""
    outputs = () if party.pipeline is None else party.pipeline.status.outputs
    before, after = (
        "" if each is None else name_version(each.run.outputs) for each in (party.active, party.side)
    )
    changed = (f"{each.topic.removesuffix(before)}{after}" for each in outputs)
    return Cut(
        inputs=(),
        old=tuple(TopicPosition(topic=each.topic, offsets={}) for each in outputs),
        new=tuple(TopicPosition(topic=topic, offsets={}) for topic in changed),
        taken=now.replace(microsecond=0),
    )


def continue_drivers(observed: ReprocessingObserved) -> tuple[ContinueDriver, ...]:
    """Return what ends the holds of all drivers, and of those of readers, as far as they hold."""
    readers = (each.driver for each in observed.readers)
    return tuple(
        ContinueDriver(each.pod.ref, each.pod.address, each.token)
        for each in (*list_drivers(observed), *readers)
        if each is not None
        and each.pod
        and each.pod.address
        and each.progress
        and each.progress.hold is not None
    )


def release_drivers(observed: ReprocessingObserved) -> tuple[Action, ...]:
    """Return what ends the holds at the end of a phase, but for drivers that have just failed to answer: one that stops keeps no other held."""
    failed = {each.action.pod for each in observed.failures if isinstance(each.action, ContinueDriver)}
    return tuple(each for each in continue_drivers(observed) if each.pod not in failed)


def list_drivers(observed: ReprocessingObserved) -> Iterator[Driver]:
    """Yield the drivers of both runs of all parties."""
    for party in observed.parties:
        yield from (each for each in (party.active, party.side) if each is not None)


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
