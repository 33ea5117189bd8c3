"""Values of MariaDB and MySQL in events, as the same text that `queries` computes in SQL.

Source of the encodings: Debezium, "Debezium connector for MariaDB: Data type mappings". Both servers write the shortest digits that give the
same number again, with an exponent from sixteen digits of a whole number and fifteen zeros of a fraction on (its `my_gcvt`, as measured).
"""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

_EPOCH, _EPOCH_DATE = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1)
_MICRO = timedelta(microseconds=1)
_MOST_DIGITS = 15
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1


def to_days(value: Any) -> int:
    """Return the days since 1970."""
    return value if isinstance(value, int) else (date.fromisoformat(value) - _EPOCH_DATE).days


def to_micros(value: Any, micros: int) -> int:
    """Return the microseconds of a number in units of so many, 0 for nanoseconds, or of a time in ISO 8601."""
    if isinstance(value, int):
        return value * micros if micros else value // 1000
    at = datetime.fromisoformat(value)
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) // _MICRO


def format_digits(number: float) -> str:
    """Return a number as MariaDB and MySQL convert DOUBLE to text."""
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(number)
    text, point = "".join(map(str, digits)), len(digits) + exponent
    if number == 0:
        return "-0" if sign else "0"
    if -_MOST_DIGITS < point <= _MOST_DIGITS or len(text) > point > 0:
        written = _write_fixed(text, point)
    else:
        fraction = f".{text[1:]}" if len(text) > 1 else ""
        written = f"{text[0]}{fraction}e{point - 1}"
    return f"-{written}" if sign else written


def write_json(value: Any) -> str:
    """Return a document as MySQL writes it. A whole number that has no 64 bits is a DOUBLE, which Debezium writes with all of its digits."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_quote(name)}: {write_json(each)}' for name, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(write_json, value))}]"
    if isinstance(value, float) or (isinstance(value, int) and not _LEAST <= value <= _MOST):
        digits = format_digits(float(value))
        return digits if "." in digits or "e" in digits else f"{digits}.0"
    return _quote(value)


_quote = json.JSONEncoder(ensure_ascii=False).encode


def _write_fixed(digits: str, point: int) -> str:
    if point <= 0:
        return f"0.{'0' * -point}{digits}"
    if point >= len(digits):
        return digits.ljust(point, "0")
    return f"{digits[:point]}.{digits[point:]}"
