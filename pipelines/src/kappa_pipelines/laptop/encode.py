"""Values of files and test cases in binary formats: JSON objects become Avro records or Protobuf messages.

Only objects are encoded; other text is left as it is, so that a test case can have malformed records. Source of the mapping to
messages: Protocol Buffers, ProtoJSON Format.
"""

import json

import pyarrow as pa
from google.protobuf.json_format import Parse, ParseError
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import to_avro

from kappa_pipelines.protobuf.indexes import write_indexes
from kappa_pipelines.protobuf.schema import Schema, Types, load_types
from kappa_pipelines.sources.arrow import map_batches
from kappa_pipelines.sources.avro import AvroValues
from kappa_pipelines.sources.avro_schema import is_record
from kappa_pipelines.sources.framing import Framed, write_header
from kappa_pipelines.sources.kafka import KafkaSource
from kappa_pipelines.sources.protobuf import FramedProtobuf, ProtobufValues
from kappa_pipelines.sources.text import CORRUPT, PERMISSIVE, read_text, with_corrupt


def encode_value(source: KafkaSource) -> Column:
    """Return the value in the source's format; it fails on an object that does not fit the schema."""
    values = source.values
    header = write_header(values.subject.reader.id) if isinstance(values, Framed) else b""
    match values:
        case AvroValues():
            return _encode_avro(source.name, values, header)
        case FramedProtobuf():
            return _encode_protobuf(source.name, values.plan.schema, header + write_indexes(values.indexes))
        case ProtobufValues():
            return _encode_protobuf(source.name, values.plan.schema, header)
    return f.col("value")


def _encode_protobuf(source: str, schema: Schema, header: bytes) -> Column:
    def encode(values: pa.Array) -> pa.Array:
        types = load_types(schema)
        pairs = [_encode_one(types, header, value) for value in values.to_pylist()]
        written, wrong = zip(*pairs, strict=True) if pairs else ((), ())
        arrays = [pa.array(written, pa.binary()), pa.array(wrong, pa.string())]
        return pa.StructArray.from_arrays(arrays, names=["value", "wrong"])

    found = map_batches(encode, "value BINARY, wrong STRING", f.col("value"))
    message = f.concat(_name_row(source), f.lit(" does not fit the schema: "), found["wrong"])
    return f.when(found["wrong"].isNotNull(), f.raise_error(message)).otherwise(found["value"])


def _encode_one(types: Types, header: bytes, value: bytes | None) -> tuple[bytes | None, str | None]:
    """Return the bytes of a value, or the error for its object."""
    if value is None or not value.lstrip().startswith(b"{"):
        return value, None
    try:
        message = Parse(value, types.message(), descriptor_pool=types.descriptor.file.pool)
    except (ParseError, RecursionError) as error:
        return None, str(error)
    if not message.IsInitialized():
        return None, f"there is no value for the required {', '.join(message.FindInitializationErrors())}"
    return header + message.SerializeToString(), None


def _name_row(source: str) -> Column:
    return f.concat(f.lit(f"source {source!r}: the row "), f.substring(read_text(), 1, 200))


def _encode_avro(source: str, avro: AvroValues, header: bytes) -> Column:
    columns, schema = avro.schema, avro.reader
    row = f.from_json(read_text(), with_corrupt(columns).simpleString(), PERMISSIVE)
    values = f.struct(*[row[name].alias(name) for name in columns.names])
    record = to_avro(values if is_record(schema) else row["value"], json.dumps(schema))
    required = [f.when(row[name].isNull(), f.lit(name)) for name in _find_required(schema)]
    missing = f.array_compact(f.array(*required))
    is_object = f.coalesce(f.startswith(f.ltrim(read_text()), f.lit("{")), f.lit(False))
    misfit = f.lit(f" does not fit the schema's columns: {columns.simpleString()}")
    incomplete = f.concat(f.lit(" has no value for "), f.array_join(missing, ", "))
    return (
        f.when(~is_object, f.col("value"))
        .when(row[CORRUPT].isNotNull(), f.raise_error(f.concat(_name_row(source), misfit)))
        .when(f.size(missing) > 0, f.raise_error(f.concat(_name_row(source), incomplete)))
        .otherwise(f.concat(f.lit(header), record))
    )


def _find_required(schema: object) -> list[str]:
    """Return the fields of a record that cannot be null."""
    if not isinstance(schema, dict) or not is_record(schema):
        return ["value"]
    return [field["name"] for field in schema["fields"] if not _takes_null(field["type"])]


def _takes_null(kind: object) -> bool:
    return kind == "null" or (isinstance(kind, list) and "null" in kind)
