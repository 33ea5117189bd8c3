"""The bounded job that copies the malformed records of one range of offsets to the dead-letter topic."""

from pyspark.sql import DataFrame, SparkSession

from kappa_crds.revision import Revision
from kappa_pipelines.kafka.limits import Target
from kappa_pipelines.side_outputs.dead_letters.letters import build_letters
from kappa_pipelines.side_outputs.dead_letters.ranges import Span
from kappa_pipelines.sinks.kafka import write_counted
from kappa_pipelines.sources.kafka import KafkaSource, read_range


class DeadLetterScan:
    """Scans spans of a source; one per driver."""

    def __init__(
        self, spark: SparkSession, revision: Revision, sources: dict[str, KafkaSource], dead: Target
    ) -> None:
        self._spark = spark
        self._revision = revision
        self._sources = sources
        self._dead = dead

    def __call__(self, source: str, span: Span) -> int:
        """Write the malformed records of a span to the dead-letter topic and return their number."""
        self._spark.sparkContext.setJobDescription(f"dead letters of {source}")
        return write_counted(self.build(self._sources[source], span), self._revision, self._dead)

    def build(self, source: KafkaSource, span: Span) -> DataFrame:
        """Return the dead letters of a span as records."""
        records = read_range(self._spark, self._revision, source.spec, span.start, span.end)
        return build_letters(records, source, self._revision.full_name, self._dead.limits)
