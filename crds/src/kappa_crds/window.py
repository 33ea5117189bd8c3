"""Windows as an operator: `GROUP BY window(…)` of SQL, and late records, which SQL does not cover."""

from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.model import (
    COLUMN_KEYS,
    UNIQUE,
    ColumnName,
    Model,
    PositiveDuration,
    Rule,
    SqlName,
    TopicName,
)

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


class Hopping(Model):
    """Windows of one length that begin at regular times and overlap."""

    length: PositiveDuration
    """From a window's start to its end."""
    slide: PositiveDuration
    """Time from the start of a window to the start of the next one."""


class Corrections(Model):
    """Rows that came too late for a window's result are counted in, and its result is written again where
    that changed it."""

    after: Annotated[tuple[PositiveDuration, ...], Field(min_length=1, max_length=4)]
    """When a window is evaluated again, in event time after its first result, shortest first. Later
    records are dropped and counted."""


class SideOutput(Model):
    """Rows that came too late are written to a topic, so that none is lost."""

    topic: TopicName
    """Name of a Topic resource in the namespace, or of a topic that exists in Kafka. A record has the
    row as a JSON object, and headers with its origin, the window that it missed, and the watermark."""


class LateRecords(Model):
    """Settings for rows that arrive after the result of their window."""

    correct: Corrections | None = None
    """Write corrected results, each after a retraction of the previous result; the columns `revision`
    and `retraction` distinguish them."""
    side_output: SideOutput | None = None
    """Write late records to a topic; with `correct`, those that were late for the last
    correction."""


class Window(KeyedEvents):
    """Aggregates over windows of event time, for each key.

    A row has the columns of the key, `window_start` (included), `window_end` (excluded) and the aggregates.
    """

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.tumbling), has(self.hopping), has(self.session)].exists_one(is, is)",
            "set exactly one of tumbling, hopping and session",
        ),
        Rule(
            "!has(self.session) || !has(self.lateRecords) || !has(self.lateRecords.correct)",
            "a session cannot be corrected: a late row may make one session of two; use tumbling or hopping windows",
        ),
    )
    tumbling: PositiveDuration | None = None
    """Length of windows that follow each other."""
    hopping: Hopping | None = None
    """Windows that overlap."""
    session: PositiveDuration | None = None
    """Longest time between two events of one session; it ends that long after its last event."""
    aggregates: Aggregates
    late_records: LateRecords | None = None
    """Handling of late records. Default: they are dropped and counted."""

    @property
    def side_output(self) -> SideOutput | None:
        """Return where rows that came too late are written, if anywhere."""
        return None if self.late_records is None else self.late_records.side_output
