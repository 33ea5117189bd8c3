"""Formats of text with Spark's own parsers, JSON and CSV, and values that are not parsed.

One parse in Spark's PERMISSIVE mode fills the columns and, where the text or a field does not fit, a corrupt-record column. So
valid and malformed records are separated in the same scan.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from pyspark.errors import ParseException
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from kappa_crds.format import CsvFormat, JsonFormat, RawFormat, RawType
from kappa_crds.reasons import Reason
from kappa_pipelines.errors import SpecError
from kappa_pipelines.sources.values import EMPTY, WithoutTexts, check_names, explain_absent

CORRUPT = "__kappa_corrupt"
PERMISSIVE = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
"""Options of every parser."""
PERMISSIVE_JSON = {**PERMISSIVE, "maxStringLen": "100000000"}
"""Spark takes texts of 20,000,000 characters by default. Kafka's brokers accept 100 MiB for a record."""
_SNIPPET = 64  # characters of a field's text shown in an error
_MAX_FIELDS = 20_000  # Spark makes room for 20480
_JSON_ERRORS = "value is not a JSON object", "value is not valid JSON for the declared schema"
_RAW_TYPES: dict[RawType, DataType] = {RawType.BINARY: BinaryType(), RawType.STRING: StringType()}


@dataclass(frozen=True)
class TextValues(ABC):
    """Formats of text whose parser returns a struct of the declared columns and a column for corrupt records.

    `errors` are that of a value whose parse as text fails too, and that of a value of which no column is the cause.
    """

    schema: StructType
    options: dict[str, str]
    errors: tuple[str, str]

    def is_malformed(self, parsed: Column) -> Column:
        """Return whether a record is malformed; the struct of a NULL or empty value is NULL."""
        return parsed.isNull() | parsed[CORRUPT].isNotNull()

    def columns(self, parsed: Column) -> Column:  # noqa: D102 - see Values
        return parsed

    def parse(self, *, alert: bool) -> Column:  # noqa: D102 - see Values
        return self.parse_as(self.schema)

    def parse_texts(self) -> Column:  # noqa: D102 - see Values
        return self.parse_as(StructType([StructField(name, StringType()) for name in self.schema.names]))

    def explain(self, parsed: Column, texts: Column) -> Column:
        """Return why a text is malformed: the columns that have text but are NULL in the typed parse."""
        misfits = f.concat_ws("; ", *[_misfit(field, parsed, texts) for field in self.schema.fields])
        return explain_absent(
            f.when(f.length(f.trim(read_text())) == 0, f.lit(EMPTY))
            .when(self.is_malformed(texts), f.lit(self.errors[0]))
            .when(f.length(misfits) > 0, misfits)
            .otherwise(f.lit(self.errors[1]))
        )

    @abstractmethod
    def parse_as(self, schema: StructType) -> Column:
        """Return the value parsed with other columns."""


class JsonValues(TextValues):
    """Values that are JSON objects. A missing field is NULL; an unknown field and text after the object are ignored."""

    def parse_as(self, schema: StructType) -> Column:  # noqa: D102 - see TextValues
        return f.from_json(read_text(), describe_struct(with_corrupt(schema)), self.options)


class CsvValues(TextValues):
    """Values that are lines of CSV, by position.

    A record with more or fewer fields than declared is malformed, as is a field that does not fit its type. An empty field that is
    not quoted is NULL.
    """

    def parse_as(self, schema: StructType) -> Column:  # noqa: D102 - see TextValues
        # A NULL value would otherwise be a row of NULLs, as if it had been read.
        parsed = f.from_csv(read_text(), with_corrupt(schema).toDDL(), self.options)
        return f.when((f.length(f.trim(read_text())) > 0) & self._is_narrow(), parsed)

    def _is_narrow(self) -> Column:
        """Return whether the parser accepts the line: too many fields fail the query."""
        text, separator = read_text(), f.lit(self.options["sep"])
        fields = (f.length(text) - f.length(f.replace(text, separator))) / f.length(separator)
        return (f.length(text) < _MAX_FIELDS) | (fields < _MAX_FIELDS)


@dataclass(frozen=True)
class RawValues(WithoutTexts):
    """Values as they are: one column of bytes or text. No record is malformed, and a NULL value is a NULL."""

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


def build_json(source: str, json: JsonFormat) -> JsonValues:
    """Return the format; SpecError if its schema is invalid. Needs an active Spark session."""
    options = dict(PERMISSIVE_JSON)
    if json.timestamp_format is not None:
        options["timestampFormat"] = json.timestamp_format
    return JsonValues(parse_schema(source, json.schema_), options, _JSON_ERRORS)


def build_csv(source: str, csv: CsvFormat) -> CsvValues:
    """Return the format; SpecError if its schema is invalid. Needs an active Spark session."""
    options = {**PERMISSIVE, "sep": csv.separator, "nullValue": csv.null_value, "enforceSchema": "true"}
    if csv.timestamp_format is not None:
        options["timestampFormat"] = csv.timestamp_format
    schema = parse_schema(source, csv.schema_)
    few = f"value does not have the {len(schema.fields)} fields that the schema declares"
    return CsvValues(schema, options, (few, "value is not valid CSV for the declared schema"))


def build_raw(raw: RawFormat) -> RawValues:
    """Return the format."""
    return RawValues(StructType([StructField(raw.column, _RAW_TYPES[raw.type])]))


def parse_schema(source: str, ddl: str) -> StructType:
    """Return the declared columns; SpecError if the DDL is invalid. Needs an active Spark session."""
    try:
        schema = StructType.fromDDL(ddl)
    except ParseException as error:
        message = " ".join(str(error).split("\n\nJVM stacktrace")[0].split())
        raise SpecError(
            Reason.INVALID_SCHEMA, f"source {source!r}: the schema is not valid DDL: {message}"
        ) from error
    if not isinstance(schema, StructType):
        raise SpecError(
            Reason.INVALID_SCHEMA,
            f"source {source!r}: the schema must name columns: `carrier STRING, dep_delay DOUBLE`",
        )
    check_names(f"source {source!r}", schema.names)
    return schema


def read_text() -> Column:
    """Return the value as text."""
    return f.col("value").cast("string")


def with_corrupt(schema: StructType) -> StructType:
    """Return the schema that a parser is given."""
    return StructType([*schema.fields, StructField(CORRUPT, StringType())])


def describe_struct(schema: StructType) -> str:
    """Return the type as `from_json` parses it at once.

    It first parses any other form as a type too, and makes an error of it, for which Spark loads the texts of all errors: 0.15 s of a start.
    """
    return f"STRUCT<{schema.toDDL()}>"


def _misfit(field: StructField, parsed: Column, texts: Column) -> Column:
    text, name = texts[field.name], field.name
    message = f.concat(
        f.lit(f"column {name}: "),
        f.substring(text, 1, _SNIPPET),
        f.lit(f" is not {_article(field.dataType.simpleString().upper())}"),
    )
    return f.when(text.isNotNull() & parsed[name].isNull(), message)


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind}"
