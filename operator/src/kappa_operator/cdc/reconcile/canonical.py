"""The canonical text of a value, from how Debezium writes it in JSON; `queries` has the SQL that gives the same text.

A row is a list of fields. A NULL is an empty field; a text begins with its length, so that no two rows have the same joined fields. A long
text is replaced by its checksum, so that rows of any size are compared in little memory.
Source of the encodings: Debezium, "Debezium connector for PostgreSQL: Data type mappings".
"""

import hashlib
import json
import struct
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from kappa_operator.cdc.reconcile.mariadb.values import format_digits, to_days, to_micros, write_json
from kappa_operator.cdc.reconcile.model import Column, Kind

LONG = 512
"""Characters, or bytes, from which the checksum of a value takes its place."""
SEPARATOR = "|"
DIGEST_BYTES = 16
UNAVAILABLE = "?unavailable"
"""The field of a large value that an update has left as it was, so that the event does not have it."""
_PLACEHOLDER = "__debezium_unavailable_value"
_PLACEHOLDERS = frozenset({
    _PLACEHOLDER,
    "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",  # of bytes
    f'{{"{_PLACEHOLDER}":"{_PLACEHOLDER}"}}',
})  # fmt: skip
_ARRAY_PLACEHOLDERS: tuple[list[Any], ...] = ([_PLACEHOLDER], list(_PLACEHOLDER.encode()))
_EPOCH, _EPOCH_DATE = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1)
_MICRO = timedelta(microseconds=1)
_EPOCH_MICROS, _EPOCH_DAYS = 946_684_800_000_000, 10_957
"""From 1970 to 2000, from where PostgreSQL counts."""
_BIG, _SMALL, _DOUBLE, _REAL = (
    struct.Struct(">q"),
    struct.Struct(">i"),
    struct.Struct(">d"),
    struct.Struct(">f"),
)

Read = Callable[[Any], str]
_ERRORS = (ValueError, TypeError, KeyError, ArithmeticError, AttributeError, struct.error)


class RowReader:
    """Turns the columns of an event into fields. A value of an unexpected form becomes a field that no row of a database has."""

    def __init__(self, columns: Iterable[Column], *, is_key: bool = False) -> None:
        self._readers = [(each.name, build_reader(each, is_key=is_key)) for each in columns]

    def read(self, row: Mapping[str, Any]) -> list[str]:
        """Return the fields. A column that the event lacks is NULL, as it is for all who read the topic."""
        try:
            return ["" if (value := row.get(name)) is None else read(value) for name, read in self._readers]
        except _ERRORS:
            return [_read_safely(row.get(name), read) for name, read in self._readers]


def _read_safely(value: Any, read: Read) -> str:
    try:
        return "" if value is None else read(value)
    except _ERRORS:
        return f"?{_digest(json.dumps(value))}"


def hash_fields(fields: Iterable[str]) -> bytes:
    """Return the checksum of a row or a key."""
    return hash_text(SEPARATOR.join(fields))


def hash_text(text: str) -> bytes:
    """Return the checksum of a text."""
    return digest(text.encode(errors="surrogatepass"))


def digest(content: bytes) -> bytes:
    """Return the checksum of bytes: the first half of SHA-256, which all databases compute. MySQL 9.6 has no MD5 any more."""
    return hashlib.sha256(content).digest()[:DIGEST_BYTES]


def _digest(text: str) -> str:
    return hash_text(text).hex()


def build_reader(column: Column, *, is_key: bool = False) -> Read:
    """Return the function that gives the field of a value. Texts of keys are never replaced by checksums."""
    read = _build_scalar(column, is_key=is_key or column.is_array)
    return _read_array(read) if column.is_array else read


def _build_scalar(column: Column, *, is_key: bool) -> Read:
    match column.kind:
        case Kind.TEXT | Kind.DOCUMENT:
            return _read_key_text if is_key else _read_text
        case Kind.JSON:
            return _read_document
        case Kind.PADDED:
            return lambda value: (_read_key_text if is_key else _read_text)(value.rstrip(" "))
        case Kind.NUMERIC | Kind.MONEY:
            return _build_numeric(column.scale, is_text=column.is_text)
        case Kind.MICROS:
            return lambda value: str(to_micros(value, column.micros))
        case Kind.TIME:
            return lambda value: _BIG.pack(_to_micros_of_day(value, column.micros)).hex()
        case Kind.TIMESTAMP:
            return lambda value: _BIG.pack(_to_micros(value, column.micros) - _EPOCH_MICROS).hex()
    return _READERS[column.kind]


def _read_plain(value: Any) -> str:
    text = str(value)
    if SEPARATOR in text:
        raise ValueError(text)
    return text


def _read_text(value: Any) -> str:
    if value.__class__ is not str:
        value = json.dumps(value)
    if len(value) < LONG:
        return UNAVAILABLE if value in _PLACEHOLDERS else f"{len(value)}:{value}"
    return f"#{_digest(value)}"


def _read_document(value: Any) -> str:
    """Debezium writes a document as the server does in a snapshot, and without blanks in changes."""
    return UNAVAILABLE if value in _PLACEHOLDERS else _read_text(write_json(json.loads(value)))


def _read_key_text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return f"{len(text)}:{text}"


def _read_boolean(value: Any) -> str:
    if value is True or value is False:
        return "t" if value else "f"
    raise ValueError(value)


def _read_real(value: Any) -> str:
    return _REAL.pack(float(value)).hex()


def _read_double(value: Any) -> str:
    return _DOUBLE.pack(float(value)).hex()


def _read_date(value: Any) -> str:
    days = value if isinstance(value, int) else (date.fromisoformat(value) - _EPOCH_DATE).days
    return _SMALL.pack(days - _EPOCH_DAYS).hex()


def _to_micros(value: Any, micros: int) -> int:
    if isinstance(value, int):
        return value * micros if micros else value // 1000
    return (datetime.fromisoformat(value).replace(tzinfo=UTC) - _EPOCH) // _MICRO


def _to_micros_of_day(value: Any, micros: int) -> int:
    if isinstance(value, int):
        return value * micros if micros else value // 1000
    at = time.fromisoformat(value)
    return (at.hour * 3600 + at.minute * 60 + at.second) * 1_000_000 + at.microsecond


def _read_instant(value: Any) -> str:
    if value in _INFINITE:
        return _INFINITE[value]
    return _BIG.pack((datetime.fromisoformat(value) - _EPOCH) // _MICRO - _EPOCH_MICROS).hex()


_INFINITE = {"infinity": "7fffffffffffffff", "-infinity": "8000000000000000"}


def _read_bytes(value: Any) -> str:
    if value in _PLACEHOLDERS:
        return UNAVAILABLE
    content = b64decode(value, validate=True)
    return content.hex() if len(content) < LONG else f"#{digest(content).hex()}"


def _read_bits(value: Any) -> str:
    """Return the bits without leading zeros. Debezium writes the lowest byte first, and BIT(1) as a boolean."""
    number = (
        int(value) if isinstance(value, bool) else int.from_bytes(b64decode(value, validate=True), "little")
    )
    return f"{number:b}" if number else ""


def _read_point(value: Any) -> str:
    return _read_double(value["x"]) + _read_double(value["y"])


_READERS: dict[Kind, Read] = {
    Kind.PLAIN: _read_plain,
    Kind.BOOLEAN: _read_boolean,
    Kind.REAL: _read_real,
    Kind.DOUBLE: _read_double,
    Kind.DATE: _read_date,
    Kind.INSTANT: _read_instant,
    Kind.INTERVAL: _read_plain,
    Kind.BYTES: _read_bytes,
    Kind.BITS: _read_bits,
    Kind.POINT: _read_point,
    Kind.DAYS: lambda value: str(to_days(value)),
    Kind.SINGLE_DIGITS: lambda value: format_digits(_REAL.unpack(_REAL.pack(float(value)))[0]),
    Kind.DOUBLE_DIGITS: lambda value: format_digits(float(value)),
}


def _build_numeric(scale: int | None, *, is_text: bool) -> Read:
    """Return the reader of a decimal: an unscaled number in Base64, that with its scale, or digits."""

    def read(value: Any) -> str:
        if isinstance(value, dict):
            return _format_unscaled(_read_unscaled(value["value"]), int(value["scale"]))
        if is_text or value.__class__ is not str or scale is None:
            return format_decimal(Decimal(str(value)))
        return _format_unscaled(_read_unscaled(value), scale)

    return read


def _read_unscaled(value: str) -> int:
    return int.from_bytes(b64decode(value, validate=True), "big", signed=True)


def _format_unscaled(number: int, scale: int) -> str:
    if scale <= 0:
        return str(number * 10**-scale)
    digits = str(abs(number)).rjust(scale + 1, "0")
    text = f"{digits[:-scale]}.{digits[-scale:]}".rstrip("0").rstrip(".")
    return f"-{text}" if number < 0 else text


def format_decimal(number: Decimal) -> str:
    """Return a number without zeros at the end of its fraction, and without exponent."""
    if not number.is_finite():
        return str(number)
    text = f"{number:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _read_array(read: Read) -> Read:
    """Return the reader of an array, whose elements become texts. PostgreSQL's arrays have no nested arrays, only more dimensions."""

    def read_array(value: Any) -> str:
        if value in _ARRAY_PLACEHOLDERS or value == _PLACEHOLDER:
            return UNAVAILABLE
        elements = [None if each is None else read(each) for each in _flatten(value)]
        return _read_text(json.dumps(elements, separators=(",", ":"), ensure_ascii=False))

    return read_array


def _flatten(values: Any) -> Iterable[Any]:
    for each in values:
        if isinstance(each, list):
            yield from _flatten(each)
        else:
            yield each


def split_key(text: str, columns: Iterable[Column]) -> tuple[str, ...]:
    """Return the texts of the columns of a key from its joined fields."""
    found: list[str] = []
    for column in columns:
        if column.kind in (Kind.TEXT, Kind.DOCUMENT, Kind.PADDED) and text[:1].isdigit():
            length, _, text = text.partition(":")
            part, text = text[: int(length)], text[int(length) + 1 :]
        else:
            part, _, text = text.partition(SEPARATOR)
        found.append(part)
    return tuple(found)
