"""Views: named queries over sources and other views, in SQL or as an operator that SQL has no word for."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.model import LIST_TYPE, ColumnName, Model, PositiveDuration, Rule, SqlName

_COLUMN_KEYS = Rule(
    "self.all(name, name.matches('^[A-Za-z_][A-Za-z0-9_]*$'))",
    "each name must be a column name: letters, digits and '_', no digit first",
)


class SlidingWindow(Model):
    """For each event, aggregates over all events of its key within a length of time up to it, itself included.

    What SQL says as `RANGE BETWEEN INTERVAL length PRECEDING AND CURRENT ROW`. A row comes out for each event, as soon as the
    watermark has passed it; the row has the event's columns and the aggregates.
    """

    from_: Annotated[SqlName, Field(alias="from", description="Source or view with the events.")]
    key: Annotated[
        tuple[ColumnName, ...],
        Field(
            max_length=16,
            description="Columns that events have in common; all events are together where left out.",
            json_schema_extra={LIST_TYPE: "set"},
        ),
    ] = ()
    time: Annotated[
        ColumnName | None,
        Field(description="Event-time column; may be left out where just one column has a watermark."),
    ] = None
    length: Annotated[PositiveDuration, Field(description="How far back from an event its window goes.")]
    aggregates: Annotated[
        dict[ColumnName, Annotated[str, Field(min_length=1, max_length=4096)]],
        Field(
            min_length=1,
            max_length=64,
            description="New columns and their aggregates over the window, in SQL: `{n: count(*), mean: avg(dep_delay)}`.",
        ),
        _COLUMN_KEYS,
    ]


class Unmatched(StrEnum):
    """What becomes of an event for which there is no version."""

    KEEP = "keep"
    DROP = "drop"


class AsOfJoin(Model):
    """Each event with the version of a table's row that was valid at its event time: the newest that is not younger.

    A row comes out when the watermarks of both have passed the event, so a replay gives the same rows.
    """

    from_: Annotated[SqlName, Field(alias="from", description="Source or view with the events.")]
    table: Annotated[
        SqlName,
        Field(description="Source or view with the versions: each row is valid from its event time on."),
    ]
    key: Annotated[
        dict[ColumnName, ColumnName],
        Field(
            min_length=1,
            max_length=16,
            description="Columns of the event and the columns of the table that they must equal: `{dest: faa}`.",
        ),
        _COLUMN_KEYS,
    ]
    columns: Annotated[
        dict[ColumnName, ColumnName],
        Field(
            min_length=1,
            max_length=256,
            description="New columns and the columns of the version that they are: `{wind: wind_speed}`.",
        ),
        _COLUMN_KEYS,
    ]
    max_age: Annotated[
        PositiveDuration | None,
        Field(
            description="A version older than this at the time of the event counts as none; without it every version is kept for ever."
        ),
    ] = None
    unmatched: Annotated[
        Unmatched, Field(description="Keep events without a version, with NULLs, or drop them.")
    ] = Unmatched.KEEP


class SkipTo(StrEnum):
    """Where the search for the next match begins."""

    PAST_LAST_ROW = "pastLastRow"
    NEXT_ROW = "nextRow"
    FIRST = "first"
    LAST = "last"


class Skip(Model):
    """Where the search goes on after a match, as `AFTER MATCH SKIP` in SQL."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.step) == (self.to in ['first', 'last'])",
            "set step where to is first or last, and only there",
        ),
    )
    to: Annotated[
        SkipTo,
        Field(
            description="After the match's last row, at the row after its first, or at its first or last row of a step."
        ),
    ] = SkipTo.PAST_LAST_ROW
    step: Annotated[
        ColumnName | None, Field(description="The step at whose first or last row the search goes on.")
    ] = None


_Expression = Annotated[str, Field(min_length=1, max_length=4096)]


class Pattern(Model):
    """Events of a key that follow each other as a pattern says, as `MATCH_RECOGNIZE` in SQL: one row for each match.

    Events are sorted by event time once the watermark has passed them, so the order in which they arrive changes nothing. A
    row has the key, the measures, `match_start` and `match_end`, and `match_time`: when the match became certain, which carries
    the watermark.
    """

    from_: Annotated[SqlName, Field(alias="from", description="Source or view with the events.")]
    key: Annotated[
        tuple[ColumnName, ...],
        Field(
            max_length=16,
            description="Columns that the events of a match have in common; all events are together where left out.",
            json_schema_extra={LIST_TYPE: "set"},
        ),
    ] = ()
    time: Annotated[
        ColumnName | None,
        Field(description="Event-time column; may be left out where just one column has a watermark."),
    ] = None
    steps: Annotated[
        str,
        Field(
            min_length=1,
            max_length=1024,
            description="What follows what: `A B+ (C | D)? E{2,3}`, reluctant with a further `?`; `!X` passes over events until the next step, or to the end of `within`, and allows no X among them.",
        ),
    ]
    define: Annotated[
        dict[ColumnName, _Expression],
        Field(
            min_length=1,
            max_length=60,
            description="Steps and the conditions on their events, in SQL: `{B: price < LAST(A.price)}`. A step that is not here is any event.",
        ),
        _COLUMN_KEYS,
    ]
    measures: Annotated[
        dict[ColumnName, _Expression],
        Field(
            default_factory=dict,
            max_length=64,
            description="New columns and what they are of a match, in SQL: `{lowest: MIN(B.price), n: COUNT(*)}`.",
        ),
        _COLUMN_KEYS,
    ]
    within: Annotated[
        PositiveDuration | None,
        Field(
            description="How long after its first event the last one of a match may be; without it state is unbounded."
        ),
    ] = None
    skip: Annotated[Skip, Field(description="Where the search goes on after a match.")] = Skip()


class PythonView(Model):
    """A function of the image that makes rows of rows: `def enrich(flights: DataFrame) -> DataFrame`.

    It is called once, when the pipeline starts, and returns a plan; Python code runs for a record only where that plan
    says so.
    """

    function: Annotated[
        str,
        Field(
            max_length=253,
            description="The function as `package.module:function`, on the image's Python path.",
        ),
        Rule(
            "self.matches('^[A-Za-z_][A-Za-z0-9_]*([.][A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$')",
            "must be a module and a function in it, such as delays.views:enrich",
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


class View(Model):
    """A named query over sources and other views."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.sql), has(self.python), has(self.sliding), has(self.asOf), has(self.pattern)].exists_one(is, is)",
            "set exactly one of sql, python, sliding, asOf and pattern",
        ),
    )
    name: Annotated[SqlName, Field(description="Name by which other views and sinks refer to it.")]
    sql: Annotated[
        str | None, Field(min_length=1, max_length=65_536, description="A SELECT in Spark SQL.")
    ] = None
    python: Annotated[PythonView | None, Field(description="A Python function that makes the rows.")] = None
    sliding: Annotated[
        SlidingWindow | None, Field(description="Aggregates over a window that slides from event to event.")
    ] = None
    as_of: Annotated[
        AsOfJoin | None, Field(description="Events with the version of a table that was valid at their time.")
    ] = None
    pattern: Annotated[
        Pattern | None, Field(description="Events of a key that follow each other as a pattern says.")
    ] = None
    allow_unbounded_state: Annotated[
        bool,
        Field(
            description="Accept state that no watermark ends and that grows with the number of keys, where those are few."
        ),
    ] = False
