"""What is known of an output: its topic, the moves of its readers, and the position of one of them. Parsed from `kappa resolve -o json`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

NEVER = datetime.min.replace(tzinfo=UTC)
"""The time of the last move of a reader that has not moved."""


@dataclass(frozen=True)
class Move:
    """Readers of `old` read it until the offsets of `until`, which are exclusive, and continue in `new` at those of `begin`."""

    at: datetime
    old: str
    new: str
    until: Mapping[int, int]
    begin: Mapping[int, int]


@dataclass(frozen=True)
class Alias:
    """The present topic of an output, the moves of its readers, the oldest first, and one that is recorded and not made yet."""

    topic: str
    moves: tuple[Move, ...] = ()
    pending: Move | None = None


@dataclass(frozen=True)
class Position:
    """How far a reader is: its topic, the next offset of each partition, and the time of the last move that it has followed."""

    topic: str
    offsets: Mapping[int, int] = field(default_factory=dict)
    moved: datetime = NEVER

    def to_data(self) -> dict[str, Any]:
        """Return the position as JSON-compatible values."""
        offsets = {str(part): offset for part, offset in sorted(self.offsets.items())}
        return {"topic": self.topic, "offsets": offsets, "moved": self.moved.isoformat()}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Position":
        """Return the position that `to_data` has written."""
        return cls(data["topic"], _parse_offsets(data["offsets"]), datetime.fromisoformat(data["moved"]))


def parse_alias(data: Mapping[str, Any]) -> Alias:
    """Return the alias that `kappa resolve -o json` prints."""
    pending = data.get("pending")
    return Alias(
        data["topic"],
        tuple(map(_parse_move, data["moves"])),
        None if pending is None else _parse_move(pending),
    )


def _parse_move(data: Mapping[str, Any]) -> Move:
    return Move(
        datetime.fromisoformat(data["at"]),
        data["old"],
        data["new"],
        _parse_offsets(data["until"]),
        _parse_offsets(data["begin"]),
    )


def _parse_offsets(data: Mapping[str, int]) -> dict[int, int]:
    return {int(part): int(offset) for part, offset in data.items()}


def find_next_move(alias: Alias, position: Position) -> Move | None:
    """Return the move that a reader at this position has to follow next, made or pending; None without one."""
    later = [each for each in alias.moves if each.at > position.moved]
    if later:
        return later[0]
    return alias.pending
