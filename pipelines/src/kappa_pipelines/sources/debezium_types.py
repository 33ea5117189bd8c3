"""Values of columns as Debezium writes them in JSON: the declared type decides how a text becomes a value.

Each function returns NULL for a text that is no value of the type. Source of the encodings: Debezium, "Debezium connector for PostgreSQL:
Data type mappings", with `decimal.handling.mode`, `time.precision.mode` and `binary.handling.mode` at their defaults.
"""

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    AtomicType,
    BinaryType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    YearMonthIntervalType,
)

from kappa_crds.envelope import DebeziumEnvelope, DecimalEncoding, TimestampUnit
from kappa_crds.reasons import Reason
from kappa_pipelines.errors import SpecError

_UNAVAILABLE = "__debezium_unavailable_value"
_PLACEHOLDERS = (
    _UNAVAILABLE,
    "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",  # of bytes
    f'["{_UNAVAILABLE}"]',
    f'{{"{_UNAVAILABLE}":"{_UNAVAILABLE}"}}',
)
"""Texts that take the place of a large value that a change has left as it was."""
_NULL_DOCUMENT = "null"  # a document that is null in JSON, in a column that is not
_NUMBER = "^-?[0-9]+$"
_FIRST_MICRO, _LAST_MICRO = -62_135_596_800 * 10**6, 253_402_300_800 * 10**6 - 1
"""The years 1 to 9999 in microseconds since 1970."""
_HALF_DIGITS = 16  # hexadecimal digits of eight bytes
_HALF = 2**64
_ENCODED = DecimalType, DateType, TimestampType, TimestampNTZType
_UNSUPPORTED = DayTimeIntervalType, YearMonthIntervalType


def check_types(source: str, row: StructType, envelope: DebeziumEnvelope) -> None:
    """Raise SpecError for a column of a type that Debezium has no encoding of."""
    for field in row.fields:
        advice = _find_advice(field.dataType)
        if advice is not None:
            kind = field.dataType.simpleString().upper()
            raise SpecError(
                Reason.INVALID_SCHEMA,
                f"source {source!r}: column {field.name!r} is {kind}, which change events do not have; {advice}",
            )
    times = {
        field.name for field in row.fields if isinstance(field.dataType, (TimestampType, TimestampNTZType))
    }
    unknown = sorted((envelope.timestamp_units or {}).keys() - times)
    if unknown:
        raise SpecError(
            Reason.UNKNOWN_COLUMN,
            f"source {source!r}: envelope.debezium.timestampUnits names {', '.join(unknown)}; its TIMESTAMP columns are"
            f" {', '.join(sorted(times)) or 'none'}",
        )


def _find_advice(kind: DataType) -> str | None:
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, _ENCODED):
        return "declare ARRAY<STRING>, or ARRAY<BIGINT> for times, and convert the elements in a view"
    if isinstance(kind, _UNSUPPORTED) or not isinstance(kind, (AtomicType, ArrayType, MapType, StructType)):
        return "declare it as STRING or BIGINT, and convert it in a view"
    return None


def is_unavailable(text: Column) -> Column:
    """Return whether the text is the placeholder of a large value that the change has left as it was; NULL for no text."""
    return text.isin(*_PLACEHOLDERS)


def is_misfit(field: StructField, text: Column, value: Column) -> Column:
    """Return whether a text is no value of the column's type."""
    wrong = text.isNotNull() & value.isNull() & ~is_unavailable(text)
    return wrong & (text != _NULL_DOCUMENT) if _is_document(field.dataType) else wrong


def read_value(field: StructField, text: Column, envelope: DebeziumEnvelope) -> Column:
    """Return the value of a column, NULL for one that is unavailable."""
    return f.when(~is_unavailable(text), _read(field, text, envelope))


def _read(field: StructField, text: Column, envelope: DebeziumEnvelope) -> Column:
    kind = field.dataType
    match kind:
        case DecimalType():
            return read_decimal(text, kind, envelope.decimals)
        case DateType():
            days = f.date_from_unix_date(text.try_cast("int"))
            return f.when(text.rlike(_NUMBER), days).otherwise(text.try_cast("date"))
        case TimestampType() | TimestampNTZType():
            unit = (envelope.timestamp_units or {}).get(field.name, TimestampUnit.MICROSECONDS)
            return f.when(text.rlike(_NUMBER), _read_number(text, unit).cast(kind)).otherwise(
                text.try_cast(kind)
            )
        case BinaryType():
            return f.try_to_binary(text, f.lit("base64"))
        case StringType():
            return text
    if _is_document(kind):
        return f.when(text != _NULL_DOCUMENT, f.from_json(text, kind.simpleString()))
    return text.try_cast(kind)


def _is_document(kind: DataType) -> bool:
    return isinstance(kind, (ArrayType, MapType, StructType))


def _read_number(text: Column, unit: TimestampUnit) -> Column:
    """Return a number of a unit since 1970 as TIMESTAMP; NULL outside of the years 1 to 9999."""
    number = text.try_cast("decimal(20,0)")
    micros = {
        TimestampUnit.MILLISECONDS: number * 1000,
        TimestampUnit.MICROSECONDS: number,
        TimestampUnit.NANOSECONDS: f.floor(number / 1000),
    }[unit]
    return f.when(micros.between(_FIRST_MICRO, _LAST_MICRO), f.timestamp_micros(micros.try_cast("bigint")))


def bind(value: Column, build: Callable[[Column], Column]) -> Column:
    """Return what `build` makes of a value, which is computed once and is once in the plan, however often it is used."""
    return f.get(f.transform(f.array(value), build), f.lit(0))


def read_decimal(text: Column, kind: DecimalType, encoding: DecimalEncoding) -> Column:
    """Return a DECIMAL: digits as text, or an unscaled number as bytes in Base64, which has its scale beside it where the column has none."""
    if encoding is DecimalEncoding.TEXT:
        return text.try_cast(kind)
    is_free = text.startswith("{")
    value = f.when(is_free, f.get_json_object(text, "$.value")).otherwise(text)
    scale = f.when(is_free, f.get_json_object(text, "$.scale").try_cast("int")).otherwise(f.lit(kind.scale))
    number = bind(f.hex(f.try_to_binary(value, f.lit("base64"))), _read_unscaled)
    parts = f.struct(number.alias("number"), scale.alias("scale"))
    return bind(parts, lambda part: _place_point(part["number"], part["scale"])).try_cast(kind)


def _read_unscaled(digits: Column) -> Column:
    """Return a number in two's complement as text, from its hexadecimal digits; NULL for more than 16 bytes or 38 digits."""
    width = 2 * _HALF_DIGITS
    is_negative = f.substring(digits, 1, 1) >= "8"
    padded = f.when(is_negative, f.lpad(digits, width, "F")).otherwise(f.lpad(digits, width, "0"))
    high = f.conv(f.substring(padded, 1, _HALF_DIGITS), 16, -10).cast("decimal(20,0)")
    low = f.conv(f.substring(padded, _HALF_DIGITS + 1, _HALF_DIGITS), 16, 10).cast("decimal(20,0)")
    number = f.try_add(f.try_multiply(high, f.lit(str(_HALF)).cast("decimal(20,0)")), low)
    return f.when(f.length(digits).between(1, width), number.cast("string"))


def _place_point(number: Column, scale: Column) -> Column:
    """Return the text of a whole number with its last digits after the point."""
    sign = f.when(number.startswith("-"), "-").otherwise("")
    after = f.greatest(scale, f.lit(0))
    zeros = f.repeat(f.lit("0"), f.greatest(-scale, f.lit(0)))
    digits = f.concat(f.ltrim(number, f.lit("-")), zeros)

    def split(digits: Column) -> Column:
        filled = f.lpad(digits, f.greatest(f.length(digits), after + 1), f.lit("0"))
        before = f.length(filled) - after
        whole, fraction = f.substring(filled, f.lit(1), before), f.substring(filled, before + 1, after)
        return f.concat(sign, whole, f.lit("."), fraction)

    return bind(digits, split)
