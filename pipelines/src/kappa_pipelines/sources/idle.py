"""A stream that moves the watermark of an idle source.

A source with `idleAfter` is read together with a second, tiny stream. The offset of that stream is a time. When the driver has advanced
it, the batch has one row with that time, which moves the source's watermark and is not part of the result. Spark stores the offset in
its log, so a batch that is repeated has the same idle watermark. The driver passes the time through a file, as Spark reads the
offset in a process of its own.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

_FORMAT = "kappa_idle"
IDLE_SUFFIX = "__kappa_idle"
"""Follows the name of a source in the name of the stream of its idle watermarks."""
TIME = "time"
MARK = "mark"
"""Column with the idle watermark."""


class IdleWatermarks(DataSource):
    """The idle watermarks of one source; the file `path` has the latest, in milliseconds since the epoch."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return _FORMAT

    def schema(self) -> str:
        """Return the columns."""
        return f"{MARK} TIMESTAMP"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader."""
        return _Reader(Path(self.options["path"]))


class _Reader(DataSourceStreamReader):
    def __init__(self, path: Path) -> None:
        self._path = path

    def initialOffset(self) -> dict[str, int]:
        return {TIME: 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Return the latest idle watermark. After a restart there is none yet, and the offset does not decrease."""
        return {TIME: max(start[TIME], read_watermark(self._path))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(end[TIME])] if end[TIME] > start[TIME] else []

    def read(self, partition: InputPartition) -> Iterator[tuple[datetime]]:
        yield (datetime.fromtimestamp(partition.value / 1000, UTC),)


def read_idle_watermarks(spark: SparkSession, folder: Path, source: str) -> DataFrame:
    """Return the stream of a source's idle watermarks, which are in a local folder."""
    spark.dataSource.register(IdleWatermarks)
    reader = spark.readStream.format(_FORMAT).name(f"{source}{IDLE_SUFFIX}")
    return reader.option("path", str(find_watermark_file(folder, source))).load()


def find_watermark_file(folder: Path, source: str) -> Path:
    """Return the file with a source's latest idle watermark."""
    return folder / source


def read_watermark(path: Path) -> int:
    """Return the latest idle watermark; 0 if there is none."""
    return int(path.read_text()) if path.exists() else 0


def write_watermark(path: Path, watermark: int) -> None:
    """Write the latest idle watermark atomically."""
    draft = path.with_name(f".{path.name}")
    draft.write_text(str(watermark))
    draft.replace(path)
