"""Rows that the sink's topic would refuse: without key where it is compacted, or too large. They never stop a query.

They are told apart in the same pass, by a condition on each row, and go to the dead-letter topic with the reason; without one
they are left out. Both are counted. A letter's key is made of the row, so that writing it twice is seen as one.
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

REFUSED = "refused"
_FLAG = "__kappa_refused"


def name_rejections(sink: str) -> str:
    """Return the name of the observed metric with a sink's refused rows; no source can have it."""
    return f"sink {sink}"


def route_records(
    records: DataFrame, sink: Sink, pipeline: str, target: Target, dead: Target | None
) -> DataFrame:
    """Return the records with the `topic` that each goes to; `headers` say why where it is the dead-letter topic."""
    key = f.col("key") if sink.key is not None else f.lit(None).cast("string")
    size = _measure(f.col("value")) + _measure(key)
    is_large = size > target.limits.record_bytes
    lacks_key = key.isNull() if target.limits.needs_key else f.lit(False)
    flagged = records.withColumn(_FLAG, is_large | lacks_key)
    refused = f.col(_FLAG)
    counted = flagged.observe(name_rejections(sink.name), f.count_if(refused).alias(REFUSED))
    if dead is None:
        return counted.where(~refused).drop(_FLAG).withColumn("topic", f.lit(target.topic))
    reason = f.when(is_large, _explain_size(target, size)).otherwise(f.lit(_explain_key(sink, target)))
    letter = {"error": reason, "pipeline": f.lit(pipeline), "sink": f.lit(sink.name), "key": key}
    fits = _measure(f.col("value")) <= dead.limits.record_bytes - RESERVED_BYTES
    # A tombstone's letter is empty: NULL would delete it from a topic of dead letters that is compacted.
    letter_value = f.coalesce("value", f.lit(""))
    cut = f.when(fits, letter_value).otherwise(truncate_value(letter_value, dead.limits.record_bytes))
    return counted.select(
        f.when(refused, f.lit(dead.topic)).otherwise(f.lit(target.topic)).alias("topic"),
        f.when(refused, _letter_key(sink, pipeline, key)).otherwise(key).alias("key"),
        f.when(refused, cut).otherwise(f.col("value")).alias("value"),
        f.when(refused, _headers(letter)).alias("headers"),
    )


def _measure(text: Column) -> Column:
    """Return the bytes of a key or value; a NULL has none."""
    return f.coalesce(f.octet_length(text), f.lit(0))


def _explain_size(target: Target, size: Column) -> Column:
    most = f" bytes; topic {target.topic} takes at most {target.limits.record_bytes}"
    return f.concat(f.lit("the record has "), size.cast("string"), f.lit(most))


def _explain_key(sink: Sink, target: Target) -> str:
    return f"column {', '.join(sink.key or ())} is NULL; topic {target.topic} is compacted and takes no record without key"


def _letter_key(sink: Sink, pipeline: str, key: Column) -> Column:
    return f.concat_ws("/", f.lit(pipeline), f.lit(sink.name), f.sha2(f.concat_ws("\n", key, "value"), 256))


def _headers(letter: dict[str, Column]) -> Column:
    """Return the headers of a letter; those without value are left out."""
    headers = [truncate_header(build_header(name, value)) for name, value in letter.items()]
    headers.append(build_header("size", f.octet_length("value").cast("string")))
    return f.filter(f.array(*headers), lambda header: header["value"].isNotNull())
