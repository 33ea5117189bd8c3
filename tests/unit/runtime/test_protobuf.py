"""Protobuf values as rows: what every kind of field becomes, and what is said of bytes that are no message."""

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kappa_crds.reasons import Reason
from kappa_pipelines.errors import SpecError
from kappa_pipelines.protobuf.decoder import Decoder, Plan
from kappa_pipelines.protobuf.schema import Schema
from kappa_pipelines.sources.protobuf import build_bare
from spark.protobuf_values import build_schema, write_message

PROTO3 = """
syntax = "proto3";
package plant;
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/empty.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum State { OFF = 0; ON = 1; }
message Reading {
  message Place { double lat = 1; repeated string tags = 2; }
  int32 i32 = 1; sint32 s32 = 2; sfixed32 sf32 = 3; uint32 u32 = 4; fixed32 f32 = 5;
  int64 i64 = 6; sint64 s64 = 7; sfixed64 sf64 = 8; uint64 u64 = 9; fixed64 f64 = 10;
  float real = 11; double wide = 12; bool yes = 13; string text = 14; bytes raw = 15;
  State state = 16; optional int32 maybe = 17; Place place = 18; repeated Place places = 19; repeated uint64 counts = 20;
  map<int32, Place> by_number = 21; map<string, State> states = 22;
  oneof how { string name = 23; Place at = 24; int64 from = 25; }
  google.protobuf.Timestamp when = 26; google.protobuf.Duration long = 27; google.protobuf.UInt64Value wrapped = 28;
  google.protobuf.Struct more = 29; google.protobuf.Any any = 30; google.protobuf.Empty nothing = 31; repeated State all = 32;
}
"""
NOTHING: dict[str, Any] = {
    **dict.fromkeys(["i32", "s32", "sf32", "u32", "f32", "i64", "s64", "sf64"], 0),
    **{"u64": Decimal(0), "f64": Decimal(0), "real": 0.0, "wide": 0.0, "yes": False, "text": "", "raw": b"", "state": "OFF"},
    **dict.fromkeys(["maybe", "place", "name", "at", "from", "when", "long", "wrapped", "more", "any", "nothing"]),
    **{name: [] for name in ("places", "counts", "by_number", "states", "all")},
}  # fmt: skip


@pytest.fixture(scope="module")
def reading() -> Schema:
    return build_schema(PROTO3, "plant.Reading")


def decode(schema: Schema, *values: bytes | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Decoder(Plan(schema)).decode(pa.array(values, pa.binary())).to_pylist()
    return found


def read(schema: Schema, value: bytes) -> dict[str, Any]:
    (found,) = decode(schema, value)
    assert found["error"] is None
    row: dict[str, Any] = found["row"]
    return row


def refuse(schema: Schema, value: bytes) -> str:
    (found,) = decode(schema, value)
    assert found["row"] is None
    return str(found["error"])


def test_a_message_of_no_bytes_has_the_defaults_and_no_value_where_there_is_presence(reading: Schema) -> None:
    assert read(reading, b"") == NOTHING


def test_integers_keep_their_whole_range(reading: Schema) -> None:
    most = {"i32": -(2**31), "s32": -(2**31), "sf32": 2**31 - 1, "u32": 2**32 - 1, "f32": 2**32 - 1, "i64": -(2**63), "s64": -(2**63), "sf64": 2**63 - 1, "u64": 2**64 - 1, "f64": 2**64 - 1}  # fmt: skip
    row = read(reading, write_message(reading, {name: str(value) for name, value in most.items()}))
    assert row == {**NOTHING, **most}


def test_nested_repeated_and_mapped_values_become_structs_arrays_and_maps(reading: Schema) -> None:
    place = {"lat": 0.5, "tags": ["a", "ä"]}
    value = {
        "place": place,
        "places": [place, {}],
        "counts": [1, "18446744073709551615"],
        "by_number": {"3": place},
    }
    empty = {"lat": 0.0, "tags": []}
    row = read(reading, write_message(reading, {**value, "states": {"x": "ON"}, "all": ["ON", 9]}))
    assert row["place"] == place
    assert row["places"] == [place, empty]
    assert row["counts"] == [Decimal(1), Decimal(2**64 - 1)]
    assert (row["by_number"], row["states"]) == ([(3, place)], [("x", "ON")])
    assert row["all"] == ["ON", "9"], "a number that the enum does not have is its own name"


def test_of_a_oneof_the_one_that_is_set_has_a_value(reading: Schema) -> None:
    row = read(reading, write_message(reading, {"from": "0"}))
    assert (row["name"], row["at"], row["from"]) == (None, None, 0)


def test_well_known_messages_become_one_value(reading: Schema) -> None:
    value = {"when": "2026-01-02T03:04:05.678901999Z", "long": "-1.5s", "wrapped": "0", "more": {"k": [1, None, "ä"]}, "nothing": {}}  # fmt: skip
    row = read(reading, write_message(reading, value))
    assert row["when"] == datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.UTC)
    assert row["long"] == datetime.timedelta(seconds=-1.5)
    assert (row["wrapped"], row["more"], row["nothing"]) == (0, '{"k": [1.0, null, "ä"]}', True)


def test_defaults_of_proto2_are_values_and_other_fields_that_are_not_set_are_null() -> None:
    text = """syntax = "proto2"; message A {
      enum E { X = 1; Y = 2; } optional int32 n = 1 [default = 7]; optional E e = 2 [default = Y]; optional E f = 3;
      optional string s = 4; optional group G = 5 { optional int32 q = 1; } required bool there = 6; extensions 100 to 200; }"""
    schema = build_schema(text, "A")
    there = b"\x30\x01"
    row = {"n": 7, "e": "Y", "f": None, "s": None, "g": None, "there": True}
    assert read(schema, there) == row
    assert read(schema, there + b"\x2b\x08\x05\x2c\xa0\x06\x01") == {**row, "g": {"q": 5}}
    assert read(schema, there + b"\x18\x09") == row, "a number that a closed enum does not have is not set"
    assert "no value for the required there" in refuse(schema, b"\x08\x01")
    assert refuse(schema, there + b"\x22\x01\xff") == "field s: not text in UTF-8"


def test_the_bytes_of_the_format_s_own_documentation_are_read() -> None:
    schema = build_schema(
        'syntax = "proto3"; message T { int32 a = 1; string b = 2; repeated int32 f = 6; }', "T"
    )
    assert read(schema, bytes.fromhex("089601")) == {"a": 150, "b": "", "f": []}
    assert read(schema, bytes.fromhex("120774657374696e67"))["b"] == "testing"
    assert read(schema, bytes.fromhex("3206038e029ea705"))["f"] == [3, 270, 86942]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"\x08", "the 1 bytes are no plant.Reading: wire format was corrupt"),
        (b"\x72\x05ab", "wire format was corrupt"),
        (b"\x0a\x01\x00", "field i32 (1) is bytes with a length, and the schema wants a varint"),
        (b"\x92\x01\x02\x08\x01", "in field place (18): field lat (1) is a varint, and the schema wants 8 bytes"),
        (b"\xaa\x01\x04\x08\x01\x10\x01", "in field by_number (21): field value (2) is a varint"),
        (b"\xc2\x01\x02\x08\x01", "in field at (24): field lat (1) is a varint"),
        (b"\x72\x02\xff\xfe", "bad UTF-8"),
        (b"\x00\x01", "wire format was corrupt"),
        (b"\x0f", "wire format was corrupt"),
        (b"\xff" * 20, "wire format was corrupt"),
        (b"\xf3\x07" * 200, "wire format was corrupt"),
        (b"\xf4\x07", "wire format was corrupt"),
        (b"\xd2\x01\x02\x10\x01\xd2\x01\x08\x08\x80\x80\x80\x80\x80\x80\x10", "field when: 70368744177664 seconds and 1 nanoseconds are not a Timestamp"),
    ],
    ids=[
        "ends in a number", "ends in a text", "a wrong wire type", "in a nested message", "in a map", "in a oneof",
        "no text", "no field number", "no wire type", "an endless number", "groups without end", "an end without group", "no time",
    ],
)  # fmt: skip
def test_bytes_that_are_no_message_are_refused_with_what_is_wrong_and_the_rest_of_the_batch_is_read(
    reading: Schema, value: bytes, words: str
) -> None:
    good = write_message(reading, {"i32": 1})
    found = decode(reading, good, value, None, good)
    assert [each["row"] and each["row"]["i32"] for each in found] == [1, None, None, 1]
    assert words in found[1]["error"]
    assert found[2]["error"] == "value is null"


def test_fields_that_the_schema_does_not_know_are_ignored(reading: Schema) -> None:
    assert read(reading, b"\x08\x01\xf8\x07\x05\xf2\x07\x01a") == {**NOTHING, "i32": 1}


def test_huge_values_are_read_and_huge_lengths_are_refused(reading: Schema) -> None:
    assert len(read(reading, write_message(reading, {"text": "x" * 2**20}))["text"]) == 2**20
    many = decode(reading, *[write_message(reading, {"text": f"{n}" * 2**20}) for n in range(9)])
    assert [each["row"]["text"][0] for each in many] == list("012345678")
    assert "wire format was corrupt" in refuse(reading, b"\x72\xff\xff\xff\xff\x07" + b"x" * 100)


@pytest.mark.parametrize(
    ("text", "message", "words"),
    [
        ('syntax = "proto3";\nmessage A {\n  strin x 1;\n}', "A", 'line 3, column 11: Missing field number.'),
        ('syntax = "proto3";\nmessage A { B b = 1; }', "A", 'line 2, column 13: "B" is not defined.'),
        ('syntax = "proto3"; import "other.proto"; message A { int32 x = 1; }', "A", "other.proto: File not found."),
        ("message A { optional int32 x = 1; }", "B", "has no message B, it has: A; correct `message`"),
        ("message A { optional B b = 1; } message B { repeated A a = 1; }", "A", "A is recursive (A → B → A)"),
        ("message A {}", "A", "message A has no fields"),
        ("message A { optional int32 x = 1; optional int32 X = 2; }", "A", "only in case: X, x"),
        ("".join(f"message M{n} {{ {' '.join(f'optional M{n + 1} f{k} = {k};' for k in range(1, 11))} }}" for n in range(5)) + "message M5 { optional int32 x = 1; }", "M0", "more than 10000 columns"),
    ],
    ids=["no syntax", "an unknown type", "an unknown import", "an unknown message", "a circle", "no fields", "columns alike", "too many"],
)  # fmt: skip
def test_an_unusable_schema_is_reported_with_its_source_and_place(
    text: str, message: str, words: str
) -> None:
    with pytest.raises(SpecError) as raised:
        build_bare("readings", text, message)
    assert raised.value.reason is Reason.INVALID_SCHEMA
    assert raised.value.message.startswith("source 'readings': ")
    assert words in raised.value.message
