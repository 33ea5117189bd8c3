"""The Spark job that writes the late records of some batches to the topic of their view."""

from collections.abc import Sequence
from functools import partial

from pyspark.sql import SparkSession

from kappa_pipelines.plan.endpoints import KafkaEndpoints
from kappa_pipelines.plan.late_rows import LateRecordRows, LateRecordView
from kappa_pipelines.side_outputs.late_records.letters import build_late_records
from kappa_pipelines.sinks.kafka import write_counted
from kappa_pipelines.sources.batches import Batch
from kappa_pipelines.sources.kafka import KafkaSource


class LateRecordScan:
    """Reads batches again for one view; one per driver."""

    def __init__(
        self,
        spark: SparkSession,
        endpoints: KafkaEndpoints,
        sources: dict[str, KafkaSource],
        view: LateRecordView,
    ) -> None:
        self._spark = spark
        self._endpoints = endpoints
        self._revision = endpoints.targets.revision
        self._target = endpoints.targets.find(view.topic)
        self._view = view
        self._rows = LateRecordRows(spark, self._revision.spec, sources, view)

    def __call__(self, batches: Sequence[Batch]) -> int:
        """Write the late records of the batches and return their number."""
        self._spark.sparkContext.setJobDescription(f"late records of {self._view.name}")
        rows = self._rows.build(partial(self._endpoints.read_batches, batches=batches))
        records = build_late_records(rows, self._revision.full_name, self._view.name, self._target.limits)
        return write_counted(records, self._revision, self._target)
