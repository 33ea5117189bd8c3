"""Values as they are: one column of bytes or text. No record is malformed, and a NULL value is a NULL."""

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from kappa_crds.format import RawFormat, RawType
from kappa_pipelines.sources.values import WithoutTexts

_TYPES: dict[RawType, DataType] = {RawType.BINARY: BinaryType(), RawType.STRING: StringType()}


@dataclass(frozen=True)
class RawValues(WithoutTexts):
    """Values that are not parsed."""

    schema: StructType

    def parse(self, *, alert: bool) -> Column:  # noqa: D102 - see Values
        (field,) = self.schema.fields
        return f.struct(f.col("value").cast(field.dataType).alias(field.name))

    def is_malformed(self, parsed: Column) -> Column:  # noqa: D102 - see Values
        return f.lit(False)

    def columns(self, parsed: Column) -> Column:  # noqa: D102 - see Values
        return parsed

    def explain(self, parsed: Column, texts: Column) -> Column:  # noqa: D102 - see Values
        return f.lit("")


def build_raw(raw: RawFormat) -> RawValues:
    """Return the format."""
    return RawValues(StructType([StructField(raw.column, _TYPES[raw.type])]))
