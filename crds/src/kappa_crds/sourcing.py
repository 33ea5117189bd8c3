"""Event sourcing: aggregates whose state is nothing but the fold of their events."""

from typing import Annotated

from pydantic import Field

from kappa_crds.model import UNIQUE, ColumnName, FunctionName, Model, SqlName

_Key = Annotated[
    tuple[ColumnName, ...],
    Field(min_length=1, max_length=16, description="Columns that identify the aggregate."),
    UNIQUE,
]
_Evolve = Annotated[
    FunctionName,
    Field(
        description="`evolve(state, event)` returns the state after an event; pure, and the first state is None."
    ),
]


class EventSourcing(Model):
    """Commands, each validated against the state of its aggregate: events, or a rejection, come out in order.

    The rows have the columns of `key`, `order`, `id` and `carry`, and: `sequence`, the number of the aggregate's events up to here;
    `kind`, one of event, rejection, duplicate, error and snapshot; `type`, the event's name; `data`, the event as JSON, or the state of a
    snapshot, or the command; and `reason`.
    """

    from_: Annotated[SqlName, Field(alias="from")]
    """Source or view with the commands."""
    key: _Key
    order: Annotated[tuple[ColumnName, ...], Field(min_length=1, max_length=8), UNIQUE]
    """Columns by which the commands of an aggregate are in order, such as partition and offset of
    `recordColumns`; all commands of an aggregate must be in one partition."""
    decide: FunctionName
    """`decide(state, command)` returns a list of events, or Rejected; pure, as `package.module:function`."""
    evolve: _Evolve
    id: ColumnName | None = None
    """Column that identifies a command: a second one of the same aggregate does nothing."""
    remember: Annotated[int, Field(ge=1, le=1000)] = 100
    """How many identifiers of each aggregate are remembered."""
    snapshot_every: Annotated[int | None, Field(ge=1)] = None
    """A snapshot comes out after each so many events of an aggregate."""
    carry: Annotated[tuple[ColumnName, ...], Field(max_length=64), UNIQUE] = ()
    """Further columns of the command that its rows have."""


class Projection(Model):
    """The state of each aggregate, folded from its events: a row with `sequence` and `state` after each event.

    Events may arrive in any order and more than once; their sequence, 1, 2 and so on, defines their order. Where `evolve`
    fails, the row has no state and an `error`, and the event is tried again.
    """

    from_: Annotated[SqlName, Field(alias="from")]
    """Source or view with the events."""
    key: _Key
    sequence: ColumnName = "sequence"
    """Column with the number of the event."""
    event: ColumnName = "data"
    """Column with the event as JSON."""
    state: ColumnName | None = None
    """Column with a state as JSON: a row that has one is a snapshot, and events up to it are not needed."""
    evolve: _Evolve
    every: Annotated[int, Field(ge=1)] = 1
    """Only states after each so many events of an aggregate come out."""
