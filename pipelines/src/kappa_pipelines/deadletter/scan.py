"""The bounded job that copies the malformed records of one range of offsets to the dead-letter topic.

A dead letter's key is `topic/partition/offset`, so that writing it twice is seen as one by readers and by
compaction. Its value is the original bytes (empty where there were none: a NULL would be a tombstone). The headers
are the original ones, then `kappa.error`, `kappa.pipeline`, `kappa.source`, `kappa.topic`, `kappa.partition`,
`kappa.offset`, `kappa.timestamp` (ISO 8601, UTC) and, if the record had a key, `kappa.key`.
"""

import json

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from kappa_crds.revision import Revision
from kappa_pipelines.deadletter.ranges import Span
from kappa_pipelines.kafka_options import build_spark_connection, prefix_options
from kappa_pipelines.sinks.kafka import build_write_options
from kappa_pipelines.sources.kafka import KafkaSource
from kappa_pipelines.sources.values import is_malformed

HEADER_PREFIX = "kappa."
_PARSED = "__kappa_parsed"
_TIMESTAMP = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"


class DeadLetterScan:
    """Scans spans of a source; made once for a driver."""

    def __init__(self, spark: SparkSession, revision: Revision, sources: dict[str, KafkaSource]) -> None:
        self._spark = spark
        self._revision = revision
        self._sources = sources

    def __call__(self, source: str, span: Span) -> int:
        """Write the malformed records of a span to the dead-letter topic and return how many there were.

        They are kept while they are counted and written: Spark's Kafka writer reports no count of its own.
        """
        if self._revision.spec.dead_letter is None:
            return 0
        name = self._revision.spec.dead_letter
        topic = self._revision.topics.get(name, name)
        self._spark.sparkContext.setJobDescription(f"dead letters of {source}")
        letters = self.build(self._sources[source], span).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            count = letters.count()
            if count > 0:
                letters.write.format("kafka").options(**build_write_options(self._revision, topic)).save()
        finally:
            letters.unpersist()
        return count

    def build(self, source: KafkaSource, span: Span) -> DataFrame:
        """Return the dead letters of a span as records to be written."""
        raw = self._spark.read.format("kafka").options(**self._read_options(source, span)).load()
        malformed = raw.withColumn(_PARSED, source.values.parse()).where(is_malformed(f.col(_PARSED)))
        key = f.concat_ws("/", "topic", f.col("partition").cast("string"), f.col("offset").cast("string"))
        return malformed.select(
            key.alias("key"),
            f.coalesce(f.col("value"), f.lit(b"")).alias("value"),
            self._headers(source).alias("headers"),
        )

    def _read_options(self, source: KafkaSource, span: Span) -> dict[str, str]:
        partitions = sorted(span.end)
        return {
            **build_spark_connection(self._revision.kafka),
            **prefix_options(self._revision.tuning.consumer),
            "assign": json.dumps({source.topic: partitions}),
            "startingOffsets": json.dumps({source.topic: {str(p): span.start.get(p, 0) for p in partitions}}),
            "endingOffsets": json.dumps({source.topic: {str(p): span.end[p] for p in partitions}}),
            "groupIdPrefix": self._revision.consumer_group,
            "includeHeaders": "true",
            "failOnDataLoss": "true",
        }

    def _headers(self, source: KafkaSource) -> Column:
        own = {
            "error": source.values.explain(f.col(_PARSED)),
            "pipeline": f.lit(f"{self._revision.namespace}/{self._revision.pipeline}"),
            "source": f.lit(source.name),
            "topic": f.col("topic"),
            "partition": f.col("partition").cast("string"),
            "offset": f.col("offset").cast("string"),
            "timestamp": f.date_format("timestamp", _TIMESTAMP),
        }
        headers = f.array(*[_header(name, value.cast("binary")) for name, value in own.items()])
        with_key = f.when(f.col("key").isNotNull(), f.array(_header("key", f.col("key")))).otherwise(
            f.array()
        )
        return f.concat(f.coalesce(f.col("headers"), f.array()), headers, with_key)


def _header(name: str, value: Column) -> Column:
    return f.struct(f.lit(HEADER_PREFIX + name).alias("key"), value.alias("value"))
