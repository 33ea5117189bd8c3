"""Headers of records that the runtime writes beside a sink's own: dead letters, late records, rejected records.

Kafka limits the size of a record. A record that exceeds the limit is truncated: it keeps the first bytes of its value and of its headers.
"""

from pyspark.sql import Column
from pyspark.sql import functions as f

HEADER_PREFIX = "kappa."
RESERVED_BYTES = 8192
"""Upper bound of the bytes of key and headers of a truncated record."""
_HEADER_BYTES = 512


def build_header(name: str, value: Column) -> Column:
    """Return a header of the runtime."""
    return f.struct(f.lit(HEADER_PREFIX + name).alias("key"), value.cast("binary").alias("value"))


def truncate_header(header: Column) -> Column:
    """Return a header with the first bytes of its value."""
    value = f.substring(header["value"], 1, _HEADER_BYTES)
    return f.struct(header["key"].alias("key"), value.alias("value"))


def truncate_value(value: Column, limit: int) -> Column:
    """Return the part of a value that fits into a truncated record of at most `limit` bytes."""
    return f.substring(value, 1, max(0, limit - RESERVED_BYTES))
