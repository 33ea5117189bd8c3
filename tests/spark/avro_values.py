"""Avro values for tests, written by fastavro, which shares no code with Spark."""

import copy
import io
from typing import Any

import fastavro

Schema = dict[str, Any]


def record(*fields: Schema, name: str = "Reading") -> Schema:
    return {"type": "record", "name": name, "namespace": "plant", "fields": list(fields)}


def write_bare(schema: Schema | str, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(copy.deepcopy(schema)), value)
    return out.getvalue()


def write_framed(id_: int, schema: Schema, value: Any) -> bytes:
    return b"\0" + id_.to_bytes(4, "big") + write_bare(schema, value)
