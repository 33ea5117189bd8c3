"""JSON values as columns, and how a record that does not parse is found and explained.

One `from_json` in Spark's PERMISSIVE mode does both: it fills the columns and, where the text is no JSON object or a
field does not fit its type, a corrupt-record column. So good and bad are told apart in the same scan. As with
Spark's parser everywhere, a missing field is NULL, an unknown field is ignored, and so is text after the object.
"""

from pyspark.errors import ParseException
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from kappa_crds.pipeline import JsonFormat
from kappa_crds.reasons import Reason
from kappa_pipelines.errors import SpecError

CORRUPT = "__kappa_corrupt"
_SNIPPET = 64  # characters of a field's text shown in an error


def parse_schema(source: str, json: JsonFormat) -> StructType:
    """Return the declared columns; SpecError says where the DDL is wrong. Needs an active Spark session."""
    try:
        schema = StructType.fromDDL(json.schema_)
    except ParseException as error:
        raise SpecError(
            Reason.INVALID_SCHEMA, f"source {source!r}: the schema is not valid DDL: {_first_lines(error)}"
        ) from error
    if not isinstance(schema, StructType):
        raise SpecError(
            Reason.INVALID_SCHEMA,
            f"source {source!r}: the schema must name columns: `carrier STRING, dep_delay DOUBLE`",
        )
    _check_names(source, schema.names)
    return schema


def _check_names(source: str, names: list[str]) -> None:
    lowered = [name.lower() for name in names]
    twice = sorted({name for name in names if lowered.count(name.lower()) > 1})
    if twice:
        raise SpecError(
            Reason.INVALID_SCHEMA,
            f"source {source!r}: the schema has columns that differ in nothing or only in case: {', '.join(twice)}",
        )


def _first_lines(error: ParseException) -> str:
    return " ".join(str(error).strip().split("\n\nJVM stacktrace")[0].split())


def build_parsed(schema: StructType, json: JsonFormat) -> Column:
    """Return the struct of the declared columns and the corrupt-record column, from the column `value`."""
    return f.from_json(_text(), _with_corrupt(schema), _options(json))


def is_malformed(parsed: Column) -> Column:
    """Return whether a record could not be read; a NULL or empty value gives a NULL struct."""
    return parsed.isNull() | parsed[CORRUPT].isNotNull()


def _text() -> Column:
    return f.col("value").cast("string")


def _with_corrupt(schema: StructType) -> StructType:
    return StructType([*schema.fields, StructField(CORRUPT, StringType())])


def _options(json: JsonFormat) -> dict[str, str]:
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    if json.timestamp_format is not None:
        options["timestampFormat"] = json.timestamp_format
    return options


def build_error_text(schema: StructType, json: JsonFormat, parsed: Column) -> Column:
    """Return what is wrong with a malformed record, for people.

    The value is parsed again with every column as text: a column with text that the typed parse left NULL is one
    that does not fit. Used only on malformed records, so its cost does not matter.
    """
    texts = StructType([StructField(field.name, StringType()) for field in schema.fields])
    as_text = f.from_json(_text(), _with_corrupt(texts), _options(json))
    misfits = f.filter(
        f.array(*[_misfit(x, parsed, as_text) for x in schema.fields]), lambda x: x.isNotNull()
    )
    return (
        f.when(f.col("value").isNull(), f.lit("value is null"))
        .when(f.length(f.trim(_text())) == 0, f.lit("value is empty"))
        .when(is_malformed(as_text), f.lit("value is not a JSON object"))
        .when(f.size(misfits) > 0, f.array_join(misfits, "; "))
        .otherwise(f.lit("value is not valid JSON for the declared schema"))
    )


def _misfit(field: StructField, parsed: Column, as_text: Column) -> Column:
    text, name = as_text[field.name], field.name
    message = f.concat(
        f.lit(f"column {name}: "),
        f.substring(text, 1, _SNIPPET),
        f.lit(f" is not {_article(field.dataType.simpleString().upper())}"),
    )
    return f.when(text.isNotNull() & parsed[name].isNull(), message)


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind}"
