"""An archive as a stream of Spark with the columns and the offsets of Spark's Kafka source.

Its offsets are those of Kafka in Spark's form. So when a query has read the archive up to the seam, the same query continues from its
checkpoint with the Kafka source: its state, its watermark and its offsets stay, and no record is read twice.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from kappa_crds.reasons import Reason
from kappa_crds.stores import StoreAccess
from kappa_pipelines.archive.segments import Segment, Slice, cover, list_segments
from kappa_pipelines.checkpoint.location import open_folder
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import LostDataError

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "kappa_archive"
SCHEMA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP,"
    " timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
_DEFAULT_RECORDS = 1_000_000
Offset = dict[str, dict[str, int]]


@dataclass(frozen=True)
class ArchiveRead:
    """What is read of an archive: the folder of the topic, and where each partition begins and ends."""

    folder: str
    topic: str
    begins: Mapping[int, int]
    seams: Mapping[int, int]


def build_options(
    read: ArchiveRead, max_records: int | None = None, access: StoreAccess | None = None
) -> dict[str, str]:
    """Return the options of the source; without `access` the folder is mounted. Keys are in the environment, not in `access`."""
    access = access or StoreAccess()
    return {
        "path": read.folder,
        "topic": read.topic,
        "begins": _write(read.begins),
        "seams": _write(read.seams),
        "maxRecords": str(max_records or _DEFAULT_RECORDS),
        "access": access.model_dump_json(by_alias=True, include={"bucket", "hdfs"}),
    }


class ArchiveSource(DataSource):
    """The archive of one topic."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader."""
        options = self.options
        begins, seams = _read(options["begins"]), _read(options["seams"])
        read = ArchiveRead(options["path"], options["topic"], begins, seams)
        return _Reader(read, int(options["maxRecords"]), options["access"])


@dataclass
class _Range(InputPartition):
    """Offsets of a partition that one task reads."""

    partition: int
    slices: tuple[Slice, ...]

    def __init__(self, partition: int, slices: tuple[Slice, ...]) -> None:
        super().__init__(partition)
        self.partition, self.slices = partition, slices


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, read: ArchiveRead, most: int, access: str) -> None:
        self._path, self._topic, self._begins, self._seams = read.folder, read.topic, read.begins, read.seams
        self._most, self._access = most, access

    def _open(self) -> Folder:
        return open_folder(self._path, StoreAccess.model_validate_json(self._access).connection)

    def initialOffset(self) -> Offset:
        return self._build(self._begins)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return where the next batch ends: each partition goes the same part of its way, so that their times stay together."""
        at = {int(partition): offset for partition, offset in start[self._topic].items()}
        left = {partition: max(0, seam - at.get(partition, 0)) for partition, seam in self._seams.items()}
        total = sum(left.values())
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else total
        part = 1.0 if total <= most else most / total
        ends = {
            partition: at.get(partition, 0) + min(rest, max(1, round(rest * part)) if rest else 0)
            for partition, rest in left.items()
        }
        return self._build(ends)

    def prepareForTriggerAvailableNow(self) -> None:
        """Do nothing: the seam is where it ends."""

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._most)

    def reportLatestOffset(self) -> Offset:
        return self._build(self._seams)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        segments = list_segments(self._open())
        begins = start[self._topic]
        found = []
        for name, stop in end[self._topic].items():
            begin = begins.get(name, 0)
            if begin < stop:
                found.append(
                    _Range(int(name), self._cover(segments.get(int(name), ()), int(name), begin, stop))
                )
        return found

    def _cover(self, segments: Sequence[Segment], partition: int, begin: int, stop: int) -> tuple[Slice, ...]:
        """Return what to read; LostDataError where a segment was removed after the seam was found."""
        slices = tuple(cover(segments, begin, stop))
        end = slices[-1].end if slices else begin
        if end < stop:
            raise LostDataError(
                Reason.OFFSETS_LOST,
                f"the archive {self._path} has lost offsets {end:,} to {stop - 1:,} of partition {partition}; restore its files",
            )
        return slices

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, _Range)  # noqa: S101 - what `partitions` returned
        from kappa_pipelines.archive.files import read_slice  # noqa: PLC0415 - no start needs pyarrow

        folder = self._open()
        for part in partition.slices:
            for batch in read_slice(folder, part):
                yield self._convert(batch, partition.partition)

    def _convert(self, batch: "pa.RecordBatch", partition: int) -> "pa.RecordBatch":
        import pyarrow as pa  # noqa: PLC0415 - as above

        rows = batch.num_rows
        columns = {
            "key": batch.column("key"),
            "value": batch.column("value"),
            "topic": pa.array([self._topic] * rows, pa.string()),
            "partition": pa.array([partition] * rows, pa.int32()),
            "offset": batch.column("offset"),
            "timestamp": batch.column("timestamp").cast(pa.timestamp("us", tz="UTC")),
            "timestampType": batch.column("timestampType"),
            "headers": batch.column("headers"),
        }
        return pa.RecordBatch.from_pydict(columns)

    def _build(self, offsets: Mapping[int, int]) -> Offset:
        return {self._topic: {str(partition): offset for partition, offset in sorted(offsets.items())}}


def _write(offsets: Mapping[int, int]) -> str:
    return json.dumps({str(partition): offset for partition, offset in offsets.items()})


def _read(text: str) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in json.loads(text).items()}
