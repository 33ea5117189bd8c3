"""The commit marker of a writer: the batches that it has written, in the metadata of its group's offset in Kafka. Pure.

A writer commits its rows and its marker in one transaction, so the marker is right after any failure. Batches are counted per checkpoint
incarnation: a restored savepoint starts another one, so its batches are written although their numbers were written before.

Tasks read and write markers with `CommitMarker` of the Java module, which has the same format.
"""

import json
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class CommitMarker:
    """The last batch that a writer has written in each checkpoint incarnation.

    `generation` is the driver whose tasks may write. `producer` names the client that wrote last; it is empty after a takeover.
    """

    generation: int
    producer: str = ""
    written: dict[str, int] = field(default_factory=dict)

    def to_text(self) -> str:
        """Return the marker as the metadata of an offset."""
        return json.dumps(
            {"generation": self.generation, "producer": self.producer, "written": self.written},
            separators=(",", ":"),
        )

    @property
    def last(self) -> int:
        """Return the last written batch; -1 before the first."""
        return next(reversed(self.written.values()), -1)

    def taken_over(self, generation: int, incarnation: str | None, planned: int) -> "CommitMarker":
        """Return the marker for the tasks of another driver. `planned` is its last planned batch in this incarnation.

        A written batch that the checkpoint of this driver does not have is removed: the driver will plan another one with that number.
        """
        written = {
            name: batch for name, batch in self.written.items() if name != incarnation or batch <= planned
        }
        return replace(self, generation=generation, producer="", written=written)


def parse_marker(text: str | None) -> CommitMarker | None:
    """Return the marker in the metadata of an offset; None if there is none, or another program wrote it."""
    try:
        found = json.loads(text or "")
        written = {str(name): int(batch) for name, batch in found["written"].items()}
        return CommitMarker(int(found["generation"]), str(found["producer"]), written)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
