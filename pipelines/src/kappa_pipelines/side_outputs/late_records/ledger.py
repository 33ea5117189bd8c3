"""The batches of a query that dropped rows, and those that must be read again. Pure.

`seen` is the last batch whose state is known: it dropped none, it is pending, or its rows are written.
"""

from dataclasses import dataclass, replace

from kappa_pipelines.sources.batches import Batch, count_offsets

NONE_YET = -1


@dataclass(frozen=True)
class Ledger:
    """State of one query."""

    seen: int = NONE_YET
    pending: tuple[Batch, ...] = ()

    def find_new(self, number: int, late: int | None) -> tuple[int, ...]:
        """Return the batches that must be read again after this batch is committed.

        `late` is the number of rows that it dropped, None if they are not counted. Previous batches without a progress event are
        included.
        """
        unreported = range(self.seen + 1, number)
        own = (number,) if number > self.seen and late != 0 else ()
        return (*unreported, *own)

    def with_batches(self, number: int, found: tuple[Batch, ...]) -> "Ledger":
        """Add a committed batch, and those that must be read again."""
        return Ledger(max(self.seen, number), (*self.pending, *found))

    def up_to(self, number: int) -> "Ledger":
        """Return the ledger up to a batch: after a checkpoint was reset to it, later batches are repeated."""
        left = tuple(batch for batch in self.pending if batch.number <= number)
        return Ledger(min(self.seen, number), left)

    def next_part(self, sources: tuple[str, ...], limit: int) -> tuple[Batch, ...]:
        """Return the batches of one job: consecutive ones, up to the first that reaches `limit` offsets."""
        part: list[Batch] = []
        size = 0
        for batch in self.pending:
            follows = not part or batch.number == part[-1].number + 1
            if not follows or (part and size >= limit):
                break
            part.append(batch)
            size += count_offsets(batch, sources)
        return tuple(part)

    def without(self, done: tuple[Batch, ...]) -> "Ledger":
        """Remove batches whose late records are written."""
        numbers = {batch.number for batch in done}
        return replace(self, pending=tuple(each for each in self.pending if each.number not in numbers))
