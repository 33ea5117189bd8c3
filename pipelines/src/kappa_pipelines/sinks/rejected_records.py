"""Records that the sink's topic would reject: without a key on a compacted topic, or too large. They never stop a query.

A condition on each record selects them in the same pass. They go to the dead-letter topic with the reason, or are dropped if there is
none; both are counted. The key of a dead letter is computed from the record, so a duplicate has the same key.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from kappa_crds.sink import Sink
from kappa_pipelines.kafka.limits import Target
from kappa_pipelines.sinks.record_headers import (
    RESERVED_BYTES,
    build_header,
    truncate_header,
    truncate_value,
)

REJECTED = "rejected"
_FLAG = "__kappa_rejected"


def name_rejections(sink: str) -> str:
    """Return the name of the observed metric with a sink's rejected rows; no source can have this name."""
    return f"sink {sink}"


def route_records(
    records: DataFrame, sink: Sink, pipeline: str, target: Target, dead: Target | None
) -> DataFrame:
    """Return the records with their target `topic`. On the dead-letter topic, `headers` have the reason."""
    key = f.col("key") if sink.target.key is not None else f.lit(None).cast("string")
    size = _measure(f.col("value")) + _measure(key)
    is_large = size > target.limits.record_bytes
    lacks_key = key.isNull() if target.limits.needs_key else f.lit(False)
    flagged = records.withColumn(_FLAG, is_large | lacks_key)
    rejected = f.col(_FLAG)
    counted = flagged.observe(name_rejections(sink.name), f.count_if(rejected).alias(REJECTED))
    if dead is None:
        return counted.where(~rejected).drop(_FLAG).withColumn("topic", f.lit(target.topic))
    reason = f.when(is_large, _explain_size(target, size)).otherwise(f.lit(_explain_key(sink, target)))
    letter = {"error": reason, "pipeline": f.lit(pipeline), "sink": f.lit(sink.name), "key": key}
    fits = _measure(f.col("value")) <= dead.limits.record_bytes - RESERVED_BYTES
    # The dead letter of a tombstone has an empty value: a compacted dead-letter topic would delete a NULL.
    letter_value = f.coalesce("value", f.lit(""))
    value = f.when(fits, letter_value).otherwise(truncate_value(letter_value, dead.limits.record_bytes))
    return counted.select(
        f.when(rejected, f.lit(dead.topic)).otherwise(f.lit(target.topic)).alias("topic"),
        f.when(rejected, _letter_key(sink, pipeline, key)).otherwise(key).alias("key"),
        f.when(rejected, value).otherwise(f.col("value")).alias("value"),
        f.when(rejected, _headers(letter)).alias("headers"),
    )


def _measure(text: Column) -> Column:
    """Return the bytes of a key or value; 0 for NULL."""
    return f.coalesce(f.octet_length(text), f.lit(0))


def _explain_size(target: Target, size: Column) -> Column:
    most = f" bytes; topic {target.topic} accepts at most {target.limits.record_bytes}"
    return f.concat(f.lit("the record has "), size.cast("string"), f.lit(most))


def _explain_key(sink: Sink, target: Target) -> str:
    return f"column {', '.join(sink.target.key or ())} is NULL; topic {target.topic} is compacted and accepts no record without a key"


def _letter_key(sink: Sink, pipeline: str, key: Column) -> Column:
    return f.concat_ws("/", f.lit(pipeline), f.lit(sink.name), f.sha2(f.concat_ws("\n", key, "value"), 256))


def _headers(letter: dict[str, Column]) -> Column:
    """Return the headers of a dead letter without empty ones."""
    headers = [truncate_header(build_header(name, value)) for name, value in letter.items()]
    headers.append(build_header("size", f.octet_length("value").cast("string")))
    return f.filter(f.array(*headers), lambda header: header["value"].isNotNull())
