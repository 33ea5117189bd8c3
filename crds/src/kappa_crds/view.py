"""Views: named queries over sources and other views, in SQL or as an operator that SQL has no word for."""

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.alias_generators import to_snake

from kappa_crds.joins import AsOfJoin, Lookup, TableJoin
from kappa_crds.model import FunctionName, Model, PositiveDuration, Rule, SqlName
from kappa_crds.pattern import Pattern
from kappa_crds.search import Search
from kappa_crds.sourcing import EventSourcing, Projection
from kappa_crds.window import Aggregates, KeyedEvents, SideOutput, Window


class SlidingLateRecords(Model):
    """Handling of late events: they have no row, and are in no window of another event."""

    side_output: SideOutput
    """Write events that came too late to a topic."""


class SlidingWindow(KeyedEvents):
    """For each event, aggregates over all events of its key within a length of time up to it, itself included.

    The same as `RANGE BETWEEN INTERVAL length PRECEDING AND CURRENT ROW` in SQL. A row is written for each event, as soon as the
    watermark has passed it; the row has the event's columns and the aggregates.
    """

    length: PositiveDuration
    """How far back from an event its window goes."""
    aggregates: Aggregates
    late_records: SlidingLateRecords | None = None
    """Handling of late events. Default: they are dropped and counted."""

    @property
    def side_output(self) -> SideOutput | None:
        """Return where events that came too late are written, if anywhere."""
        return None if self.late_records is None else self.late_records.side_output


class PythonView(Model):
    """A function that makes rows of rows: `def enrich(flights: DataFrame) -> DataFrame`.

    It is called once, when the pipeline starts, and returns a plan; Python code runs for a record only if that plan
    contains it.
    """

    function: FunctionName
    """The function as `package.module:function`, on the Python path: in the image, or from
    `spec.pythonFrom`."""
    reads: Annotated[tuple[SqlName, ...], Field(min_length=1, max_length=16)]
    """Sources and views whose DataFrames the function is given, in its order."""


_KINDS = (
    "sql",
    "python",
    "window",
    "sliding",
    "asOf",
    "lookup",
    "tableJoin",
    "pattern",
    "search",
    "eventSourced",
    "projection",
)


class View(Model):
    """A named query over sources and other views."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"[{', '.join(f'has(self.{kind})' for kind in _KINDS)}].exists_one(is, is)",
            f"set exactly one of {', '.join(_KINDS[:-1])} and {_KINDS[-1]}",
        ),
    )
    name: SqlName
    """Name by which other views and sinks refer to it."""
    sql: Annotated[str | None, Field(min_length=1, max_length=65_536)] = None
    """A SELECT in Spark SQL."""
    python: PythonView | None = None
    """A Python function that makes the rows."""
    window: Window | None = None
    """Aggregates over windows, with settings for late records."""
    sliding: SlidingWindow | None = None
    """Aggregates over a window that slides from event to event."""
    as_of: AsOfJoin | None = None
    """Events with the version of a table that was valid at their time."""
    lookup: Lookup | None = None
    """Events with the present row of a table, as soon as they come."""
    table_join: TableJoin | None = None
    """A table's rows with those of another that they refer to, kept current, with deletions."""
    search: Search | None = None
    """Documents with the stored queries that they match."""
    event_sourced: EventSourcing | None = None
    """Commands decided by Python functions: events, rejections and snapshots."""
    projection: Projection | None = None
    """The state of each aggregate, folded from its events by a Python function."""
    pattern: Pattern | None = None
    """Sequences of events of a key that match a pattern."""
    allow_unbounded_state: bool = False
    """Accept state that no watermark ends. It grows with the number of keys, or of records where records are
    joined or collected."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return what of it is set, by the names of a manifest; one, in a view that the API server took."""
        return tuple(kind for kind in _KINDS if getattr(self, to_snake(kind)) is not None)

    @property
    def kind(self) -> str:
        """Return the one thing that it is, by its name in a manifest."""
        return self.kinds[0]

    @property
    def operator(self) -> object:
        """Return the definition of its kind: the fields of the operator, or the SQL."""
        return getattr(self, to_snake(self.kind))
