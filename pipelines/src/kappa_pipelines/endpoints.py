"""Where a pipeline's records come from and go to: Kafka in a driver, files on a laptop.

The seam between them is a stream of records as Spark's Kafka source gives them. All that makes a pipeline what it is
(formats, event time, views, the records of its sinks) lies between the two ends and is the same everywhere.
"""

from typing import Protocol

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kappa_crds.revision import Revision
from kappa_crds.sink import Sink
from kappa_pipelines.limits import Targets
from kappa_pipelines.sinks.kafka import build_writer
from kappa_pipelines.sources.kafka import KafkaSource, read_records


class Endpoints(Protocol):
    """Both ends of a pipeline."""

    @property
    def end_of_input(self) -> Column | None:
        """Whether a record marks the end of its source's input; None where input never ends."""

    def read(self, source: KafkaSource) -> DataFrame:
        """Return the stream of a source's records, with the columns of Spark's Kafka source."""

    def write(self, sink: Sink, records: DataFrame) -> DataStreamWriter:
        """Return the query that writes the records (`key`, `value`) of a sink, ready to start."""


class KafkaEndpoints:
    """Topics at both ends."""

    end_of_input = None

    def __init__(self, spark: SparkSession, revision: Revision, targets: Targets | None = None) -> None:
        self._spark = spark
        self._revision = revision
        self._targets = targets or Targets(revision)

    def read(self, source: KafkaSource) -> DataFrame:  # noqa: D102 - see Endpoints
        return read_records(self._spark, self._revision, source)

    def write(self, sink: Sink, records: DataFrame) -> DataStreamWriter:  # noqa: D102 - see Endpoints
        return build_writer(self._targets, sink, records)
