"""The Spark type of a field, and the conversion of its values in many messages to one Arrow array.

A value is None if a message does not have one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.json_format import MessageToJson, SerializeToJsonError
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    TimestampType,
)

Build = Callable[[list[Any]], pa.Array]

_MICROS, _NANOS = 1_000_000, 1_000_000_000
_FIRST_SECOND = -62_135_596_800  # 0001-01-01T00:00:00Z
_LAST_SECOND = 253_402_300_799  # 9999-12-31T23:59:59Z
_LONGEST_SECONDS = 315_576_000_000  # of a Duration: ten thousand years


class BadValueError(ValueError):
    """A value does not fit its column."""


@dataclass(frozen=True)
class Kind:
    """A Spark type, and the function that builds an Arrow array from values of a field."""

    type: DataType
    build: Build


def _plain(spark: DataType, arrow: pa.DataType) -> Kind:
    return Kind(spark, lambda values: pa.array(values, arrow))


def _build_texts(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except pa.ArrowInvalid as error:  # proto2 does not check texts when it parses them
        raise BadValueError("not text in UTF-8") from error


_INT, _LONG = _plain(IntegerType(), pa.int32()), _plain(LongType(), pa.int64())
_UNSIGNED_INT = _LONG
_UNSIGNED_LONG = Kind(
    DecimalType(20, 0), lambda values: pa.array(values, pa.uint64()).cast(pa.decimal128(20, 0))
)
_BOOLEAN, _TEXT = _plain(BooleanType(), pa.bool_()), Kind(StringType(), _build_texts)
_BYTES = _plain(BinaryType(), pa.binary())
_FLOAT, _DOUBLE = _plain(FloatType(), pa.float32()), _plain(DoubleType(), pa.float64())

SCALARS: Mapping[int, Kind] = {
    FieldDescriptor.TYPE_INT32: _INT,
    FieldDescriptor.TYPE_SINT32: _INT,
    FieldDescriptor.TYPE_SFIXED32: _INT,
    FieldDescriptor.TYPE_UINT32: _UNSIGNED_INT,
    FieldDescriptor.TYPE_FIXED32: _UNSIGNED_INT,
    FieldDescriptor.TYPE_INT64: _LONG,
    FieldDescriptor.TYPE_SINT64: _LONG,
    FieldDescriptor.TYPE_SFIXED64: _LONG,
    FieldDescriptor.TYPE_UINT64: _UNSIGNED_LONG,
    FieldDescriptor.TYPE_FIXED64: _UNSIGNED_LONG,
    FieldDescriptor.TYPE_FLOAT: _FLOAT,
    FieldDescriptor.TYPE_DOUBLE: _DOUBLE,
    FieldDescriptor.TYPE_BOOL: _BOOLEAN,
    FieldDescriptor.TYPE_STRING: _TEXT,
    FieldDescriptor.TYPE_BYTES: _BYTES,
}


def _derive(convert: Callable[[Any], Any], kind: Kind) -> Kind:
    """Return a kind whose values are converted to another kind first."""

    def build(values: list[Any]) -> pa.Array:
        return kind.build([None if value is None else convert(value) for value in values])

    return Kind(kind.type, build)


def _to_micros(timestamp: Any) -> int:
    seconds, nanos = timestamp.seconds, timestamp.nanos
    if not (_FIRST_SECOND <= seconds <= _LAST_SECOND and 0 <= nanos < _NANOS):
        raise BadValueError(f"{seconds} seconds and {nanos} nanoseconds are not a Timestamp")
    return int(seconds * _MICROS + nanos // 1000)


def _to_length(duration: Any) -> int:
    seconds, nanos = duration.seconds, duration.nanos
    is_one = abs(seconds) <= _LONGEST_SECONDS and abs(nanos) < _NANOS and seconds * nanos >= 0
    if not is_one:
        raise BadValueError(f"{seconds} seconds and {nanos} nanoseconds are not a Duration")
    return int(seconds * _MICROS + (nanos // 1000 if nanos >= 0 else -(-nanos // 1000)))


def _to_json(message: Any) -> str:
    try:
        return MessageToJson(message, indent=None, ensure_ascii=False)
    except (SerializeToJsonError, ValueError, RecursionError) as error:
        raise BadValueError(f"no JSON: {error}") from error


_TIMES = _plain(TimestampType(), pa.timestamp("us", "UTC"))
_LENGTHS = _plain(DayTimeIntervalType(), pa.duration("us"))
_JSON = _derive(_to_json, _TEXT)

WELL_KNOWN: Mapping[str, Kind] = {
    "google.protobuf.Timestamp": _derive(_to_micros, _TIMES),
    "google.protobuf.Duration": _derive(_to_length, _LENGTHS),
    "google.protobuf.Struct": _JSON,
    "google.protobuf.Value": _JSON,
    "google.protobuf.ListValue": _JSON,
    **{
        f"google.protobuf.{name}Value": _derive(lambda wrapper: wrapper.value, kind)
        for name, kind in {
            "Double": _DOUBLE,
            "Float": _FLOAT,
            "Int64": _LONG,
            "UInt64": _UNSIGNED_LONG,
            "Int32": _INT,
            "UInt32": _UNSIGNED_INT,
            "Bool": _BOOLEAN,
            "String": _TEXT,
            "Bytes": _BYTES,
        }.items()
    },
}
"""Messages that become one value."""

EMPTY = _derive(lambda message: True, _BOOLEAN)
"""A message without fields: TRUE if it is set."""


class _Names(dict[int | None, str | None]):
    """Names of an enum's numbers; the name of an unknown number is the number."""

    def __missing__(self, number: int | None) -> str:
        return str(number)


def build_enum(enum: EnumDescriptor) -> Kind:
    """Return the kind of an enum: the names of its values."""
    names = _Names({number: value.name for number, value in enum.values_by_number.items()} | {None: None})
    return Kind(StringType(), lambda values: pa.array([names[value] for value in values], pa.string()))


def build_list(items: Kind) -> Kind:
    """Return the kind of a repeated field; its values are lists and never None."""

    def build(values: list[Any]) -> pa.Array:
        flat = items.build(list(chain.from_iterable(values)))
        return pa.ListArray.from_arrays(_count(values), flat)

    return Kind(ArrayType(items.type), build)


def build_map(keys: Kind, items: Kind) -> Kind:
    """Return the kind of a map; its values are mappings and never None."""

    def build(values: list[Any]) -> pa.Array:
        pairs = [pair for value in values for pair in value.items()]
        found = keys.build([key for key, _ in pairs]), items.build([item for _, item in pairs])
        return pa.MapArray.from_arrays(_count(values), *found)

    return Kind(MapType(keys.type, items.type), build)


def _count(values: list[Any]) -> pa.Array:
    """Return the offsets of each value's items in the list of all items."""
    at, offsets = 0, [0]
    for value in values:
        at += len(value)
        offsets.append(at)
    return pa.array(offsets, pa.int32())
