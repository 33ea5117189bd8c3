"""Random schemas and records of JSON for comparisons with Spark's own functions: mostly valid, and odd in all ways that occurred to us."""

import json
from collections.abc import Callable
from random import Random

_LEAVES = (
    *("BIGINT", "INT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT", "DECIMAL(10,2)", "DECIMAL(38,18)"),
    *("STRING", "BOOLEAN", "DATE", "TIMESTAMP", "BINARY"),
)
_NAMES = ("a", "b", "A", "größe", "a b", "x.y", "n0", "quote'", "__kappa_corrupt")
_NUMBERS = (
    *("0", "-0", "1", "-1", "127", "128", "200", "255", "-128", "-129", "32767", "32768", "-32769", "2147483647", "2147483648"),
    *("9007199254740993", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "-9223372036854775809"),
    *("123456789012345678901234567890", "99999999.99", "99999999.995", "-99999999.994", "1.005", "0.1", "-0.0", "1e5", "1E+05"),
    *("1.5e-7", "1e22", "1e23", "123456789e-22", "4.35", "2.2250738585072014E-308", "4.9e-324", "1e-400", "1.7976931348623157e308"),
    *("1e309", "3.4028235e38", "3.4028236e38", "1.17549435e-38", "0.30000001192092896", "16777217", "16777217.0", "1.00000017881393421514957253748434595763683319091796875001"),
    *("0.000000000000000001", "12345678901234567.8", "123456789012345678", "1234567890123456789", "9007199254740993.0", "1" * 120, "0." + "3" * 150),
    *("NaN", "Infinity", "-Infinity", "INF", "+1", "01", "-", "1.", ".5", "1e", "1e+", "0x10", "1_000", "1d", "--1", "1" * 1100),
)  # fmt: skip
_TIMES = (
    *("2013-01-01T05:15:00Z", "2013-01-01 05:15:00", "2013-01-01T05:15:00.1", "2013-01-01T05:15:00.123456+02:00"),
    *("2013-01-01T05:15:00.1234567Z", "2013-01-01", "2013-01", "2013", "1960-02-29T23:59:59.999999-17:59", "2100-02-29T00:00:00Z"),
    *("0001-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "10000-01-01T00:00:00Z", "-0001-01-01T00:00:00Z"),
    *("2021-03-28T02:30:00", "2021-10-31T02:30:00", "1883-11-18T12:03:58", "2013-01-01T24:00:00", "2013-01-01T05:60:00", "2013-13-01"),
    *("2013-01-01T05:15:00 Europe/Berlin", "2013-01-01T05:15:00UTC", "2013-01-01T05:15:00+0200", "2013-01-01T05:15:00+18:00"),
    *("2013-1-1", "2013-1-1T5:15:0", " 2013-01-01 ", "2013-01-01T", "T05:15", "20130101", "15341", "now", "epoch", "", "01/31/2013 05:15"),
    *("2013-01-31 05:15", "2013-00-10", "2013-01-00", "1900-02-29", "2000-02-29", "2013-01-01T05:15:00.", "2013-01-01T05:15:00z"),
    *("99999999999-01-01", "294247-01-10T04:00:54.775807Z", "294248-01-01T00:00:00Z", "2013-01-01T05:15:00-00:00", "２０１３-01-01"),
)  # fmt: skip
_TEXTS = (
    *("", "x", "null", "NaN", "true", "1", "1.5", "AAEC", "AAE=", "AAE", "A===", "=AAA", "AA EC", "zwölf", "😀", "\u0000", "\u001f\u007f\u0080"),
    *("\t\n\r\b\f", '"quoted"', "\\", "/", "\u2028\u2029\ufeff", "\ud83d", "a" * 300, "é" * 50, "{}", "[1]"),
)  # fmt: skip
_RAW_TEXTS = (
    *(b'"\\ud83d\\ude00"', b'"\\ud83d"', b'"\\ude00\\ud83d"', b'"\\ud83dx"', b'"\\u00E9\\u20ac"', b'"\\/\\b\\f"', b'"\\x"', b'"\\u12"', b'"\\u12g4"'),
    *(b'"\xff"', b'"\xc3"', b'"\xc3\xa9"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xf0\x9f\x98"', b'"a\x01b"', b'"\t"', b"'x'", b'"x', b'"\\'),
)  # fmt: skip
_OTHER = (
    b"true",
    b"false",
    b"null",
    b"tru",
    b"nulll",
    b"TRUE",
    b"[]",
    b"{}",
    b"[1,2]",
    b'{"a":{"b":[null]}}',
    b"[[",
    b"/**/1",
)
_WRAPS: tuple[Callable[[bytes], bytes], ...] = (
    *(lambda text: b" \t\r\n" + text + b" \n", lambda text: text + b"x", lambda text: text + text, lambda text: b"\xef\xbb\xbf" + text),
    *(lambda text: b"[" + text + b"]", lambda text: b"\x0b" + text, lambda text: text.decode("utf-8", "replace").encode("utf-16"), lambda _: b"", lambda _: b" "),
)  # fmt: skip


def make_type(random: Random, depth: int = 2) -> str:
    """Return a random type as DDL."""
    kind = random.random()
    if depth == 0 or kind < 0.7:
        return random.choice(_LEAVES)
    if kind < 0.8:
        return f"ARRAY<{make_type(random, depth - 1)}>"
    if kind < 0.9:
        return f"MAP<STRING,{make_type(random, depth - 1)}>"
    return f"STRUCT<{make_fields(random, depth - 1)}>"


def make_fields(random: Random, depth: int = 2) -> str:
    """Return columns of random names and types as DDL."""
    names = random.sample([name for name in _NAMES if "kappa" not in name], random.randint(1, 5))
    return ", ".join(f"`{name}`: {make_type(random, depth)}" for name in names)


def make_record(random: Random, names: list[str], types: list[str]) -> bytes:
    """Return a record of these columns: of ten about six are valid, the others odd in a field or as a whole."""
    fields = list(zip(names, types, strict=True))
    odd = random.random()
    if random.random() < 0.3:
        random.shuffle(fields)
    if random.random() < 0.2:
        fields = random.choices(fields, k=random.randint(0, 6))
    texts = [_name(random, name) + b":" + make_value(random, kind, odd=odd > 0.7) for name, kind in fields]
    if random.random() < 0.3:
        texts.insert(
            random.randint(0, len(texts)), _name(random, random.choice(_NAMES)) + b":" + _unknown(random)
        )
    text = b"{" + random.choice((b",", b", ", b" ,\n")).join(texts) + b"}"
    if odd > 0.95:
        return random.choice(_WRAPS)(text)
    return _damage(random, text) if odd > 0.85 else text


def make_value(random: Random, kind: str, *, odd: bool) -> bytes:
    """Return a value for a type as JSON."""
    if odd and random.random() < 0.4:
        return _unknown(random)
    if random.random() < 0.1:
        return b"null"
    if kind.startswith("ARRAY<"):
        return (
            b"["
            + b",".join(make_value(random, kind[6:-1], odd=odd) for _ in range(random.randint(0, 3)))
            + b"]"
        )
    if kind.startswith("MAP<"):
        names = random.choices((*_NAMES, "", "\n"), k=random.randint(0, 3))
        return (
            b"{"
            + b",".join(
                _name(random, name) + b":" + make_value(random, kind[11:-1], odd=odd) for name in names
            )
            + b"}"
        )
    if kind.startswith("STRUCT<"):
        return make_record(random, *split_fields(kind[7:-1]))
    return _leaf(random, kind, odd=odd)


def split_fields(ddl: str) -> tuple[list[str], list[str]]:
    """Return names and types of columns that `make_fields` made."""
    parts, level = [""], 0
    for each in ddl:
        level += (each in "<(") - (each in ">)")
        if each == "," and level == 0:
            parts.append("")
        else:
            parts[-1] += each
    pairs = [part.strip()[1:].split("`: ", 1) for part in parts]
    return [name for name, _ in pairs], [kind for _, kind in pairs]


def _leaf(random: Random, kind: str, *, odd: bool) -> bytes:
    if kind == "STRING":
        return _text(random)
    if kind == "BOOLEAN":
        return random.choice((b"true", b"false"))
    if kind in ("DATE", "TIMESTAMP"):
        return json.dumps(random.choice(_TIMES if odd else _TIMES[:5])).encode()
    if kind == "BINARY":
        return json.dumps(random.choice(("AAEC", "AAE=", "", "/+8="))).encode()
    if odd:
        return random.choice(_NUMBERS).encode()
    if kind.startswith(("DOUBLE", "FLOAT", "DECIMAL")):
        size = 10 ** random.randint(-8, 8)
        return random.choice(
            (
                repr(random.uniform(-size, size)),
                f"{random.uniform(-size, size):.2f}",
                str(random.randint(-99, 99)),
            )
        ).encode()
    bits = {"BIGINT": 63, "INT": 31, "SMALLINT": 15, "TINYINT": 7}[kind]
    return str(random.randint(-(2**bits), 2**bits - 1) >> random.randint(0, bits)).encode()


def _text(random: Random) -> bytes:
    if random.random() < 0.1:
        return random.choice(_RAW_TEXTS)
    return _write_text(random, random.choice(_TEXTS))


def _write_text(random: Random, text: str) -> bytes:
    return json.dumps(text, ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")


def _name(random: Random, name: str) -> bytes:
    return _write_text(random, name) + random.choice((b"", b"", b"", b" "))


def _unknown(random: Random) -> bytes:
    kind = random.randint(0, 4)
    if kind == 0:
        return random.choice(_NUMBERS).encode()
    if kind == 1:
        return json.dumps(random.choice(_TIMES)).encode()
    if kind == 2:
        return random.choice(_OTHER)
    if kind == 3:
        return json.dumps({"a": [1, {"b": None}], "größe": "\n", "c": [True, -1.5e3]}).encode()
    return _text(random)


def _damage(random: Random, text: bytes) -> bytes:
    at = random.randrange(len(text))
    kind = random.randint(0, 2)
    if kind == 0:
        return text[:at]
    return text[:at] + (bytes([random.randrange(256)]) if kind == 1 else b"") + text[at + 1 :]
