"""The files of an archive: Parquet with the columns of a record as Kafka has them, bytes unchanged."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kappa_crds.reasons import Reason
from kappa_pipelines.archive.segments import Segment, Slice
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import LostDataError

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(_HEADER)),
    ]
)
"""The columns of a file; the partition is in its path and in its metadata. `headers` is NULL where a record has none."""
_VERSION = "kappa.archive"
_BATCH_ROWS = 10_000
Header = Mapping[str, Any]


class Row(NamedTuple):
    """A record. The timestamp is in Unix milliseconds, None without one; a header has a `key` and a `value`."""

    offset: int
    timestamp: int | None
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] | None = None


def write_segment(folder: Folder, segment: Segment, rows: Sequence[Row], identity: Mapping[str, str]) -> None:
    """Write the records of a segment in the order of their offsets. `identity` are the topic and its id."""
    metadata = {
        **identity,
        "partition": str(segment.partition),
        "first": str(segment.first),
        "end": str(segment.end),
    }
    schema = SCHEMA.with_metadata({_VERSION: "1", **metadata})
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=schema)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    folder.write(segment.path, sink.getvalue().to_pybytes())


def read_slice(folder: Folder, part: Slice) -> Iterator[pa.RecordBatch]:
    """Yield the records of a slice in batches, in the order of their offsets; LostDataError for a file that is missing or damaged."""
    segment = part.segment
    held = folder.read(segment.path)
    if held is None:
        raise LostDataError(
            Reason.OFFSETS_LOST, f"{folder.root}/{segment.path} is not in the archive any more"
        )
    try:
        file = pq.ParquetFile(pa.BufferReader(held), page_checksum_verification=True)
        _check(file, folder, segment)
        for batch in file.iter_batches(_BATCH_ROWS):
            offset = pc.field("offset")
            wanted = pa.Table.from_batches([batch]).filter((offset >= part.first) & (offset < part.end))
            yield from wanted.to_batches()
    except (pa.ArrowException, OSError) as error:
        raise LostDataError(
            Reason.OFFSETS_LOST, f"{folder.root}/{segment.path} is damaged: {error}"
        ) from error


def _check(file: pq.ParquetFile, folder: Folder, segment: Segment) -> None:
    """Raise LostDataError where a file was renamed or written by another version."""
    metadata = {key.decode(): value.decode() for key, value in (file.schema_arrow.metadata or {}).items()}
    wanted = {
        _VERSION: "1",
        "partition": str(segment.partition),
        "first": str(segment.first),
        "end": str(segment.end),
    }
    if any(metadata.get(name) != value for name, value in wanted.items()):
        raise LostDataError(
            Reason.OFFSETS_LOST,
            f"{folder.root}/{segment.path} has other records than its name claims; restore it",
        )
