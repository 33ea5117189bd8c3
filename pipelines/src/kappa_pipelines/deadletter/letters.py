"""Dead letters: what becomes of records that cannot be read.

A dead letter's key is `topic/partition/offset`, so that writing it twice is seen as one by readers and by
compaction. Its value is the original bytes (empty where there were none: a NULL would be a tombstone). The headers
are the original ones, then `kappa.error`, `kappa.pipeline`, `kappa.source`, `kappa.topic`, `kappa.partition`,
`kappa.offset`, `kappa.timestamp` (ISO 8601, UTC) and, if the record had a key, `kappa.key`.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from kappa_pipelines.sources.kafka import KafkaSource

HEADER_PREFIX = "kappa."
_PARSED = "__kappa_parsed"
_TIMESTAMP = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"


def build_letters(records: DataFrame, source: KafkaSource, pipeline: str) -> DataFrame:
    """Return the dead letters among records (as Kafka has them) as `key`, `value` and `headers`."""
    parsed = records.withColumn(_PARSED, source.values.parse(alert=False))
    malformed = parsed.where(source.values.is_malformed(f.col(_PARSED)))
    key = f.concat_ws("/", "topic", f.col("partition").cast("string"), f.col("offset").cast("string"))
    return malformed.select(
        key.alias("key"),
        f.coalesce(f.col("value"), f.lit(b"")).alias("value"),
        _headers(source, pipeline).alias("headers"),
    )


def _headers(source: KafkaSource, pipeline: str) -> Column:
    own = {
        "error": source.values.explain(f.col(_PARSED)),
        "pipeline": f.lit(pipeline),
        "source": f.lit(source.name),
        "topic": f.col("topic"),
        "partition": f.col("partition").cast("string"),
        "offset": f.col("offset").cast("string"),
        "timestamp": f.date_format("timestamp", _TIMESTAMP),
    }
    headers = f.array(*[_header(name, value.cast("binary")) for name, value in own.items()])
    with_key = f.when(f.col("key").isNotNull(), f.array(_header("key", f.col("key")))).otherwise(f.array())
    return f.concat(f.coalesce(f.col("headers"), f.array()), headers, with_key)


def _header(name: str, value: Column) -> Column:
    return f.struct(f.lit(HEADER_PREFIX + name).alias("key"), value.alias("value"))
