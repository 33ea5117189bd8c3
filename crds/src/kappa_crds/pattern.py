"""Patterns of events, after `MATCH_RECOGNIZE` of SQL."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.model import COLUMN_KEYS, ColumnName, Model, PositiveDuration, Rule
from kappa_crds.window import KeyedEvents


class SkipTo(StrEnum):
    """Where the search for the next match begins."""

    PAST_LAST_ROW = "pastLastRow"
    NEXT_ROW = "nextRow"
    FIRST = "first"
    LAST = "last"


class Skip(Model):
    """Where the search continues after a match, as `AFTER MATCH SKIP` in SQL."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.step) == (self.to in ['first', 'last'])",
            "set step where to is first or last, and only there",
        ),
    )
    to: SkipTo = SkipTo.PAST_LAST_ROW
    """After the match's last row, at the row after its first, or at its first or last row of a step."""
    step: ColumnName | None = None
    """The step at whose first or last row the search continues."""


_Expression = Annotated[str, Field(min_length=1, max_length=4096)]


class Pattern(KeyedEvents):
    """Sequences of events of a key that match a pattern, as `MATCH_RECOGNIZE` in SQL: one row for each match.

    Events are sorted by event time once the watermark has passed them, so the order in which they arrive changes nothing. A
    row has the key, the measures, `match_start` and `match_end`, and `match_time`: when the match became certain, which carries
    the watermark.
    """

    steps: Annotated[str, Field(min_length=1, max_length=1024)]
    """What follows what: `A B+ (C | D)? E{2,3}`, reluctant with a further `?`; `!X` passes over events until
    the next step, or to the end of `within`, and allows no X among them."""
    define: Annotated[dict[ColumnName, _Expression], Field(min_length=1, max_length=60), COLUMN_KEYS]
    """Steps and the conditions on their events, in SQL: `{B: price < LAST(A.price)}`. A step that is not here
    is any event."""
    measures: Annotated[
        dict[ColumnName, _Expression], Field(default_factory=dict, max_length=64), COLUMN_KEYS
    ]
    """New columns and what they are of a match, in SQL: `{lowest: MIN(B.price), n: COUNT(*)}`."""
    within: PositiveDuration | None = None
    """How long after its first event the last one of a match may be; without it state is unbounded."""
    skip: Skip = Skip()
    """Where the search continues after a match."""
