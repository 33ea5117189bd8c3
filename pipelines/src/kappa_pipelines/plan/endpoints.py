"""Where a pipeline's records come from and go to: Kafka in a driver, files on a laptop.

The interface between endpoints and pipeline is a stream of records with the columns of Spark's Kafka source. Formats, event time,
views and the records of sinks are between the two ends and the same for all endpoints.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kappa_crds.pipeline import Trigger
from kappa_crds.replay import ReplayProfile
from kappa_crds.revision import Revision
from kappa_crds.sink import Sink
from kappa_pipelines.archive.source import FORMAT, ArchiveRead, ArchiveSource, build_options
from kappa_pipelines.executors import count_replay_factor
from kappa_pipelines.kafka.consumers import count_partitions, find_tasks
from kappa_pipelines.kafka.native import find_source_format, is_native
from kappa_pipelines.sinks.kafka import build_writer
from kappa_pipelines.sinks.publisher import build_publishers
from kappa_pipelines.sinks.targets import Targets
from kappa_pipelines.sources.batches import JUDGED_SCHEMA, Batch, read_span
from kappa_pipelines.sources.idle import read_idle_watermarks
from kappa_pipelines.sources.kafka import KafkaSource, build_read_options, read_range

_FRAME_SCHEMA = "in_topic STRING, in_partition INT, first BIGINT, last BIGINT, watermark TIMESTAMP"


class Endpoints(Protocol):
    """Both ends of a pipeline."""

    @property
    def watches_idleness(self) -> bool:
        """Whether idle sources get watermarks."""

    @property
    def alerts(self) -> bool:
        """Whether a record with a new schema id fails the query, so that the next driver looks the id up."""

    def read(self, source: KafkaSource) -> DataFrame:
        """Return the stream of a source's records, with the columns of Spark's Kafka source."""

    def read_idle_watermarks(self, source: KafkaSource) -> DataFrame | None:
        """Return the stream of a source's idle watermarks, None if it has none."""

    def read_batches(self, spark: SparkSession, source: KafkaSource, batches: Sequence[Batch]) -> DataFrame:
        """Return a source's records of some batches as a table of this session, each with the `watermark` that it was compared with."""

    def write(self, sink: Sink, records: DataFrame) -> DataStreamWriter:
        """Return the query that writes the records (`key`, `value`) of a sink, ready to start."""


class KafkaEndpoints:
    """Topics at both ends. `topics` are those of Kafka with their partitions, where they are known."""

    alerts = True

    def __init__(
        self,
        spark: SparkSession,
        revision: Revision,
        targets: Targets | None = None,
        idle_folder: Path | None = None,
        replay: ReplayProfile | None = None,
        *,
        archives: Mapping[str, ArchiveRead] | None = None,
        topics: Mapping[str, int] | None = None,
    ) -> None:
        self._spark = spark
        self._topics = topics or {}
        self._idle_folder = idle_folder
        self._profile, self._archives = replay, archives or {}
        # A replay has its own bounds, which concern Kafka. Where archives are read first, it begins behind them.
        self._replay = None if self._archives else replay
        self._revision = revision
        # Where no query starts, as in `kappa validate`, the transactional producers belong to a generation 0 that never runs.
        self.targets = targets or Targets(revision, publishers=build_publishers(revision, 0, {}))

    def read(self, source: KafkaSource) -> DataFrame:  # noqa: D102 - see Endpoints
        archived = self._archives.get(source.name)
        if archived is not None:
            self._spark.dataSource.register(ArchiveSource)
            most = None if self._profile is None else self._profile.max_records
            options = build_options(archived, most, self._revision)
            return self._spark.readStream.format(FORMAT).name(source.name).options(**options).load()
        reader = self._spark.readStream.format(find_source_format(self._revision)).name(source.name)
        options = build_read_options(self._revision, source, self._replay, self._topics)
        records = reader.options(**options).load()
        if is_native(self._revision):
            return records  # its tasks read several partitions
        partitions = count_partitions(source.subscription, self._topics)
        tasks = find_tasks(self._revision, partitions, count_replay_factor(self._revision, self._replay))
        return records if tasks is None else records.coalesce(tasks)

    @property
    def watches_idleness(self) -> bool:  # noqa: D102 - see Endpoints
        times = [source.event_time for source in self._revision.spec.sources]
        wanted = any(time is not None and time.idle_after is not None for time in times)
        return self._idle_folder is not None and wanted and self._revision.spec.trigger.real_time is None

    def read_idle_watermarks(self, source: KafkaSource) -> DataFrame | None:  # noqa: D102 - see Endpoints
        time = source.spec.event_time
        if self._idle_folder is None or not self.watches_idleness or time is None or time.idle_after is None:
            return None
        return read_idle_watermarks(self._spark, self._idle_folder, source.name)

    def read_batches(  # noqa: D102 - see Endpoints
        self, spark: SparkSession, source: KafkaSource, batches: Sequence[Batch]
    ) -> DataFrame:
        spans = [(read_span(batch, source.name), batch.watermark) for batch in batches]
        frames = [
            (*partition, start.get(partition, 0), end, datetime.fromtimestamp(watermark / 1000, UTC))
            for (start, ends), watermark in spans
            for partition, end in ends.items()
        ]
        if not frames:
            return spark.createDataFrame([], JUDGED_SCHEMA)
        starts, ends = spans[0][0][0], spans[-1][0][1]
        known = {at: starts[at] for at in ends if at in starts}
        records = read_range(spark, self._revision, source.spec, known, ends)
        table = spark.createDataFrame(frames, _FRAME_SCHEMA)
        is_within = (f.col("offset") >= f.col("first")) & (f.col("offset") < f.col("last"))
        same = (f.col("topic") == f.col("in_topic")) & (f.col("partition") == f.col("in_partition"))
        return records.join(f.broadcast(table), same & is_within).drop(
            "in_topic", "in_partition", "first", "last"
        )

    def write(self, sink: Sink, records: DataFrame) -> DataStreamWriter:  # noqa: D102 - see Endpoints
        is_replayed = self._profile is not None and self._profile.covers(sink.name)
        trigger = Trigger() if is_replayed else self._revision.spec.trigger
        return build_writer(self.targets, sink, records, trigger)
