"""What a writer has written, as Kafka keeps it for it: the mark of its group's offset. Pure.

A writer commits its rows and its mark in one transaction, so the mark says what was written, whatever died in between. Batches are
counted within one life of a checkpoint: a restored savepoint begins another one, and its batches are written though they have
numbers that were written before.
"""

import json
from dataclasses import dataclass, field, replace
from enum import Enum

_LIVES = 8
"""How many lives of a checkpoint a mark remembers; Kafka takes 4,096 bytes (offset.metadata.max.bytes), and one has about 90."""


class WriteDecision(Enum):
    """What a task finds out about its batch before it writes."""

    TO_WRITE = "to write"
    WRITTEN = "written"
    FENCED = "fenced"
    LOST = "lost"


@dataclass(frozen=True)
class CommitMarker:
    """The last batch that a writer has written in each life of the checkpoint, and whose it is.

    `generation` is that of the driver whose tasks may write. `producer` names the client that wrote last; it is empty after a takeover.
    """

    generation: int
    producer: str = ""
    written: dict[str, int] = field(default_factory=dict)

    def to_text(self) -> str:
        """Return the mark as the metadata of an offset."""
        return json.dumps(
            {"generation": self.generation, "producer": self.producer, "written": self.written},
            separators=(",", ":"),
        )

    @property
    def last(self) -> int:
        """Return the last batch that was written; -1 before the first."""
        return next(reversed(self.written.values()), -1)

    def after(self, life: str, batch: int, producer: str) -> "CommitMarker":
        """Return the mark with a batch written; of the lives before, the last are remembered."""
        others = [(name, last) for name, last in self.written.items() if name != life]
        return replace(self, producer=producer, written=dict([*others[1 - _LIVES :], (life, batch)]))

    def taken_over(self, generation: int, life: str | None, planned: int) -> "CommitMarker":
        """Return the mark for the tasks of another driver, which has planned so many batches in this life; what was written stays.

        But for a batch that the driver's checkpoint does not know: it will plan another one under that number.
        """
        written = {name: batch for name, batch in self.written.items() if name != life or batch <= planned}
        return replace(self, generation=generation, producer="", written=written)


def parse_marker(text: str | None) -> CommitMarker | None:
    """Return the mark in an offset's metadata; None where there is none, or nothing that this runtime wrote."""
    try:
        found = json.loads(text or "")
        written = {str(life): int(batch) for life, batch in found["written"].items()}
        return CommitMarker(int(found["generation"]), str(found["producer"]), written)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def judge(mark: CommitMarker | None, generation: int, life: str, batch: int) -> WriteDecision:
    """Return what a task of a driver of this generation is to do with its batch.

    A driver takes all its writers over before its first batch, so where there is no mark Kafka has forgotten it
    (offsets.retention.minutes), and nobody may write before a driver has taken over again.
    """
    if mark is None or mark.generation < generation:
        return WriteDecision.LOST
    if mark.generation > generation:
        return WriteDecision.FENCED
    return WriteDecision.WRITTEN if mark.written.get(life, -1) >= batch else WriteDecision.TO_WRITE
