"""The type of a column with the version of a change: its place in the log of the database, and in the topic.

`server` and `position` are NULL where the record does not have them. `snapshot` means that the row was read while no changes were
written, so that it replaces any earlier one. `time` is that in the database, in milliseconds, where truncations are followed. `unavailable` has the columns that the change has left as they were.
"""

from pyspark.sql.types import ArrayType, BooleanType, DataType, LongType, StringType, StructField, StructType

UNAVAILABLE = StructField("unavailable", ArrayType(StringType()))
VERSION = StructType(
    [
        StructField("server", LongType()),
        StructField("position", LongType()),
        StructField("snapshot", BooleanType()),
        StructField("time", LongType()),
        StructField("offset", LongType()),
        UNAVAILABLE,
    ]
)


def is_version(kind: DataType) -> bool:
    """Return whether a column has versions, with or without NULLs."""
    return kind.simpleString() == VERSION.simpleString()
