"""What a pipeline reads: a topic, how its values become columns, and when things happened."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from kappa_crds.envelope import Envelope, Transactions
from kappa_crds.format import Format, SchemaRegistry
from kappa_crds.model import (
    UNIQUE,
    ColumnName,
    Duration,
    Model,
    PositiveDuration,
    Rule,
    SqlName,
    TopicName,
    TopicPattern,
)


class IsolationLevel(StrEnum):
    """Which records of Kafka's transactions are read (Kafka's consumer setting isolation.level)."""

    READ_COMMITTED = "ReadCommitted"
    READ_UNCOMMITTED = "ReadUncommitted"


class ClockCorrection(Model):
    """Event time by the clock of the receiver of a record, because the clocks of senders may be wrong.

    Event time = occurred + (received - sent): what a sender's clock is off by is in both of its own times and falls
    out; what is left is the time on the way, which counts as part of the correction. Source: M. Kleppmann, Designing
    Data-Intensive Applications, chapter 11, on assigning timestamps with unreliable device clocks.
    """

    occurred: ColumnName
    """TIMESTAMP column: when it happened, by the sender's clock."""
    sent: ColumnName
    """TIMESTAMP column: when it was sent, by the same clock."""
    received: ColumnName
    """TIMESTAMP column: when it was received, by a clock that is right; Kafka's own where it names
    recordColumns.timestamp."""
    max: PositiveDuration = "1d"
    """Largest correction in either direction; a larger one is cut to it."""


class EpochUnit(StrEnum):
    """Unit of a number that counts the time since 1970-01-01T00:00:00Z."""

    SECONDS = "Seconds"
    MILLISECONDS = "Milliseconds"
    MICROSECONDS = "Microseconds"


class EventTime(Model):
    """When things happened, and how late they may arrive."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.epochUnit) || !has(self.clockCorrection)",
            "epochUnit and clockCorrection do not go together; declare the columns of the correction as TIMESTAMP",
        ),
    )
    column: ColumnName
    """The TIMESTAMP column with the time of the event, or with epochUnit a number; with clockCorrection a new
    column of that name."""
    epoch_unit: EpochUnit | None = None
    """Unit of a BIGINT or INT column that counts the time since 1970; views read the column as TIMESTAMP."""
    watermark: Duration
    """How far out of order records may be; later ones count as late."""
    max_ahead: Duration = "1d"
    """How far the time of an event may be after Kafka's timestamp of its record. A record further ahead, or
    not in the years 1 to 9999, is a dead letter: its watermark would close the windows of all other records."""
    clock_correction: ClockCorrection | None = None
    """Computes the event time from three times, for senders whose clocks may be wrong."""
    idle_after: PositiveDuration | None = None
    """How long the source may have no records, read to its end, until it no longer holds back the
    watermark: it is then taken to be as far as the sources that are read with it, and later rows may be
    late. Default: it holds back the watermark without limit."""


class RecordColumns(Model):
    """Columns that a record has besides its value; each is added under the name given here."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[self.?key, self.?timestamp, self.?headers, self.?topic, self.?partition, self.?offset]"
            ".filter(c, c.hasValue()).map(c, c.value()).all(c, [self.?key, self.?timestamp, self.?headers,"
            " self.?topic, self.?partition, self.?offset].exists_one(other, other.orValue('') == c))",
            "two of recordColumns have the same name; give each column its own",
        ),
    )
    key: ColumnName | None = None
    """Column for the record's key, as STRING."""
    timestamp: ColumnName | None = None
    """Column for Kafka's timestamp of the record."""
    headers: ColumnName | None = None
    """Column for the headers, as `ARRAY<STRUCT<key STRING, value BINARY>>`."""
    topic: ColumnName | None = None
    """Column for the topic's name."""
    partition: ColumnName | None = None
    """Column for the partition, as INT."""
    offset: ColumnName | None = None
    """Column for the offset, as BIGINT."""


def _name_subject(format_: str) -> Rule:
    """Build the rule that a registry has a subject where no single topic gives it one."""
    registry = f"format.{format_}.registry"
    return Rule(
        f"has(self.topic) || !has(self.format) || !has(self.format.{format_}) || !has(self.{registry})"
        f" || has(self.{registry}.subject)",
        f"with topics or topicPattern, set {registry}.subject: it has a default only for a single topic",
    )


def _check_start(text: str) -> str:
    """Raise ValueError for a date that no calendar has, which the pattern of the schema takes."""
    if text not in ("earliest", "latest"):
        datetime.fromisoformat(text)
    return text


class Source(Model):
    """Topics read as one stream."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.topic), has(self.topics), has(self.topicPattern)].exists_one(is, is)",
            "set exactly one of topic, topics and topicPattern",
        ),
        _name_subject("avro"),
        _name_subject("protobuf"),
        Rule(
            "!has(self.envelope) || (has(self.format) && has(self.format.json) && !has(self.format.json.timestampFormat))",
            "envelope needs format.json, without timestampFormat: change events are read in JSON",
        ),
        Rule(
            "!has(self.envelope) || !has(self.tombstones)",
            "envelope has its own column for deletions; replace tombstones by envelope.debezium.columns.deleted",
        ),
        Rule(
            "!has(self.envelope) || !has(self.envelope.debezium.transactions) || (!has(self.topicPattern)"
            " && (!has(self.startingOffsets) || self.startingOffsets == 'earliest')"
            " && (!has(self.isolationLevel) || self.isolationLevel == 'ReadCommitted'))",
            "envelope.debezium.transactions needs topics by name, startingOffsets earliest and isolationLevel ReadCommitted:"
            " a transaction is read from its first change on",
        ),
    )
    name: SqlName
    """Name by which views refer to it."""
    topic: TopicName | None = None
    """Name of a Topic resource in the namespace, or of a topic in Kafka where there is none."""
    topics: Annotated[tuple[TopicName, ...] | None, Field(min_length=1, max_length=32), UNIQUE] = None
    """Several topics, named like `topic`; they have the same format and share a watermark."""
    topic_pattern: TopicPattern | None = None
    """A regular expression that a topic's whole name in Kafka fits, such as `flights-.*`; topics that are
    made later are read from their beginning."""
    format: Format
    """How the value is read."""
    envelope: Envelope | None = None
    """For change events of a database: the format's schema is that of the row, and the event describes its
    change."""
    event_time: EventTime | None = None
    """Event time and watermark."""
    record_columns: RecordColumns | None = None
    """Key, timestamp, headers and position of the record as columns."""
    tombstones: ColumnName | None = None
    """New BOOLEAN column that is true for a tombstone, a record without value that deletes the row of its key
    (see recordColumns.key); its other columns are NULL. Without this a record without value is a dead
    letter."""
    starting_offsets: Annotated[
        str,
        Field(max_length=64),
        AfterValidator(_check_start),
        Rule(
            "self == 'earliest' || self == 'latest' || self.matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$')",
            "must be earliest, latest, or a time such as 2013-01-01T00:00:00Z",
        ),
    ] = "earliest"
    """Where a new pipeline starts: earliest, latest, or a time (RFC 3339)."""
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED
    """ReadCommitted: records of aborted transactions are not read, and a record in an open transaction holds
    back those after it in its partition. ReadUncommitted: every record is read when it is written, also one
    that is aborted later."""

    @property
    def is_committed(self) -> bool:
        """Return whether only committed records are read."""
        return self.isolation_level is IsolationLevel.READ_COMMITTED

    @property
    def topic_names(self) -> tuple[str, ...]:
        """Return the topics that are named; none where there is a pattern."""
        return self.topics or ((self.topic,) if self.topic is not None else ())

    @property
    def transactions(self) -> Transactions | None:
        """Return where the transactions of its changes end, if they are read as a whole."""
        return self.envelope.debezium.transactions if self.envelope is not None else None

    @property
    def read_names(self) -> tuple[str, ...]:
        """Return all topics that are named: those with its records, and that of transactions."""
        return (*self.topic_names, *((self.transactions.topic,) if self.transactions is not None else ()))

    @property
    def reads(self) -> str:
        """Return what is read, for people."""
        if self.topic_pattern is not None:
            return f"topics like {self.topic_pattern}"
        names = ", ".join(self.topic_names)
        return f"topics {names}" if len(self.topic_names) > 1 else f"topic {names}"


def find_registries(sources: tuple[Source, ...]) -> tuple[tuple[str, SchemaRegistry], ...]:
    """Return the name and the registry of each source that has one."""
    found = [(source.name, source.format.registry) for source in sources]
    return tuple((name, registry) for name, registry in found if registry is not None)
