"""Which batches of a query dropped rows, and which of them are still to be read again. Pure.

`seen` is the last batch of which that is known: it dropped none, or it is pending, or its rows are written.
"""

from dataclasses import dataclass, replace

from kappa_pipelines.sources.batches import Batch, count_offsets

NONE_YET = -1


@dataclass(frozen=True)
class Ledger:
    """What is known of one query."""

    seen: int = NONE_YET
    pending: tuple[Batch, ...] = ()

    def find_new(self, number: int, late: int | None) -> tuple[int, ...]:
        """Return the batches that are to be read again now that a batch is committed.

        `late` are the rows that it dropped, None where nobody has counted. Batches before it of which nothing was heard
        are among them.
        """
        unheard = range(self.seen + 1, number)
        own = (number,) if number > self.seen and late != 0 else ()
        return (*unheard, *own)

    def with_batches(self, number: int, found: tuple[Batch, ...]) -> "Ledger":
        """Take note of a committed batch and of those that are to be read again."""
        return Ledger(max(self.seen, number), (*self.pending, *found))

    def up_to(self, number: int) -> "Ledger":
        """Return what is known of batches up to one: where a checkpoint was set back to it, the others come again."""
        left = tuple(batch for batch in self.pending if batch.number <= number)
        return Ledger(min(self.seen, number), left)

    def next_part(self, sources: tuple[str, ...], limit: int) -> tuple[Batch, ...]:
        """Return the batches that one job reads: the first and those right after it, with `limit` offsets or little more."""
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
        """Take note that the stragglers of some batches are written."""
        numbers = {batch.number for batch in done}
        return replace(self, pending=tuple(each for each in self.pending if each.number not in numbers))
