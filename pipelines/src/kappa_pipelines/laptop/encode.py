"""Values of files and test cases in binary formats: JSON objects become Avro records or Protobuf messages.

Only objects are encoded; other text is left as it is, so that a test case can have malformed records.
"""

import json

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.types import StructType

from kappa_pipelines.protobuf.encoder import encode_object
from kappa_pipelines.protobuf.indexes import write_indexes
from kappa_pipelines.protobuf.schema import Schema, Types, load_types
from kappa_pipelines.sources.arrow import map_batches
from kappa_pipelines.sources.avro import BareAvro, FramedAvro
from kappa_pipelines.sources.framing import write_header
from kappa_pipelines.sources.kafka import KafkaSource
from kappa_pipelines.sources.protobuf import BareProtobuf, FramedProtobuf
from kappa_pipelines.sources.values import CORRUPT, PERMISSIVE, read_text, with_corrupt


def encode_value(source: KafkaSource) -> Column:
    """Return the value in the source's format; it fails on an object that does not fit the schema."""
    match source.values:
        case BareAvro() as bare:
            return _encode_avro(source.name, bare.schema, bare.written, bare.reader.is_record, b"")
        case FramedAvro() as framed:
            written = framed.read_as
            header = write_header(written.id)
            return _encode_avro(source.name, framed.schema, written.schema, framed.reader.is_record, header)
        case BareProtobuf() as bare:
            return _encode_protobuf(source.name, bare.plan.schema, b"")
        case FramedProtobuf() as framed:
            header = write_header(framed.subject.reader.id) + write_indexes(framed.indexes)
            return _encode_protobuf(source.name, framed.plan.schema, header)
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
        return header + encode_object(types, value), None
    except ValueError as error:
        return None, str(error)


def _name_row(source: str) -> Column:
    return f.concat(f.lit(f"source {source!r}: the row "), f.substring(read_text(), 1, 200))


def _encode_avro(source: str, columns: StructType, schema: object, is_record: bool, header: bytes) -> Column:
    row = f.from_json(read_text(), with_corrupt(columns).simpleString(), PERMISSIVE)
    values = f.struct(*[row[name].alias(name) for name in columns.names])
    record = to_avro(values if is_record else row["value"], json.dumps(schema))
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
    if not isinstance(schema, dict) or schema["type"] != "record":
        return ["value"]
    return [field["name"] for field in schema["fields"] if not _takes_null(field["type"])]


def _takes_null(kind: object) -> bool:
    return kind == "null" or (isinstance(kind, list) and "null" in kind)
