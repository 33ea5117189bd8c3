"""The step of a join of two tables that pairs rows with equal values, as each post with each follower of its author.

The value is the key of neither table, so both have a step before it that follows where their rows are: `FollowStep` of `table_join`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kappa_pipelines.transforms.key_groups import Row, TableStep
from kappa_pipelines.transforms.stored import Kept

PUT = "put"
DROP = "drop"
LEAVE = "leave"
"""Verbs of messages: a row is here, is deleted, or is elsewhere. The body of `leave` is the value that the row has now."""
LEFT, RIGHT = "left", "right"
Rows = dict[str, str]
"""The bodies of rows by their keys."""


@dataclass
class _Side:
    """The rows of a table with one value: before the batch, those that are put, and those that are gone, with their new value."""

    rows: Rows
    put: Rows = field(default_factory=dict)
    gone: dict[str, str | None] = field(default_factory=dict)

    def take(self, key: str, verb: str, body: str) -> None:
        """Take a message; there is one for a row."""
        if verb == PUT:
            self.put[key] = body
        else:
            self.gone[key] = body if verb == LEAVE else None

    def has_gone_to(self, key: str, value: str | None) -> bool:
        """Return whether a row has this value now; an empty one, as None, pairs nothing."""
        return bool(value) and self.gone.get(key) == value

    def find_after(self) -> Rows:
        """Return the rows after the batch."""
        return {key: body for key, body in self.rows.items() if key not in self.gone} | self.put


class PairStep(TableStep):
    """Stores the rows of both tables by the value that joins them, and pairs them.

    Input rows are (value, side, key, verb, body), output rows (left body, right body, deleted). A pair has at most one output in a
    batch. Where both rows of a pair move to the same value in one batch, the step of that value writes the pair, so it is not deleted.
    """

    native = "pair"

    def advance(self, kept: Kept, rows: Sequence[Row], watermark: int) -> Iterator[Row]:  # noqa: D102 - see Step
        messages: dict[str, list[Row]] = {}
        for value, *message in rows:
            messages.setdefault(value, []).append(tuple(message))
        for value, taken in messages.items():
            lefts, rights = kept.pop(value, ({}, {}))
            sides = {LEFT: _Side(lefts), RIGHT: _Side(rights)}
            for side, key, verb, body in taken:
                sides[side].take(key, verb, body)
            left, right = sides[LEFT], sides[RIGHT]
            yield from _delete_pairs(left, right)
            after = left.find_after(), right.find_after()
            yield from _write_pairs(left.put, right.put, *after)
            if any(after):
                kept[value] = after


def _delete_pairs(left: _Side, right: _Side) -> Iterator[Row]:
    """Yield the deletions of pairs that were here and of which a row is gone."""
    for key, value in left.gone.items():
        for other, body in right.rows.items() if key in left.rows else ():
            if not right.has_gone_to(other, value):
                yield left.rows[key], body, True
    for other in right.gone.keys() & right.rows.keys():
        for key, body in left.rows.items():
            if key not in left.gone:
                yield body, right.rows[other], True


def _write_pairs(
    left_put: Mapping[str, str], right_put: Mapping[str, str], lefts: Rows, rights: Rows
) -> Iterator[Row]:
    """Yield the pairs of which a row has changed."""
    for body in left_put.values():
        for other in rights.values():
            yield body, other, False
    for key, body in lefts.items():
        if key not in left_put:
            for other in right_put.values():
                yield body, other, False
