"""Avro schemas, parsed by the JVM's own parser, and the envelopes in which values are decoded.

Spark's `from_avro` in PERMISSIVE mode returns a struct of NULLs for bytes that do not fit, which a valid record may be too,
and it ignores bytes after a record. So a value is decoded as an envelope: a record whose first field is the value, and
whose second is `SENTINEL`, eight bytes that are appended to the value. If a value is too short or too long, the sentinel is not
where the decoder expects it.
"""

import json
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import StructField, StructType

from kappa_crds.reasons import Reason
from kappa_pipelines.errors import SpecError
from kappa_pipelines.failures.classify import first_lines
from kappa_pipelines.failures.exceptions import read_failure

BODY = "body"
END = "end"
SENTINEL = bytes.fromhex(
    "8f1d6b42e7a930c5"
)  # no suffix of it is also a prefix, so it occurs at one position only


def read_avro(where: str, text: str, references: tuple[str, ...] = ()) -> Any:
    """Return a schema in JSON form with its references resolved; SpecError if it is invalid.

    Needs an active Spark session.
    """
    jvm: Any = SparkSession.active()._jvm
    parser = getattr(jvm.org.apache.avro, "Schema$Parser")()
    try:
        for reference in references:
            parser.parse(reference)
        return json.loads(parser.parse(text).toString())
    except Py4JJavaError as error:
        raise _refuse(where, error) from error
    except RecursionError:
        message = f"{where}: the Avro schema cannot be used: it is nested too deep"
        raise SpecError(Reason.INVALID_SCHEMA, message) from None


def build_envelope(schema: Any, *, with_sentinel: bool = True) -> str:
    """Return the schema of a value, or of a value and the sentinel after it."""
    end = [{"name": END, "type": {"type": "fixed", "name": "kappa_seal", "size": len(SENTINEL)}}]
    fields = [{"name": BODY, "type": schema}, *(end if with_sentinel else [])]
    return json.dumps({"type": "record", "name": "kappa_envelope", "fields": fields})


def decode(value: Column, writer: str, reader: str) -> Column:
    """Return the envelope in a value, decoded from the writer's to the reader's schema; its fields are NULL if it is invalid."""
    return from_avro(value, writer, {"mode": "PERMISSIVE", "avroSchema": reader})


def find_columns(where: str, reader: Any) -> StructType:
    """Return the columns of a schema: the fields of a record, or a column `value` for any other type."""
    try:
        rows = SparkSession.active().range(0).select(decode(f.lit(b""), *[build_envelope(reader)] * 2))
        kind = rows.select(rows.columns[0] + "." + BODY).schema.fields[0].dataType
    except (PySparkException, Py4JJavaError) as error:
        raise _refuse(where, error) from error
    return kind if is_record(reader) else StructType([StructField("value", kind)])  # type: ignore[return-value]


def is_record(schema: Any) -> bool:
    """Return whether a schema is a record, so that its fields are columns."""
    return isinstance(schema, dict) and schema["type"] == "record"


def _refuse(where: str, error: Exception) -> SpecError:
    message = first_lines(read_failure(error).root.message)
    return SpecError(Reason.INVALID_SCHEMA, f"{where}: the Avro schema cannot be used: {message}")
