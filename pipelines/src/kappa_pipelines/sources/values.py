"""Common to all formats: declared columns, and how malformed records are found and explained."""

from typing import Protocol

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from kappa_crds.reasons import Reason
from kappa_pipelines.errors import SpecError

EMPTY = "value is empty"


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


class WithoutTexts:
    """Formats that explain malformed records without a parse as text."""

    def parse_texts(self) -> Column:
        """Return NULL."""
        return f.lit(None).cast("string")


def check_names(where: str, names: list[str]) -> None:
    """Raise SpecError where column names are equal for SQL."""
    lowered = [name.lower() for name in names]
    twice = sorted({name for name in names if lowered.count(name.lower()) > 1})
    if twice:
        raise SpecError(
            Reason.INVALID_SCHEMA,
            f"{where}: the schema has columns whose names are equal or differ only in case: {', '.join(twice)}",
        )


def explain_absent(otherwise: Column) -> Column:
    """Return that the value is NULL or empty, or `otherwise`."""
    return (
        f.when(f.col("value").isNull(), f.lit("value is null"))
        .when(f.length("value") == 0, f.lit(EMPTY))
        .otherwise(otherwise)
    )
