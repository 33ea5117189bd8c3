"""What operators over the events of a key have in common."""

from typing import Annotated

from pydantic import Field

from kappa_crds.model import COLUMN_KEYS, UNIQUE, ColumnName, Model, SqlName

Aggregates = Annotated[
    dict[ColumnName, Annotated[str, Field(min_length=1, max_length=4096)]],
    Field(
        min_length=1,
        max_length=64,
        description="New columns and their aggregates over the window, in SQL: `{n: count(*), mean: avg(dep_delay)}`.",
    ),
    COLUMN_KEYS,
]


class KeyedEvents(Model):
    """The events that an operator reads, and what puts them together and in order."""

    from_: Annotated[SqlName, Field(alias="from")]
    """Source or view with the events."""
    key: Annotated[tuple[ColumnName, ...], Field(max_length=16), UNIQUE] = ()
    """Columns that events have in common; all events are together where left out."""
    time: ColumnName | None = None
    """Event-time column; may be left out where just one column has a watermark."""
