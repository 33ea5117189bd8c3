"""Views: named queries over sources and other views, in SQL or as an operator that SQL has no word for."""

from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.alias_generators import to_snake

from kappa_crds.events import Aggregates, KeyedEvents
from kappa_crds.joins import AsOfJoin, Lookup, TableJoin
from kappa_crds.model import (
    FunctionName,
    Model,
    PositiveDuration,
    Rule,
    SqlName,
)
from kappa_crds.pattern import Pattern
from kappa_crds.search import Search
from kappa_crds.sourcing import EventSourcing, Projection
from kappa_crds.window import SideOutput, Window


class SlidingLateRecords(Model):
    """What becomes of events that the watermark has passed: they have no row, and are in no other event's window."""

    side_output: Annotated[SideOutput, Field(description="Write events that came too late to a topic.")]


class SlidingWindow(KeyedEvents):
    """For each event, aggregates over all events of its key within a length of time up to it, itself included.

    What SQL says as `RANGE BETWEEN INTERVAL length PRECEDING AND CURRENT ROW`. A row comes out for each event, as soon as the
    watermark has passed it; the row has the event's columns and the aggregates.
    """

    length: Annotated[PositiveDuration, Field(description="How far back from an event its window goes.")]
    aggregates: Aggregates
    late_records: Annotated[
        SlidingLateRecords | None,
        Field(description="What becomes of events that come too late; dropped and counted where left out."),
    ] = None

    @property
    def side_output(self) -> SideOutput | None:
        """Return where events that came too late are written, if anywhere."""
        return None if self.late_records is None else self.late_records.side_output


class PythonView(Model):
    """A function that makes rows of rows: `def enrich(flights: DataFrame) -> DataFrame`.

    It is called once, when the pipeline starts, and returns a plan; Python code runs for a record only where that plan
    says so.
    """

    function: Annotated[
        FunctionName,
        Field(
            description="The function as `package.module:function`, on the Python path: in the image, or from `spec.pythonFrom`."
        ),
    ]
    reads: Annotated[
        tuple[SqlName, ...],
        Field(
            min_length=1,
            max_length=16,
            description="Sources and views whose DataFrames the function is given, in its order.",
        ),
    ]


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
    name: Annotated[SqlName, Field(description="Name by which other views and sinks refer to it.")]
    sql: Annotated[
        str | None, Field(min_length=1, max_length=65_536, description="A SELECT in Spark SQL.")
    ] = None
    python: Annotated[PythonView | None, Field(description="A Python function that makes the rows.")] = None
    window: Annotated[
        Window | None,
        Field(description="Aggregates over windows, with a choice of what becomes of stragglers."),
    ] = None
    sliding: Annotated[
        SlidingWindow | None, Field(description="Aggregates over a window that slides from event to event.")
    ] = None
    as_of: Annotated[
        AsOfJoin | None, Field(description="Events with the version of a table that was valid at their time.")
    ] = None
    lookup: Annotated[
        Lookup | None, Field(description="Events with the present row of a table, as soon as they come.")
    ] = None
    table_join: Annotated[
        TableJoin | None,
        Field(
            description="A table's rows with those of another that they refer to, kept current, with deletions."
        ),
    ] = None
    search: Annotated[
        Search | None, Field(description="Documents with the stored queries that they match.")
    ] = None
    event_sourced: Annotated[
        EventSourcing | None,
        Field(description="Commands decided by Python functions: events, rejections and snapshots."),
    ] = None
    projection: Annotated[
        Projection | None,
        Field(description="The state of each aggregate, folded from its events by a Python function."),
    ] = None
    pattern: Annotated[
        Pattern | None, Field(description="Events of a key that follow each other as a pattern says.")
    ] = None
    allow_unbounded_state: Annotated[
        bool,
        Field(
            description="Accept state that no watermark ends. It grows with the number of keys, or of records where records are joined or collected."
        ),
    ] = False

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
        """Return what its kind says: the operator's fields, or the SQL."""
        return getattr(self, to_snake(self.kind))
