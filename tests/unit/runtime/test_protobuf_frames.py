"""What stands before a message that names its schema, and versions of a schema that are read as one."""

import base64
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from hypothesis import given
from hypothesis import strategies as st

from kappa_crds.reasons import Reason
from kappa_pipelines.errors import SpecError
from kappa_pipelines.protobuf.compiler import compile_text
from kappa_pipelines.protobuf.decoder import Decoder
from kappa_pipelines.protobuf.indexes import FIRST, WireError, read_indexes, write_indexes
from kappa_pipelines.protobuf.schema import MAIN_FILE, list_messages
from kappa_pipelines.registry.subject import Reference, Registered, Subject
from kappa_pipelines.sources.protobuf import FramedProtobuf, build_framed
from spark.protobuf_values import build_schema, write_framed

HEAD = 'syntax = "proto3"; package plant; '
V1 = HEAD + "message Reading { string sensor = 1; int32 n = 2; } message Other { bool b = 1; }"
V2 = (
    HEAD
    + "message First {} message Reading { string name = 1; int64 n = 2; string unit = 3; Place place = 4; } message Place { int32 x = 1; }"
)
V3 = HEAD + "message Reading { string sensor = 1; sint64 n = 2; }"


def _build(*texts: str, reader: int = 1, message: str | None = None) -> FramedProtobuf:
    versions = tuple(Registered(number * 7, number, text) for number, text in enumerate(texts, start=1))
    return build_framed("readings", Subject("plant", versions, versions[reader - 1]), message)


def _decode(values: FramedProtobuf, *written: bytes | None) -> list[Any]:
    found = Decoder(values.plan).decode(pa.array(written, pa.binary())).to_pylist()
    return [each["error"] or each["row"] for each in found]


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=6).map(tuple), st.binary(max_size=9))
def test_message_indexes_that_are_written_are_read(indexes: tuple[int, ...], rest: bytes) -> None:
    written = write_indexes(indexes)
    assert read_indexes(b"12345" + written + rest, 5) == (indexes, 5 + len(written))


@pytest.mark.parametrize(
    ("written", "indexes"),
    [("00", (0,)), ("0200", (0,)), ("0202", (1,)), ("040200", (1, 0)), ("02ac02", (150,))],
)
def test_message_indexes_are_read_as_confluent_s_serializers_write_them(
    written: str, indexes: tuple[int, ...]
) -> None:
    assert read_indexes(bytes.fromhex(written), 0) == (indexes, len(written) // 2)


@pytest.mark.parametrize("written", ["", "02", "0480", "01", "ffffffff0f", "80808080808080808080"])
def test_an_array_of_indexes_that_is_none_is_an_error(written: str) -> None:
    with pytest.raises(WireError, match="array of message indexes"):
        read_indexes(bytes.fromhex(written), 0)


def test_messages_are_counted_in_the_order_of_the_text_without_entries_of_maps() -> None:
    text = HEAD + "message A { map<string, B> m = 1; message B {} message C { message D {} } } message E {}"
    assert list_messages(build_schema(text, "plant.A").files) == {
        (0,): "plant.A", (0, 0): "plant.A.B", (0, 1): "plant.A.C", (0, 1, 0): "plant.A.C.D", (1,): "plant.E",
    }  # fmt: skip


def test_records_of_all_versions_have_the_columns_of_one_by_the_numbers_of_the_fields() -> None:
    values = _build(V1, V2, message="plant.Reading")
    one, two = (build_schema(text, "plant.Reading") for text in (V1, V2))
    newer = {"name": "b", "n": "3", "unit": "km", "place": {"x": 1}}
    written = [write_framed(7, one, {"sensor": "a", "n": 1}), write_framed(14, two, newer, b"\x02\x02")]
    assert _decode(values, *written) == [{"sensor": "a", "n": 1}, {"sensor": "b", "n": 3}]
    assert values.schema.simpleString() == "struct<sensor:string,n:int>"
    assert (values.indexes, _build(V1, V2, reader=2, message="plant.Reading").indexes) == (FIRST, (1,))


def test_text_of_one_version_that_is_bytes_in_another_need_not_be_text() -> None:
    values = _build(HEAD + "message R { bytes b = 1; }", HEAD + "message R { string b = 1; bool more = 2; }")
    assert _decode(values, b"\0\0\0\0\x0e\0\x0a\x01\xff\x10\x01") == [{"b": b"\xff"}]


def test_the_first_message_is_read_where_none_is_named() -> None:
    assert _build(V1).plan.schema.message == "plant.Reading"


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (None, "value is null"),
        (b"\0\0", "value names no schema that is known"),
        (b"\0\0\0\0\x08\0", "value names no schema that is known"),
        (b"\x01\0\0\0\x07\0", "value names no schema that is known"),
        (b"\0\0\0\0\x07", "after the schema id 7: the array of message indexes does not end"),
        (b"\0\0\0\0\x07\x01", "after the schema id 7: the array of message indexes has a length of -1"),
        (b"\0\0\0\0\x07\x02\x0a", "schema id 7 (version 1 of subject plant) has no message with the index [5]"),
        (b"\0\0\0\0\x07\x02\x02\x08\x01", "value is a plant.Other, but the source reads plant.Reading"),
        (b"\0\0\0\0\x07\0\x0a", "the 1 bytes are no plant.Reading: wire format was corrupt"),
        (b"\0\0\0\0\x0e\0\x10\x01", "schema id 14 (version 2 of subject plant) cannot be read: field 2 is sint64, and in the version that is read int32"),
    ],
    ids=["null", "too short", "an unknown id", "a wrong start", "no indexes", "a negative length", "a message that is not there", "another message", "no message", "a version that does not fit"],
)  # fmt: skip
def test_an_unreadable_value_has_a_reason(written: bytes | None, words: str) -> None:
    good = write_framed(7, build_schema(V1, "plant.Reading"), {"n": 1})
    assert _decode(_build(V1, V3), good, written, good) == [
        {"sensor": "", "n": 1},
        words,
        {"sensor": "", "n": 1},
    ]


def test_a_schema_is_read_with_those_that_it_imports() -> None:
    unit = Reference("plant/unit.proto", HEAD + "enum Unit { M = 0; KM = 1; }")
    place = Reference(
        "plant/place.proto", HEAD + 'import "plant/unit.proto"; message Place { Unit unit = 1; }'
    )
    text = (
        HEAD
        + 'import "plant/place.proto"; import "plant/unit.proto"; message Reading { Place start = 1; Unit unit = 2; }'
    )
    registered = Registered(1, 1, text, (unit, place))
    values = build_framed("readings", Subject("plant", (registered,), registered), None)
    assert values.schema.simpleString() == "struct<start:struct<unit:string>,unit:string>"


def serialize(name: str, text: str, references: tuple[Reference, ...] = ()) -> str:
    """A file as serializers in Python register it: its descriptor, in base64."""
    files = FileDescriptorSet.FromString(compile_text("test", text, references)).file
    (descriptor,) = [file for file in files if file.name == MAIN_FILE]
    descriptor.name = name
    return base64.b64encode(descriptor.SerializeToString()).decode()


@pytest.mark.parametrize(
    "serialized", [("unit",), ("reading",), ("unit", "reading"), ("place", "unit", "reading")]
)
def test_schemas_and_imports_may_be_descriptors(serialized: tuple[str, ...]) -> None:
    unit = Reference("plant/unit.proto", HEAD + "enum Unit { M = 0; KM = 1; }")
    place = Reference(
        "plant/place.proto", HEAD + 'import "plant/unit.proto"; message Place { Unit unit = 1; }'
    )
    reading = HEAD + 'import "plant/place.proto"; message Reading { Place start = 1; }'
    given = {
        "unit": serialize("other.proto", unit.text) if "unit" in serialized else unit.text,
        "place": serialize("place.proto", place.text, (unit,)) if "place" in serialized else place.text,
        "reading": serialize("main.proto", reading, (unit, place)) if "reading" in serialized else reading,
    }
    references = (Reference(unit.name, given["unit"]), Reference(place.name, given["place"]))
    registered = Registered(1, 1, given["reading"], references)
    values = build_framed("readings", Subject("plant", (registered,), registered), None)
    assert values.schema.simpleString() == "struct<start:struct<unit:string>>"


def test_what_every_schema_may_import_needs_no_reference() -> None:
    text = (
        HEAD
        + """
        import "google/type/date.proto"; import "confluent/meta.proto"; import "confluent/type/decimal.proto";
        message Reading {
          option (confluent.message_meta) = { doc: "of a sensor", tags: "PII" };
          google.type.Date day = 1 [(confluent.field_meta) = { doc: "its day" }]; confluent.type.Decimal price = 2;
        }"""
    )
    registered = Registered(1, 1, text)
    values = build_framed("readings", Subject("plant", (registered,), registered), None)
    assert values.schema.simpleString() == (
        "struct<day:struct<year:int,month:int,day:int>,price:struct<value:binary,precision:bigint,scale:int>>"
    )


@pytest.mark.parametrize(
    ("text", "references", "words"),
    [
        (HEAD + "enum E { X = 0; }", (), "has no message of any name, it has: none"),
        (HEAD + "\nmessage A { strin x = 1; }", (), 'line 2, column 13: "strin" is not defined'),
        (V1, (Reference("../../etc/x.proto", ""),), "not the path of a .proto file below"),
        (
            HEAD + 'import "a.proto"; message A { B b = 1; }',
            (Reference("a.proto", "messag B {}"),),
            "a.proto: line 1",
        ),
    ],
    ids=["no message", "an unknown type", "a path that leads elsewhere", "an import with an error"],
)
def test_an_unusable_registered_schema_is_reported_with_its_version(
    text: str, references: tuple[Reference, ...], words: str
) -> None:
    registered = Registered(1, 4, text, references)
    with pytest.raises(SpecError) as raised:
        build_framed("readings", Subject("plant", (registered,), registered), None)
    assert raised.value.reason is Reason.INVALID_SCHEMA
    assert raised.value.message.startswith("source 'readings': version 4 of subject 'plant'")
    assert words in raised.value.message
