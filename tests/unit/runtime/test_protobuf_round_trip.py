"""Messages of schemas made up by Hypothesis, written by Google's runtime, are the rows that a plain reading of the documentation says."""

import datetime
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kappa_pipelines.protobuf.decoder import Decoder, Plan
from kappa_pipelines.protobuf.schema import Schema, load_types
from spark.protobuf_values import build_schema

MISSING = object()


def _integers(bits: int, *, signed: bool) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else st.integers(0, 2**bits - 1)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    **{name: _integers(32, signed=True) for name in ("int32", "sint32", "sfixed32")},
    **{name: _integers(64, signed=True) for name in ("int64", "sint64", "sfixed64")},
    **{name: _integers(32, signed=False) for name in ("uint32", "fixed32")},
    **{name: _integers(64, signed=False) for name in ("uint64", "fixed64")},
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": st.text(max_size=200),
    "bytes": st.binary(max_size=200),
    "Color": st.integers(0, 4),
    "Inner": st.fixed_dictionaries({"n": _integers(64, signed=True), "s": st.text(max_size=5)}),
    "google.protobuf.Timestamp": st.datetimes(min_value=datetime.datetime(1, 1, 1), timezones=st.just(datetime.UTC)),
}  # fmt: skip
DEFAULTS: dict[str, Any] = {
    "float": 0.0,
    "double": 0.0,
    "bool": False,
    "string": "",
    "bytes": b"",
    "Color": 0,
}
MESSAGES = ("Inner", "google.protobuf.Timestamp")
SHAPES = ("plain", "optional", "repeated", "map")


@dataclass(frozen=True)
class Field:
    """A field of a made-up message, and its value in each of some messages."""

    number: int
    type: str
    shape: str
    values: tuple[Any, ...]

    @property
    def line(self) -> str:
        kind = {"plain": self.type, "map": f"map<string, {self.type}>"}
        return f"{kind.get(self.shape, f'{self.shape} {self.type}')} f{self.number} = {self.number};"


@st.composite
def _fields(draw: st.DrawFn) -> list[Field]:
    numbers = draw(st.lists(st.integers(1, 2000), min_size=1, max_size=8, unique=True))
    count = draw(st.integers(1, 4))
    return [_draw_field(draw, number, count) for number in numbers]


def _draw_field(draw: st.DrawFn, number: int, count: int) -> Field:
    type_, shape = draw(st.sampled_from(sorted(VALUES))), draw(st.sampled_from(SHAPES))
    one = VALUES[type_]
    some = {
        "repeated": st.lists(one, max_size=4),
        "map": st.dictionaries(st.text(max_size=4), one, max_size=3),
    }
    value = some.get(shape, st.just(MISSING) | one)
    return Field(number, type_, shape, tuple(draw(value) for _ in range(count)))


def _build(fields: list[Field]) -> Schema:
    lines = "\n".join(field.line for field in fields)
    text = f"""syntax = "proto3";
      import "google/protobuf/timestamp.proto";
      enum Color {{ RED = 0; GREEN = 1; BLUE = 2; }}
      message Inner {{ sint64 n = 1; string s = 2; }}
      message Made {{ {lines} }}"""
    return build_schema(text, "Made")


def _write(schema: Schema, fields: list[Field], index: int) -> bytes:
    message = load_types(schema).message()
    for field in fields:
        _set(message, f"f{field.number}", field, field.values[index])
    written: bytes = message.SerializeToString()
    return written


def _set(message: Any, name: str, field: Field, value: Any) -> None:
    if field.shape == "map":
        for key, item in value.items():
            if field.type in MESSAGES:
                _fill(getattr(message, name)[key], item)
            else:
                getattr(message, name)[key] = item
    elif field.shape == "repeated":
        for item in value:
            held = getattr(message, name)
            _fill(held.add(), item) if field.type in MESSAGES else held.append(item)
    elif value is not MISSING:
        if field.type in MESSAGES:
            _fill(getattr(message, name), value)
        else:
            setattr(message, name, value)


def _fill(message: Any, value: Any) -> None:
    message.SetInParent()
    if isinstance(value, datetime.datetime):
        message.FromDatetime(value)
    else:
        message.n, message.s = value["n"], value["s"]


def _expect(field: Field, value: Any) -> Any:
    """What the documentation says of a field: of presence, of defaults, of enums with numbers that they do not have."""
    show = _show(field.type)
    if field.shape == "repeated":
        return [show(item) for item in value]
    if field.shape == "map":
        return {key: show(item) for key, item in value.items()}
    if value is not MISSING:
        return show(value)
    has_presence = field.shape == "optional" or field.type in MESSAGES
    return None if has_presence else show(DEFAULTS.get(field.type, 0))


def _show(type_: str) -> Callable[[Any], Any]:
    if type_ == "Color":
        return lambda value: {0: "RED", 1: "GREEN", 2: "BLUE"}.get(value, str(value))
    return Decimal if type_ in ("uint64", "fixed64") else lambda value: value


def _compare(value: Any) -> Any:
    """Zero and minus zero are different floats; pairs of a map have no order."""
    if isinstance(value, float):
        return struct.pack("d", value)
    return dict(value) if isinstance(value, list) and value and isinstance(value[0], tuple) else value


@given(_fields())
@settings(max_examples=40, deadline=None)
def test_what_is_written_is_read(fields: list[Field]) -> None:
    schema = _build(fields)
    count = len(fields[0].values)
    values = [_write(schema, fields, index) for index in range(count)]
    found = Decoder(Plan(schema)).decode(pa.array(values, pa.binary())).to_pylist()
    for index, each in enumerate(found):
        assert each["error"] is None
        for field in fields:
            read, wanted = each["row"][f"f{field.number}"], _expect(field, field.values[index])
            wanted = [] if wanted == {} else wanted
            assert _compare(read) == _compare(wanted), field.line


_SCHEMA = """syntax = "proto3"; import "google/protobuf/timestamp.proto";
message Made { int32 a = 1; string b = 2; Inner c = 3; repeated Inner d = 4; map<string, Inner> e = 5; repeated fixed32 f = 6;
  google.protobuf.Timestamp g = 7; }
message Inner { sint64 n = 1; string s = 2; double x = 3; }"""
_PIECES = st.sampled_from(
    [
        b"\x08\x05", b"\x12\x01a", b"\x1a\x02\x08\x02", b"\x1a\x03\x12\x01b", b"\x22\x00", b"\x2a\x05\x0a\x01k\x12\x00", b"\x32\x04abcd",
        b"\x35abcd", b"\x3a\x02\x08\x07", b"\x0a\x01a", b"\x1a\x02\x18\x01", b"\xf8\x7f\x01", b"\xff", b"\x43\x44",
    ]
)  # fmt: skip
_BYTES = st.lists(_PIECES | st.binary(max_size=6), max_size=5).map(b"".join)


@given(st.lists(_BYTES, min_size=1, max_size=8))
@settings(max_examples=300, deadline=None)
def test_whatever_the_bytes_are_each_value_is_a_row_or_has_an_error_and_its_neighbours_do_not_matter(
    values: list[bytes],
) -> None:
    decoder = Decoder(Plan(build_schema(_SCHEMA, "Made")))
    together = decoder.decode(pa.array(values, pa.binary())).to_pylist()
    alone = [decoder.decode(pa.array([value], pa.binary())).to_pylist()[0] for value in values]
    assert together == alone
    assert all((each["row"] is None) == (each["error"] is not None) for each in together)
