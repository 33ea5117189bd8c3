"""One line of CSV as columns, by position.

A record with more or fewer fields than declared is malformed, as is a field that does not fit its type. An empty
field that is not quoted is NULL.
"""

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from kappa_crds.format import CsvFormat
from kappa_pipelines.sources.values import PERMISSIVE, TextValues, parse_schema, read_text, with_corrupt

_MAX_FIELDS = 20_000  # Spark makes room for 20480


class CsvValues(TextValues):
    """Values that are lines of CSV."""

    def parse_as(self, schema: StructType) -> Column:  # noqa: D102 - see TextValues
        # A NULL value would otherwise be a row of NULLs, as if it had been read.
        parsed = f.from_csv(read_text(), with_corrupt(schema).toDDL(), self.options)
        return f.when((f.length(f.trim(read_text())) > 0) & self._is_narrow(), parsed)

    def _is_narrow(self) -> Column:
        """Return whether the parser accepts the line: too many fields fail the query."""
        text, separator = read_text(), f.lit(self.options["sep"])
        fields = (f.length(text) - f.length(f.replace(text, separator))) / f.length(separator)
        return (f.length(text) < _MAX_FIELDS) | (fields < _MAX_FIELDS)


def build_csv(source: str, csv: CsvFormat) -> CsvValues:
    """Return the format; SpecError if its schema is invalid. Needs an active Spark session."""
    options = {**PERMISSIVE, "sep": csv.separator, "nullValue": csv.null_value, "enforceSchema": "true"}
    if csv.timestamp_format is not None:
        options["timestampFormat"] = csv.timestamp_format
    schema = parse_schema(source, csv.schema_)
    few = f"value does not have the {len(schema.fields)} fields that the schema declares"
    return CsvValues(schema, options, (few, "value is not valid CSV for the declared schema"))
