"""Common to all formats: declared columns, and how malformed records are found and explained.

One parse in Spark's PERMISSIVE mode fills the columns and, where the text or a field does not fit, a corrupt-record column. So
valid and malformed records are separated in the same scan.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

from pyspark.errors import ParseException
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from kappa_crds.reasons import Reason
from kappa_pipelines.errors import SpecError

CORRUPT = "__kappa_corrupt"
_EMPTY = "value is empty"
_SNIPPET = 64  # characters of a field's text shown in an error

PERMISSIVE = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
"""Options of every parser."""


class Values(Protocol):
    """A format with its options: how the column `value` becomes columns."""

    @property
    def schema(self) -> StructType:
        """Return the declared columns."""

    def parse(self, *, alert: bool) -> Column:
        """Return the parsed value, for the methods below. With `alert`, a schema id that was not looked up yet fails the query."""

    def is_malformed(self, parsed: Column) -> Column:
        """Return whether a record is malformed."""

    def columns(self, parsed: Column) -> Column:
        """Return the struct of the declared columns."""

    def parse_texts(self) -> Column:
        """Return the value parsed with every column as text, for `explain`."""

    def explain(self, parsed: Column, texts: Column) -> Column:
        """Return why a record is malformed. Used on malformed records only."""


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
            f.when(f.length(f.trim(read_text())) == 0, f.lit(_EMPTY))
            .when(self.is_malformed(texts), f.lit(self.errors[0]))
            .when(f.length(misfits) > 0, misfits)
            .otherwise(f.lit(self.errors[1]))
        )

    @abstractmethod
    def parse_as(self, schema: StructType) -> Column:
        """Return the value parsed with other columns."""


class WithoutTexts:
    """Formats that explain malformed records without a parse as text."""

    def parse_texts(self) -> Column:
        """Return NULL."""
        return f.lit(None).cast("string")


def parse_schema(source: str, ddl: str) -> StructType:
    """Return the declared columns; SpecError if the DDL is invalid. Needs an active Spark session."""
    try:
        schema = StructType.fromDDL(ddl)
    except ParseException as error:
        raise SpecError(
            Reason.INVALID_SCHEMA, f"source {source!r}: the schema is not valid DDL: {_first_lines(error)}"
        ) from error
    if not isinstance(schema, StructType):
        raise SpecError(
            Reason.INVALID_SCHEMA,
            f"source {source!r}: the schema must name columns: `carrier STRING, dep_delay DOUBLE`",
        )
    check_names(f"source {source!r}", schema.names)
    return schema


def check_names(where: str, names: list[str]) -> None:
    """Raise SpecError where column names are equal for SQL."""
    lowered = [name.lower() for name in names]
    twice = sorted({name for name in names if lowered.count(name.lower()) > 1})
    if twice:
        raise SpecError(
            Reason.INVALID_SCHEMA,
            f"{where}: the schema has columns whose names are equal or differ only in case: {', '.join(twice)}",
        )


def _first_lines(error: ParseException) -> str:
    return " ".join(str(error).strip().split("\n\nJVM stacktrace")[0].split())


def read_text() -> Column:
    """Return the value as text."""
    return f.col("value").cast("string")


def with_corrupt(schema: StructType) -> StructType:
    """Return the schema that a parser is given."""
    return StructType([*schema.fields, StructField(CORRUPT, StringType())])


def explain_absent(otherwise: Column) -> Column:
    """Return that the value is NULL or empty, or `otherwise`."""
    return (
        f.when(f.col("value").isNull(), f.lit("value is null"))
        .when(f.length("value") == 0, f.lit(_EMPTY))
        .otherwise(otherwise)
    )


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
