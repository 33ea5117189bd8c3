"""Marks that move the watermark of a source that is silent.

A source with `idleAfter` is read together with a second, tiny stream. Its offset is a time; where the driver has moved it
on, the batch has one row with that time, which moves the source's watermark and is no row of the result. Spark keeps the
offset in its log like any other, so a batch that is repeated has the same mark. The time itself comes through a file of the
driver's, as Spark asks a process of its own for the offset.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

_FORMAT = "kappa_idle"
_SUFFIX = "__kappa_idle"
_TIME = "time"
MARK = "mark"
"""Column with the time of a mark: the watermark that the source is to have."""


class IdleMarks(DataSource):
    """The marks of one source; `path` is the file with the newest, in milliseconds since the epoch."""

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
        return {_TIME: 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Return the newest mark; after a restart there is none yet, and an offset never goes back."""
        return {_TIME: max(start[_TIME], read_mark(self._path))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(end[_TIME])] if end[_TIME] > start[_TIME] else []

    def read(self, partition: InputPartition) -> Iterator[tuple[datetime]]:
        yield (datetime.fromtimestamp(partition.value / 1000, UTC),)


def read_marks(spark: SparkSession, folder: Path, source: str) -> DataFrame:
    """Return the stream of a source's marks, which are in a folder of this machine."""
    spark.dataSource.register(IdleMarks)
    reader = spark.readStream.format(_FORMAT).name(f"{source}{_SUFFIX}")
    return reader.option("path", str(find_mark_file(folder, source))).load()


def find_mark_file(folder: Path, source: str) -> Path:
    """Return the file with a source's newest mark."""
    return folder / source


def read_mark(path: Path) -> int:
    """Return the newest mark; 0 where there is none."""
    return int(path.read_text()) if path.exists() else 0


def write_mark(path: Path, mark: int) -> None:
    """Set the newest mark, so that no reader sees half of it."""
    draft = path.with_name(f".{path.name}")
    draft.write_text(str(mark))
    draft.replace(path)
