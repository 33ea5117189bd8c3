"""The records of dead letters.

The key is `topic/partition/offset`, so a duplicate has the same key for readers and for compaction. The value has the original
bytes, or is empty instead of NULL, which would be a tombstone. The headers are the original ones without those named `kappa.`, then `kappa.error`,
`kappa.pipeline`, `kappa.source`, `kappa.topic`, `kappa.partition`, `kappa.offset`, `kappa.timestamp` (ISO 8601, UTC) and, if the
record had a key, `kappa.key`.

A dead letter that is too large for its topic is truncated: it has the first bytes of the value and of our headers, no original header, and
`kappa.size`, the size of the value in bytes. `kappa.topic`, `kappa.partition` and `kappa.offset` locate the complete record.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from kappa_pipelines.kafka.limits import Limits
from kappa_pipelines.sinks.record_headers import (
    HEADER_PREFIX,
    RESERVED_BYTES,
    build_header,
    truncate_header,
    truncate_value,
)
from kappa_pipelines.sources.kafka import KafkaSource

_HEADER_OVERHEAD = 10  # maximum bytes of the two length fields of a header
_PARSED, _TEXTS, _ERROR, _PARTITION_ID = (
    "__kappa_parsed",
    "__kappa_texts",
    "__kappa_error",
    "__kappa_partition_id",
)
_TIMESTAMP = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"


def build_letters(
    records: DataFrame, source: KafkaSource, pipeline: str, limits: Limits | None = None
) -> DataFrame:
    """Return the dead letters of Kafka records as `key`, `value` and `headers`."""
    longest = (limits or Limits()).record_bytes
    texts = _find_malformed(records, source).withColumn(_TEXTS, source.values.parse_texts())
    letters = texts.withColumn(_ERROR, source.explain(f.col(_PARSED), f.col(_TEXTS)))
    key = f.concat_ws("/", "topic", f.col("partition").cast("string"), f.col("offset").cast("string"))
    value = f.coalesce(f.col("value"), f.lit(b""))
    fits = _measure(value, f.col(_ERROR)) <= longest
    return letters.select(
        key.alias("key"),
        f.when(fits, value).otherwise(truncate_value(value, longest)).alias("value"),
        f.when(fits, _headers(source, pipeline))
        .otherwise(_truncated_headers(source, pipeline))
        .alias("headers"),
    )


def _find_malformed(records: DataFrame, source: KafkaSource) -> DataFrame:
    """Return the malformed records with their parsed form.

    A nondeterministic column keeps the condition above the parser. Otherwise Spark pushes it down and parses each record once per use.
    """
    parsed = records.select(
        "*", source.values.parse(alert=False).alias(_PARSED), f.spark_partition_id().alias(_PARTITION_ID)
    )
    is_malformed = source.find_malformed(f.col(_PARSED), f.col("value").isNull())
    return parsed.where(is_malformed & (f.col(_PARTITION_ID) >= 0))


def _headers(source: KafkaSource, pipeline: str) -> Column:
    key = f.when(f.col("key").isNotNull(), f.array(build_header("key", f.col("key"))))
    own = f.array(build_header("error", f.col(_ERROR)), *_describe(source, pipeline))
    return f.concat(_original_headers(), own, f.coalesce(key, f.array()))


def _original_headers() -> Column:
    """Return the headers of the record without those in our name: a reader who takes the first of a name gets ours.

    A function over an array is slow, so it is called only for records with headers.
    """
    foreign = f.filter("headers", lambda header: ~header["key"].startswith(HEADER_PREFIX))
    has_headers = f.coalesce(f.size("headers"), f.lit(0)) > 0
    return f.when(has_headers, foreign).otherwise(f.array())


def _truncated_headers(source: KafkaSource, pipeline: str) -> Column:
    size = build_header("size", f.octet_length("value").cast("string"))
    key = f.when(f.col("key").isNotNull(), f.array(truncate_header(build_header("key", f.col("key")))))
    error = truncate_header(build_header("error", f.col(_ERROR)))
    return f.concat(f.array(error, *_describe(source, pipeline), size), f.coalesce(key, f.array()))


def _describe(source: KafkaSource, pipeline: str) -> list[Column]:
    """Return the headers with pipeline, source and position of the record."""
    values = {
        "pipeline": f.lit(pipeline),
        "source": f.lit(source.name),
        "topic": f.col("topic"),
        "partition": f.col("partition").cast("string"),
        "offset": f.col("offset").cast("string"),
        "timestamp": f.date_format("timestamp", _TIMESTAMP),
    }
    return [build_header(name, value) for name, value in values.items()]


def _measure(value: Column, error: Column) -> Column:
    """Return an upper bound of the size of a dead letter in bytes."""

    def add(total: Column, header: Column) -> Column:
        size = f.octet_length(header["key"]) + f.coalesce(f.octet_length(header["value"]), f.lit(0))
        return total + size + f.lit(_HEADER_OVERHEAD)

    # A function over an array is slow, so it is called only for records with headers.
    has_headers = f.coalesce(f.size("headers"), f.lit(0)) > 0
    original = f.when(has_headers, f.aggregate("headers", f.lit(0), add)).otherwise(f.lit(0))
    key = f.coalesce(f.octet_length("key"), f.lit(0))
    return f.octet_length(value) + f.octet_length(error) + key + original + f.lit(RESERVED_BYTES)
