"""Where a pipeline's records come from and go to: Kafka in a driver, files on a laptop.

The seam between them is a stream of records as Spark's Kafka source gives them. All that makes a pipeline what it is
(formats, event time, views, the records of its sinks) lies between the two ends and is the same everywhere.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kappa_crds.revision import Revision
from kappa_crds.sink import Sink
from kappa_pipelines.limits import Targets
from kappa_pipelines.sinks.kafka import build_writer
from kappa_pipelines.sources.kafka import KafkaSource, read_range, read_records
from kappa_pipelines.stragglers.batch import JUDGED_SCHEMA, Batch, read_span

_FRAME_SCHEMA = "in_topic STRING, in_partition INT, first BIGINT, last BIGINT, watermark TIMESTAMP"


class Endpoints(Protocol):
    """Both ends of a pipeline."""

    @property
    def end_of_input(self) -> Column | None:
        """Whether a record marks the end of its source's input; None where input never ends."""

    def read(self, source: KafkaSource) -> DataFrame:
        """Return the stream of a source's records, with the columns of Spark's Kafka source."""

    def read_batches(self, spark: SparkSession, source: KafkaSource, batches: Sequence[Batch]) -> DataFrame:
        """Return a source's records of some batches as a table of this session, each with the `watermark` that it was compared with."""

    def write(self, sink: Sink, records: DataFrame) -> DataStreamWriter:
        """Return the query that writes the records (`key`, `value`) of a sink, ready to start."""


class KafkaEndpoints:
    """Topics at both ends."""

    end_of_input = None

    def __init__(self, spark: SparkSession, revision: Revision, targets: Targets | None = None) -> None:
        self._spark = spark
        self._revision = revision
        self.targets = targets or Targets(revision)

    def read(self, source: KafkaSource) -> DataFrame:  # noqa: D102 - see Endpoints
        return read_records(self._spark, self._revision, source)

    def read_batches(  # noqa: D102 - see Endpoints
        self, spark: SparkSession, source: KafkaSource, batches: Sequence[Batch]
    ) -> DataFrame:
        spans = [(read_span(batch, source.name), batch.watermark) for batch in batches]
        frames = [
            (*place, start.get(place, 0), end, datetime.fromtimestamp(watermark / 1000, UTC))
            for (start, ends), watermark in spans
            for place, end in ends.items()
        ]
        if not frames:
            return spark.createDataFrame([], JUDGED_SCHEMA)
        starts, ends = spans[0][0][0], spans[-1][0][1]
        records = read_range(spark, self._revision, {at: starts[at] for at in ends if at in starts}, ends)
        table = spark.createDataFrame(frames, _FRAME_SCHEMA)
        is_within = (f.col("offset") >= f.col("first")) & (f.col("offset") < f.col("last"))
        same = (f.col("topic") == f.col("in_topic")) & (f.col("partition") == f.col("in_partition"))
        return records.join(f.broadcast(table), same & is_within).drop(
            "in_topic", "in_partition", "first", "last"
        )

    def write(self, sink: Sink, records: DataFrame) -> DataStreamWriter:  # noqa: D102 - see Endpoints
        return build_writer(self.targets, sink, records)
