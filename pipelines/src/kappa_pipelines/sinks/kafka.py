"""Converts rows of a view to records of a topic.

The value is a JSON object of the sink's columns, including NULLs, or one column as it is. The key is one column as text, or a JSON object of several
columns. Timestamps are ISO 8601 in UTC with microseconds, Spark's precision.
"""

import difflib

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    MapType,
    StringType,
    StructType,
    VariantType,
)

from kappa_crds.pipeline import Trigger
from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_crds.sink import Delivery, OutputMode, Sink
from kappa_pipelines.errors import SpecError
from kappa_pipelines.kafka.limits import Target
from kappa_pipelines.kafka.native import find_sink_format
from kappa_pipelines.kafka.options import build_spark_connection, prefix_options
from kappa_pipelines.sinks.exactly_once import write_exactly_once
from kappa_pipelines.sinks.rejected_records import route_records
from kappa_pipelines.sinks.targets import Targets

JSON_OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
}


def build_records(sink: Sink, rows: DataFrame) -> DataFrame:
    """Return the columns `key` and `value` of the sink's records; SpecError names a missing column."""
    mark = sink.target.tombstones
    if sink.target.raw is not None:
        return _build_raw(sink, sink.target.raw, rows)
    names = find_value_columns(sink, rows)
    _check_columns(sink, "value", names, rows)
    _check_columns(sink, "key", sink.target.key or (), rows)
    value = f.to_json(f.struct(*[_quoted(name) for name in names]), JSON_OPTIONS)
    if mark is not None:
        _check_columns(sink, "tombstones", (mark,), rows)
        value = f.when(~f.coalesce(_quoted(mark), f.lit(False)), value)
    return _select(sink, rows, value)


def find_value_columns(sink: Sink, rows: DataFrame) -> tuple[str, ...]:
    """Return the columns of the rows that the JSON object of a record has."""
    mark = sink.target.tombstones
    return sink.target.value or tuple(
        name for name in rows.columns if mark is None or name.lower() != mark.lower()
    )


def _build_raw(sink: Sink, name: str, rows: DataFrame) -> DataFrame:
    _check_columns(sink, "raw", (name,), rows)
    _check_columns(sink, "key", sink.target.key or (), rows)
    # Spark takes the bytes of a BINARY as they are; the sink writes them so.
    return _select(sink, rows, _quoted(name).cast("string"))


def _select(sink: Sink, rows: DataFrame, value: Column) -> DataFrame:
    if sink.target.key is None:
        return rows.select(value.alias("value"))
    return rows.select(_key(sink.target.key, rows.schema).alias("key"), value.alias("value"))


def _key(names: tuple[str, ...], schema: StructType) -> Column:
    if len(names) > 1:
        return f.to_json(f.struct(*[_quoted(name) for name in names]), JSON_OPTIONS)
    name = names[0]
    kinds = {field.name.lower(): field.dataType for field in schema.fields}
    if isinstance(kinds[name.lower()], StructType | ArrayType | MapType | VariantType):
        return f.to_json(_quoted(name), JSON_OPTIONS)
    return _quoted(name).cast("string")


def _quoted(name: str) -> Column:
    return f.col(f"`{name}`")


def _check_columns(sink: Sink, part: str, names: tuple[str, ...], rows: DataFrame) -> None:
    columns = [column.lower() for column in rows.columns]
    for name in names:
        found = columns.count(name.lower())
        if found == 0:
            close = difflib.get_close_matches(name, rows.columns, n=3)
            hint = f"did you mean {' or '.join(close)}?" if close else f"it has {', '.join(rows.columns)}"
            raise SpecError(
                Reason.UNKNOWN_COLUMN,
                f"sink {sink.name!r}: {part} names column {name!r}, which {sink.from_!r} does not have; {hint}",
            )
        if found > 1:
            raise SpecError(
                Reason.INVALID_SQL,
                f"sink {sink.name!r}: {sink.from_!r} has {found} columns {name!r}; give each its own name with AS",
            )
        _check_type(sink, part, name, rows)


def _check_type(sink: Sink, part: str, name: str, rows: DataFrame) -> None:
    kind = next(field.dataType for field in rows.schema.fields if field.name.lower() == name.lower())
    if part == "tombstones" and not isinstance(kind, BooleanType):
        raise SpecError(
            Reason.INVALID_SQL,
            f"sink {sink.name!r}: tombstones names column {name!r}, which is {kind.simpleString().upper()}; it must be BOOLEAN",
        )
    if part == "raw" and not isinstance(kind, StringType | BinaryType):
        raise SpecError(
            Reason.INVALID_SQL,
            f"sink {sink.name!r}: raw names column {name!r}, which is {kind.simpleString().upper()}; it must be STRING or BINARY",
        )
    if part == "key" and isinstance(kind, BinaryType):
        raise SpecError(
            Reason.UNSUPPORTED_QUERY,
            f"sink {sink.name!r}: key column {name!r} is BINARY; make it text in the view, for example with hex()",
        )


def build_writer(targets: Targets, sink: Sink, records: DataFrame, trigger: Trigger) -> DataStreamWriter:
    """Return the query that writes the records, ready to start."""
    revision, target = targets.revision, targets.find(sink.target.topic)
    _check_has_key(sink, target)
    options = build_write_options(revision, target, targets.dead or target)
    if sink.target.delivery is Delivery.EXACTLY_ONCE:
        started = write_exactly_once(targets, sink, records, options)
    else:
        routed = route_records(records, sink, revision.full_name, target, targets.dead)
        # Most records go to the sink's own topic, which is an option: a NULL costs nothing.
        named = routed.withColumn("topic", f.nullif("topic", f.lit(target.topic)))
        started = named.writeStream.format(find_sink_format(revision)).options(**options, topic=target.topic)
    return _set_trigger(name_query(started, revision, sink, sink.name), trigger)


def name_query(writer: DataStreamWriter, revision: Revision, sink: Sink, name: str) -> DataStreamWriter:
    """Return a sink's query with this name, its output mode and its checkpoint.

    Real time supports mode update only, which equals append for rows that are never replaced.
    """
    mode = sink.mode if revision.spec.trigger.real_time is None else OutputMode.UPDATE
    checkpoint = f"{revision.checkpoint.rstrip('/')}/{sink.name}"
    return writer.queryName(name).outputMode(mode.value).option("checkpointLocation", checkpoint)


def _set_trigger(writer: DataStreamWriter, trigger: Trigger) -> DataStreamWriter:
    if trigger.real_time is not None:
        every = _milliseconds(trigger.real_time.checkpoint_interval)
        # The types of pyspark 4.2 lack realTime.
        return writer.trigger(realTime=every)  # type: ignore[call-overload, no-any-return]
    if trigger.interval is not None:
        return writer.trigger(processingTime=_milliseconds(trigger.interval))
    return writer


def _milliseconds(duration: str) -> str:
    return f"{int(parse_duration(duration) * 1000)} milliseconds"


def _check_has_key(sink: Sink, target: Target) -> None:
    if target.limits.needs_key and sink.target.key is None:
        raise SpecError(
            Reason.INVALID_SPEC,
            f"sink {sink.name!r}: topic {target.topic} is compacted and accepts no record without a key; set key",
        )


def build_write_options(revision: Revision, *targets: Target) -> dict[str, str]:
    """Return the options of Spark's Kafka sink for records that name one of these topics."""
    largest = max(target.limits.message_bytes for target in targets)
    return {
        **build_spark_connection(revision.kafka),
        **prefix_options({"max.request.size": str(largest), **revision.tuning.producer}),
    }


def open_producer(spark: SparkSession, targets: Targets) -> None:
    """Create the producer that sinks keep, by writing an empty table to each sink's topic."""
    revision = targets.revision
    spark_writes = [sink for sink in revision.spec.sinks if sink.target.delivery is Delivery.AT_LEAST_ONCE]
    for topic in dict.fromkeys(sink.target.topic for sink in spark_writes):
        target = targets.find(topic)
        options = build_write_options(revision, target, targets.dead or target)
        # Spark would optimize a plain False away and start no task.
        empty = spark.range(1).where(f.rand() > 1).select(f.lit("").alias("value"))
        written = empty.write.format(find_sink_format(revision)).mode("append")
        written.options(**options, topic=target.topic).save()


def write_counted(records: DataFrame, revision: Revision, target: Target) -> int:
    """Write a table of records to a topic and return their number.

    The table is cached while it is counted and written, because Spark's Kafka writer does not report a count.
    """
    cached = records.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        count = cached.count()
        if count > 0:
            options = build_write_options(revision, target)
            cached.write.format("kafka").options(**options, topic=target.topic).save()
    finally:
        cached.unpersist()
    return count
