"""Protobuf schemas and values for tests: messages are made from plain values by Google's runtime."""

from typing import Any

from google.protobuf.json_format import ParseDict

from kappa_pipelines.protobuf.compiler import compile_text
from kappa_pipelines.protobuf.schema import Schema, load_types


def build_schema(text: str, message: str) -> Schema:
    return Schema(compile_text("test", text), message)


def write_message(schema: Schema, value: dict[str, Any]) -> bytes:
    """The bytes of a message that is given in Protobuf's own JSON form."""
    written: bytes = ParseDict(value, load_types(schema).message()).SerializeToString()
    return written


def write_framed(id_: int, schema: Schema, value: dict[str, Any], indexes: bytes = b"\0") -> bytes:
    return b"\0" + id_.to_bytes(4, "big") + indexes + write_message(schema, value)
