"""Decodes a batch of values into rows and errors."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
from google.protobuf.message import Message
from pyspark.sql.types import StringType, StructField, StructType

from kappa_pipelines.protobuf.columns import build_columns
from kappa_pipelines.protobuf.frames import Frames, Group, sort_bare
from kappa_pipelines.protobuf.kinds import BadValueError, Kind
from kappa_pipelines.protobuf.messages import Fault, MessageReader
from kappa_pipelines.protobuf.schema import Schema, Types, load_types
from kappa_pipelines.protobuf.versions import Version

ROW, ERROR = "row", "error"
_MAX_BYTES = 4 * 2**20
"""Decoded at once: a byte of a packed list becomes a Python object, so a batch of long values would need gigabytes."""
_Found = list[Message | Fault]


@dataclass(frozen=True)
class Plan:
    """How values are decoded: the schema whose fields are columns, and the versions that values name; None for bare messages."""

    schema: Schema
    versions: tuple[Version, ...] | None = None

    @property
    def columns(self) -> StructType:
        """Return the columns."""
        found = build_columns(load_types(self.schema).descriptor).type
        assert isinstance(found, StructType)  # noqa: S101 - a message is a struct
        return found

    @property
    def result(self) -> StructType:
        """Return the type of a decoded value."""
        return StructType([StructField(ROW, self.columns), StructField(ERROR, StringType())])


class Decoder:
    """Decodes by one plan."""

    def __init__(self, plan: Plan) -> None:
        types = load_types(plan.schema)
        self._plan = plan
        self._kind = build_columns(types.descriptor)
        self._reader = MessageReader(types)
        bare = plan.versions is None
        self._sort = sort_bare if bare else Frames(plan.versions or (), plan.schema.message).sort

    def decode(self, values: pa.Array) -> pa.StructArray:
        """Return for each value its row, or a NULL row and the error."""
        middle = len(values) // 2
        if values.nbytes > _MAX_BYTES and middle > 0:
            return pa.concat_arrays([self.decode(values[:middle]), self.decode(values[middle:])])
        found = self._read(values.to_numpy(zero_copy_only=False).tolist())
        rows, errors = _build_rows(self._kind, found)
        return pa.StructArray.from_arrays([rows, pa.array(errors, pa.string())], names=[ROW, ERROR])

    def _read(self, values: list[bytes | None]) -> _Found:
        sorted_ = self._sort(values)
        if not sorted_.faults and len(sorted_.groups) == 1:
            return self._read_group(sorted_.groups[0])
        found: dict[int, Message | Fault] = {**sorted_.faults}
        for group in sorted_.groups:
            found.update(zip(group.indexes, self._read_group(group), strict=True))
        return [found[index] for index in range(len(values))]

    def _read_group(self, group: Group) -> _Found:
        return self._reader.read(group.payloads, self._find_written(group.version))

    def _find_written(self, version: Version | None) -> Types | None:
        if version is None or version.files == self._plan.schema.files:
            return None
        return load_types(Schema(version.files, self._plan.schema.message))


def _build_rows(kind: Kind, found: _Found) -> tuple[pa.Array, list[str | None]]:
    """Return rows and errors. A value that does not fit its column is found by bisection of the batch."""
    messages: list[Any] = [None if isinstance(each, Fault) else each for each in found]
    try:
        return kind.build(messages), [each.text if isinstance(each, Fault) else None for each in found]
    except BadValueError as error:
        if len(found) == 1:
            return kind.build([None]), [f"field {error}"]
    middle = len(found) // 2
    rows, errors = zip(*(_build_rows(kind, part) for part in (found[:middle], found[middle:])), strict=True)
    return pa.concat_arrays(rows), [*errors[0], *errors[1]]


@lru_cache(maxsize=16)
def get_decoder(plan: Plan) -> Decoder:
    """Return the decoder of a plan, made once in a process."""
    return Decoder(plan)
