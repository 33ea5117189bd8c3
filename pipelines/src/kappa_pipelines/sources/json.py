"""JSON objects as columns.

As with Spark's parser everywhere, a missing field is NULL, an unknown field is ignored, and so is text after the object.
"""

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from kappa_crds.format import JsonFormat
from kappa_pipelines.sources.values import PERMISSIVE, TextValues, parse_schema, read_text, with_corrupt

_ERRORS = "value is not a JSON object", "value is not valid JSON for the declared schema"


class JsonValues(TextValues):
    """Values that are JSON objects."""

    def parse_as(self, schema: StructType) -> Column:  # noqa: D102 - see TextValues
        return f.from_json(read_text(), with_corrupt(schema), self.options)


def build_json(source: str, json: JsonFormat) -> JsonValues:
    """Return the format; SpecError if its schema is invalid. Needs an active Spark session."""
    options = dict(PERMISSIVE)
    if json.timestamp_format is not None:
        options["timestampFormat"] = json.timestamp_format
    return JsonValues(parse_schema(source, json.schema_), options, _ERRORS)
