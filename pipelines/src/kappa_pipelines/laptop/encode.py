"""Values of files and test cases in a format that people cannot write: JSON objects become Avro records.

Only objects are encoded; any other text stays as it is, so that a test case can say what must not be readable.
"""

import json

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.types import StructType

from kappa_pipelines.sources.avro import BareAvro, FramedAvro
from kappa_pipelines.sources.framing import write_header
from kappa_pipelines.sources.kafka import KafkaSource
from kappa_pipelines.sources.values import CORRUPT, PERMISSIVE, read_text, with_corrupt


def encode_value(source: KafkaSource) -> Column:
    """Return the value as the source's topic would have it; it fails on an object that does not fit the schema."""
    match source.values:
        case BareAvro() as bare:
            return _encode(source.name, bare.schema, bare.written, bare.reader.is_record, b"")
        case FramedAvro() as framed:
            written = framed.read_as
            header = write_header(written.id)
            return _encode(source.name, framed.schema, written.schema, framed.reader.is_record, header)
    return f.col("value")


def _encode(source: str, columns: StructType, schema: object, is_record: bool, header: bytes) -> Column:
    row = f.from_json(read_text(), with_corrupt(columns).simpleString(), PERMISSIVE)
    values = f.struct(*[row[name].alias(name) for name in columns.names])
    record = to_avro(values if is_record else row["value"], json.dumps(schema))
    missing = f.array_compact(f.array(*[_name_missing(row, name) for name in _find_required(schema)]))
    start = f.concat(f.lit(f"source {source!r}: the row "), f.substring(read_text(), 1, 200))
    return (
        f.when(~f.coalesce(f.startswith(f.ltrim(read_text()), f.lit("{")), f.lit(False)), f.col("value"))
        .when(
            row[CORRUPT].isNotNull(),
            f.raise_error(
                f.concat(start, f.lit(f" does not fit the schema's columns: {columns.simpleString()}"))
            ),
        )
        .when(
            f.size(missing) > 0,
            f.raise_error(f.concat(start, f.lit(" has no value for "), f.array_join(missing, ", "))),
        )
        .otherwise(f.concat(f.lit(header), record))
    )


def _name_missing(row: Column, name: str) -> Column:
    return f.when(row[name].isNull(), f.lit(name))


def _find_required(schema: object) -> list[str]:
    """Return the fields of a record that cannot be null."""
    if not isinstance(schema, dict) or schema["type"] != "record":
        return ["value"]
    return [field["name"] for field in schema["fields"] if not _takes_null(field["type"])]


def _takes_null(kind: object) -> bool:
    return kind == "null" or (isinstance(kind, list) and "null" in kind)
