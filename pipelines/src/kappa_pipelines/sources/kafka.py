"""Topics as a stream of the declared columns.

The plan of a source is: Kafka → one parse → count of malformed records → valid records → columns. The
counts of all and of malformed records are observed metrics named like the source; they travel with the batch's
progress and need no second scan.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StructType, TimestampType

from kappa_crds import batches
from kappa_crds.reasons import Reason
from kappa_crds.replay import ReplayProfile
from kappa_crds.revision import Revision
from kappa_crds.source import RecordColumns, Source
from kappa_pipelines.checkpoint.format.offsets import PARTITION_SHIFT, Offsets, nest_offsets
from kappa_pipelines.errors import SpecError
from kappa_pipelines.executors import count_cores, count_executor_cores, count_replay_factor
from kappa_pipelines.kafka.consumers import bound_fetches, build_reader_options
from kappa_pipelines.kafka.native import find_table_format
from kappa_pipelines.kafka.options import build_spark_connection, prefix_options
from kappa_pipelines.kafka.subscription import Subscription, build_subscription
from kappa_pipelines.registry.subject import Subject
from kappa_pipelines.sources.change_events import ChangeEvents
from kappa_pipelines.sources.event_time import (
    add_watermark,
    build_time,
    check_event_time,
    explain_wrong,
    is_wrong,
)
from kappa_pipelines.sources.formats import build_values
from kappa_pipelines.sources.native_changes import read_natively
from kappa_pipelines.sources.values import Values

MALFORMED = "malformed"
ROWS = "rows"
FIRST, LAST = "first", "last"
LATEST = "latest"
REPLAY_CONSUMER = {"receive.buffer.bytes": "-1"}
"""The kernel sizes the buffer; Spark's 64 KiB would bound the rate by the delay of the network."""
BATCH_CONSUMER = {"fetch.max.wait.ms": "10"}
"""With the records of a fetch Kafka's client requests those that follow, and Spark then requests the ends of the partition on the same connection.
At the end of a log this waits until there are records, or for this time; Kafka's default is half a second."""
_FIRST_PART = 4
"""Of the most records, the first batch of a pipeline has one of so many parts. A fast one then has one batch more, of half a second."""
_PYTHON_RECORDS_PER_CORE = 200_000
_EARLIEST = -2  # an offset, as Spark writes it
_PARSED = "__kappa_parsed"
_FLAG = "__kappa_malformed"
_POSITION = "__kappa_position"
_IS_NULL = "__kappa_is_null"
_RECORD_COLUMNS = {
    "key": "CAST(key AS STRING)",
    "timestamp": "timestamp",
    "headers": "headers",
    "topic": "topic",
    "partition": "partition",
    "offset": "offset",
}


RECORD_SCHEMA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP,"
    " timestampType INT, headers ARRAY<STRUCT<key STRING, value BINARY>>"
)
"""The columns of Spark's Kafka source."""


@dataclass(frozen=True)
class KafkaSource:
    """A source with its format checked and its topics resolved."""

    spec: Source
    subscription: Subscription
    values: Values

    @property
    def name(self) -> str:
        """Return the name by which views refer to it."""
        return self.spec.name

    @property
    def schema(self) -> StructType:
        """Return the declared columns."""
        return self.values.schema

    def find_malformed(self, parsed: Column, is_null: Column) -> Column:
        """Return whether a record is invalid or has an invalid event time. Where tombstones are expected, a NULL value is valid.

        The rows must have Kafka's column `timestamp`.
        """
        malformed = self.values.is_malformed(parsed)
        if self.spec.event_time is not None:
            malformed |= is_wrong(self.spec.event_time, self.find(parsed), f.col("timestamp"))
        return malformed if self.spec.tombstones is None else malformed & ~is_null

    @property
    def skips_tombstones(self) -> bool:
        """Return whether tombstones are valid records without a row."""
        envelope = self.spec.envelope
        return envelope is not None and envelope.debezium.columns.deleted is None

    def explain(self, parsed: Column, texts: Column) -> Column:
        """Return why a record is malformed; `texts` is its parse as text."""
        explained = self.values.explain(parsed, texts)
        if self.spec.event_time is None:
            return explained
        wrong = explain_wrong(self.spec.event_time, self.find(parsed), f.col("timestamp"))
        return f.when(self.values.is_malformed(parsed), explained).otherwise(wrong)

    def find(self, parsed: Column) -> Callable[[str], Column]:
        """Return a function that finds a column by its name, in the value or in the record's metadata."""
        beside = {
            name.lower(): _RECORD_COLUMNS[field] for field, name in _wanted_record_columns(self).items()
        }

        def find(name: str) -> Column:
            found = beside.get(name.lower())
            return self.values.columns(parsed)[name] if found is None else f.expr(found)

        return find


def build_source(revision: Revision, source: Source, subject: Subject | None = None) -> KafkaSource:
    """Return the source, checked; SpecError if it is invalid. Needs an active Spark session."""
    checked = KafkaSource(source, build_subscription(revision, source), build_values(source, subject))
    _check_record_columns(checked)
    check_event_time(source, _types(checked))
    return checked


def read_stream(
    records: DataFrame,
    source: KafkaSource,
    *,
    alert: bool = True,
    idle: DataFrame | None = None,
    watched: bool = False,
    located: bool = False,
    keep: tuple[str, ...] = (),
) -> DataFrame:
    """Return the stream of a source's valid records, with its watermark.

    With `alert`, a record with a new schema id fails the query. `idle` are the watermarks of the source while it is idle.
    With `watched`, progress has its latest event time; with `located`, the positions of malformed records, if the source has one topic.
    `keep` are further columns of the records.
    """
    passed = [f.col(name) for name in dict.fromkeys((*_wanted_record_columns(source), "timestamp", *keep))]
    located &= len(source.subscription.topics) == 1
    position = f.shiftleft(f.col("partition").cast("bigint"), PARTITION_SHIFT) + f.col("offset")
    passed += [position.alias(_POSITION)] if located else []
    is_null = f.col("value").isNull().alias(_IS_NULL)
    value = source.values.parse(alert=alert).alias(_PARSED)
    parsed = records.select(*passed, is_null, value)
    if isinstance(source.values, ChangeEvents):
        parsed = read_natively(parsed, _PARSED, source.values)
    malformed = source.find_malformed(f.col(_PARSED), f.col(_IS_NULL))
    # The count is faster over flat columns and a flag than over the struct.
    kept = (*keep, _POSITION) if located else keep
    skipped = [f.col(_IS_NULL)] if source.skips_tombstones else []
    flat = parsed.select(*_columns(source), *kept, *skipped, malformed.alias(_FLAG))
    observed = _observe(flat, source, latest=watched, located=located)
    rows = observed.where(~f.col(_FLAG)).drop(_FLAG, _POSITION)
    rows = rows.where(~f.col(_IS_NULL)).drop(_IS_NULL) if skipped else rows
    return add_watermark(rows, source.spec.event_time, idle)


def _observe(rows: DataFrame, source: KafkaSource, *, latest: bool, located: bool) -> DataFrame:
    """Return the rows with observed metrics: counts of all and of malformed records, the latest event time, where malformed ones are."""
    counts = [f.count_if(f.col(_FLAG)).alias(MALFORMED), f.count(f.lit(1)).alias(ROWS)]
    time = source.spec.event_time
    if latest and time is not None:
        newest = f.max(f.when(~f.col(_FLAG), f.unix_millis(f.col(f"`{time.column}`"))))
        counts.append(newest.alias(LATEST))
    if located:
        position = f.when(f.col(_FLAG), f.col(_POSITION))
        counts += [f.min(position).alias(FIRST), f.max(position).alias(LAST)]
    return rows.observe(source.name, *counts)


def read_range(
    spark: SparkSession, revision: Revision, source: Source, start: Offsets, end: Offsets
) -> DataFrame:
    """Return the records of a source from `start` to `end`, excluded, as a table; a partition without start is read from its first record."""
    begin = {partition: start.get(partition, _EARLIEST) for partition in end}
    options = {
        **_common_options(revision, source, BATCH_CONSUMER),
        "assign": json.dumps({topic: list(parts) for topic, parts in nest_offsets(end).items()}),
        "startingOffsets": json.dumps(nest_offsets(begin)),
        "endingOffsets": json.dumps(nest_offsets(end)),
        "includeHeaders": "true",
    }
    return spark.read.format(find_table_format(revision.spark_conf)).options(**options).load()


def build_read_options(
    revision: Revision,
    source: KafkaSource,
    replay: ReplayProfile | None = None,
    topics: Mapping[str, int] | None = None,
) -> dict[str, str]:
    """Return the options of Spark's Kafka source. In a replay it reads nothing before the query is paced.

    `topics` are those of Kafka with their partitions, where they are known.
    """
    tuning, topics = revision.tuning, topics or {}
    factor = count_replay_factor(revision, replay)
    is_real_time = revision.spec.trigger.real_time is not None
    options = {
        **_common_options(revision, source.spec, {} if is_real_time else BATCH_CONSUMER),
        **prefix_options(bound_fetches(revision, topics)),
        **build_reader_options(revision, source.subscription, topics, factor),
        **_starting_options(_find_start(source.spec, replay)),
        **source.subscription.options,
    }
    # In real-time mode Spark refuses to bound a batch, and reads each partition in its own task.
    # A batch of whole transactions is bounded by where they end.
    if not is_real_time and source.spec.transactions is None:
        options |= _build_batch_limit(revision)
        options |= {} if replay is None else {"maxOffsetsPerTrigger": "0"}
    if replay is not None:
        options |= prefix_options(REPLAY_CONSUMER)
        options |= {} if replay.client_id is None else {"kafka.client.id": replay.client_id}
    if tuning.min_partitions is not None and not is_real_time:
        options["minPartitions"] = str(tuning.min_partitions * factor)
    if source.spec.record_columns is not None and source.spec.record_columns.headers is not None:
        options["includeHeaders"] = "true"
    return options


def _common_options(revision: Revision, source: Source, consumer: Mapping[str, str]) -> dict[str, str]:
    """Return the options of streams and tables; the settings of a revision override those of `consumer`."""
    return {
        **build_spark_connection(revision.kafka),
        **prefix_options({**consumer, **revision.tuning.consumer}),
        "kafka.isolation.level": "read_committed" if source.is_committed else "read_uncommitted",
        "groupIdPrefix": revision.consumer_group,
        "failOnDataLoss": "true",
    }


def find_max_records(revision: Revision) -> int:
    """Return the maximum number of records of a source in a batch."""
    most = batches.find_most_records(revision.spec.trigger, count_executor_cores(revision))
    return max(1, most // len(revision.spec.sources))


def is_timed(revision: Revision) -> bool:
    """Return whether batches are bounded by the time that they take."""
    return batches.is_timed(revision.spec, revision.spark_conf)


def _build_batch_limit(revision: Revision) -> dict[str, str]:
    """Return the options that bound a batch."""
    most = find_max_records(revision)
    if not is_timed(revision):
        return {"maxOffsetsPerTrigger": str(most)}
    return {
        "kappaTargetMillis": str(round(1000 * batches.find_seconds(revision.spec.trigger))),
        "kappaFirstRecords": str(find_first_records(revision)),
        "kappaMostRecords": str(most),
    }


def find_first_records(revision: Revision) -> int:
    """Return the maximum number of records of a source in the first batch of a pipeline, whose cost is not known: few where Python is slow.

    With an interval that is longer than a batch is to take, its rest would wait for the next one, so then it has the most records.
    """
    most, seconds = find_max_records(revision), batches.find_seconds(revision.spec.trigger)
    if seconds > batches.BATCH_SECONDS:
        return most
    first = most // _FIRST_PART
    if revision.spec.python:
        slow = _PYTHON_RECORDS_PER_CORE * (count_cores(revision) or 1) // len(revision.spec.sources)
        first = min(first, slow)
    return max(1, first)


def _find_start(source: Source, replay: ReplayProfile | None) -> str:
    return source.starting_offsets if replay is None or replay.start is None else replay.start.isoformat()


def _starting_options(starting: str) -> dict[str, str]:
    if starting in ("earliest", "latest"):
        return {"startingOffsets": starting}
    moment = datetime.fromisoformat(starting)
    return {
        "startingTimestamp": str(int(moment.timestamp() * 1000)),
        "startingOffsetsByTimestampStrategy": "latest",
    }


def _wanted_record_columns(source: KafkaSource) -> dict[str, str]:
    columns = source.spec.record_columns or RecordColumns()
    wanted = {field: getattr(columns, field) for field in _RECORD_COLUMNS}
    return {field: name for field, name in wanted.items() if name is not None}


def _columns(source: KafkaSource) -> list[Column]:
    columns, event_time = source.values.columns(f.col(_PARSED)), source.spec.event_time
    declared = {name: columns[name] for name in source.schema.names}
    if event_time is not None and (event_time.epoch_unit or event_time.clock_correction):
        own = next(
            (name for name in declared if name.lower() == event_time.column.lower()), event_time.column
        )
        declared[own] = build_time(event_time, source.find(f.col(_PARSED)))
    record = [
        f.expr(_RECORD_COLUMNS[field]).alias(name) for field, name in _wanted_record_columns(source).items()
    ]
    flags = [f.col(_IS_NULL).alias(name) for name in _added_flags(source)]
    return [column.alias(name) for name, column in declared.items()] + record + flags


def _added_flags(source: KafkaSource) -> list[str]:
    return [] if source.spec.tombstones is None else [source.spec.tombstones]


def _types(source: KafkaSource) -> dict[str, DataType]:
    types = {field.name: field.dataType for field in source.schema.fields}
    record = source.spec.record_columns
    if record is not None and record.timestamp is not None:
        types[record.timestamp] = TimestampType()
    return types


def _check_record_columns(source: KafkaSource) -> None:
    names = [*source.schema.names, *_wanted_record_columns(source).values(), *_added_flags(source)]
    lowered = [name.lower() for name in names]
    twice = sorted({name for name in names if lowered.count(name.lower()) > 1})
    if twice:
        raise SpecError(
            Reason.INVALID_SCHEMA,
            f"source {source.name!r}: recordColumns or tombstones and the schema both have {', '.join(twice)}; rename one of them",
        )
