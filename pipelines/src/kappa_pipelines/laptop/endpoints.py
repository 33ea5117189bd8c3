"""The endpoints of a pipeline on a laptop: input from files or topics, output to this process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kappa_crds.revision import Revision
from kappa_crds.sink import Sink
from kappa_pipelines.laptop.encode import encode_value
from kappa_pipelines.plan.endpoints import KafkaEndpoints
from kappa_pipelines.sources.batches import JUDGED_SCHEMA, Batch
from kappa_pipelines.sources.kafka import RECORD_SCHEMA, KafkaSource


@dataclass(frozen=True, slots=True)
class Output:
    """A record that a sink wrote, with its batch; a tombstone has no value."""

    batch: int
    key: str | None
    value: str | None


Take = Callable[[str, int, list[Output]], None]
"""Receives the output of a batch: the sink, the batch, its records. An error fails the batch before it is committed."""


class FileEndpoints:
    """Each source reads its own folder, one file a batch; the output of sinks is passed to `take`."""

    def __init__(self, spark: SparkSession, folder: Path, take: Take) -> None:
        self._spark = spark
        self._folder = folder
        self._take = take
        self.watches_idleness = False
        self.alerts = False

    def read(self, source: KafkaSource) -> DataFrame:  # noqa: D102 - see Endpoints
        reader = self._spark.readStream.schema(RECORD_SCHEMA).format("json").name(source.name)
        records = reader.option("maxFilesPerTrigger", 1).load(str(input_folder(self._folder, source.name)))
        return records.withColumn("value", encode_value(source))

    def read_idle_watermarks(self, source: KafkaSource) -> None:  # noqa: D102 - see Endpoints
        return None

    def read_all(self, spark: SparkSession, source: KafkaSource) -> DataFrame:
        """Return a source's records as a table."""
        records = spark.read.schema(RECORD_SCHEMA).json(str(input_folder(self._folder, source.name)))
        return records.withColumn("value", encode_value(source))

    def read_batches(  # noqa: D102 - see Endpoints
        self, spark: SparkSession, source: KafkaSource, batches: Sequence[Batch]
    ) -> DataFrame:
        judged = {
            number: f.timestamp_millis(f.lit(batch.watermark))
            for batch in batches
            for number in _list_files(source.name, batch)
        }
        if not judged:
            return spark.createDataFrame([], JUDGED_SCHEMA)
        watermarks = f.create_map(*(part for number, at in judged.items() for part in (f.lit(number), at)))
        number = f.regexp_extract(f.input_file_name(), r"(\d+)\.json$", 1).cast("int")
        records = self.read_all(spark, source).withColumn("watermark", watermarks[number])
        return records.where("watermark IS NOT NULL")

    def write(self, sink: Sink, records: DataFrame) -> DataStreamWriter:  # noqa: D102 - see Endpoints
        return _pass_on(self._folder, sink, records, self._take)


class TopicEndpoints(KafkaEndpoints):
    """Sources read their topics; the output of sinks is passed to `take`, and no topic is written."""

    def __init__(self, spark: SparkSession, revision: Revision, folder: Path, take: Take) -> None:
        super().__init__(spark, revision)
        self._folder = folder
        self._take = take

    def write(self, sink: Sink, records: DataFrame) -> DataStreamWriter:  # noqa: D102 - see Endpoints
        return _pass_on(self._folder, sink, records, self._take)


def _list_files(source: str, batch: Batch) -> range:
    """Return the numbers of the files that a batch read: Spark reads one file a batch, and counts them."""
    start, end = (each.get(source, {}).get("logOffset", -1) for each in (batch.starts, batch.ends))
    return range(start + 1, end + 1)


def _pass_on(folder: Path, sink: Sink, records: DataFrame, take: Take) -> DataStreamWriter:
    def take_batch(frame: DataFrame, batch: int) -> None:
        key = f.col("key") if "key" in frame.columns else f.lit(None)
        rows = frame.select(key.cast("string").alias("key"), f.col("value").cast("string")).collect()
        take(sink.name, batch, [Output(batch, row.key, row.value) for row in rows])

    return (
        records.writeStream.queryName(sink.name)
        .outputMode(sink.mode.value)
        .foreachBatch(take_batch)
        .option("checkpointLocation", str(checkpoint_folder(folder) / sink.name))
    )


def checkpoint_folder(folder: Path) -> Path:
    """Return the folder with the checkpoints of all sinks."""
    return folder / "checkpoint"


def input_folder(folder: Path, source: str) -> Path:
    """Return the folder of a source's records."""
    return folder / "input" / source
