"""The alias of an output topic: where its readers are now, and at which positions they moved from topic to topic (ADR 66).

Pure: `status.outputs` of a Pipeline has the present topic, and the cuts of its Reprocessings have the moves.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from kappa_crds.permissions import name_version
from kappa_crds.pipeline_status import PipelineStatus
from kappa_crds.reprocessing import Cut, ReprocessingPhase, ReprocessingStatus, TopicPosition

_MOVING = (ReprocessingPhase.CUTTING_OVER, ReprocessingPhase.ROLLING_BACK)
"""Phases in which a recorded cut is not made yet."""


@dataclass(frozen=True)
class Move:
    """One move of all readers: they read `old` until the offsets of `until`, which are exclusive, and continue in `new` at those of `begin`.

    Offsets are by partition. `until` is empty where the old version could not be held: its readers have no exact position.
    """

    reprocessing: str
    at: datetime
    old: str
    new: str
    until: dict[int, int]
    begin: dict[int, int]


@dataclass(frozen=True)
class Alias:
    """The present topic of an output in Kafka, and the moves of its readers, the oldest first.

    `pending` is a move whose cut is recorded and that is not made yet: nothing after its cut may be read before it is made, or withdrawn.
    """

    name: str
    topic: str
    moves: tuple[Move, ...] = ()
    pending: Move | None = None


def resolve_alias(
    name: str, status: PipelineStatus, reprocessings: Iterable[tuple[str, ReprocessingStatus]]
) -> Alias | None:
    """Return the alias of a topic by its name in the spec; None where the active run does not write it.

    `reprocessings` are those of the pipeline, by name, as they are for it. The cut of one with members is not withdrawn once it is
    recorded, and the cuts of all members are recorded in one write. So it counts as made: the aliases of all outputs change at once.
    """
    found = next((each for each in status.outputs if each.name == name), None)
    if found is None:
        return None
    base = found.topic.removesuffix(name_version(status.active.outputs))
    statuses = dict(reprocessings)
    moves = (
        _build_move(reprocessing, cut, base)
        for reprocessing, each in statuses.items()
        for cut in (each.cut, each.rollback_cut)
        if cut is not None
    )
    known = sorted((move for move in moves if move is not None), key=lambda move: move.at)
    done = _keep_done(known, found.topic)
    pending = [move for move in known[len(done) :] if statuses[move.reprocessing].phase in _MOVING]
    if pending and statuses[pending[-1].reprocessing].members:
        return Alias(name, pending[-1].new, (*done, pending[-1]))
    return Alias(name, found.topic, done, pending[-1] if pending else None)


def _keep_done(moves: list[Move], topic: str) -> tuple[Move, ...]:
    """Leave out moves after the one into the present topic: their cut is recorded, and the roles are not exchanged yet."""
    while moves and moves[-1].new != topic:
        moves = moves[:-1]
    return tuple(moves)


def _build_move(reprocessing: str, cut: Cut, base: str) -> Move | None:
    """Return the move of readers of one output at a cut; None where the cut has no such output."""
    old, new = _find_version(cut.old, base), _find_version(cut.new, base)
    if new is None:
        return None
    until = {} if old is None else _parse(old)
    return Move(reprocessing, cut.taken, base if old is None else old.topic, new.topic, until, _parse(new))


def _find_version(positions: tuple[TopicPosition, ...], base: str) -> TopicPosition | None:
    return next((each for each in positions if _is_version(each.topic, base)), None)


def _is_version(topic: str, base: str) -> bool:
    number = topic.removeprefix(base).removeprefix(".r")
    return topic == base or (number.isdecimal() and topic == base + name_version(int(number)))


def _parse(position: TopicPosition) -> dict[int, int]:
    return {int(partition): offset for partition, offset in position.offsets.items()}
