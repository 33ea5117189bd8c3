"""The rows of an output that a condition selects (`reprocessing.only`), read back from its records (ADR 89).

The driver of the new version applies the condition to rows, and a comparison to records. So a column has a type whose text in a record is
exactly its value, and a record without the column, or with another type, fails the comparison: it would hide a difference.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType

PATH = "reprocessing.only"
_RECORD = "__kappa_record"
_CASE = "spark.sql.caseSensitive"


@dataclass(frozen=True)
class RecordColumn:
    """A column of an output in its records: in `part`, which is `key` or `value`, as a field of a JSON object, or the text itself without one."""

    name: str
    part: str
    field: str | None
    kind: DataType

    def read(self) -> Column:
        """Return the value in a record; the query fails for a record without it."""
        text = f.col(self.part).cast("string")
        if self.field is not None:
            # Unlike a struct, a map distinguishes a NULL from a column that is not there.
            fields = f.from_json(text, "map<string,string>")
            is_there = f.coalesce(f.map_contains_key(fields, f.lit(self.field)), f.lit(False))
            text = f.when(is_there, fields[self.field]).otherwise(self._fail("has no"))
        value = text.try_cast(self.kind)
        is_other = text.isNotNull() & value.isNull()
        kind = self.kind.simpleString().upper()
        return f.when(is_other, self._fail(f"has no {kind} in").try_cast(self.kind)).otherwise(value)

    def _fail(self, why: str) -> Column:
        place = f.concat_ws("/", "topic", "partition", "offset")
        text = (
            f"the record at (topic/partition/offset) {{}} {why} column {self.name}, as the new version has it,"
            f" so {PATH} cannot select it; leave this column out of the condition"
        )
        before, after = text.split("{}")
        return f.raise_error(f.concat(f.lit(before), place, f.lit(after))).cast("string")


@dataclass(frozen=True)
class Selection:
    """A condition that was checked, and the columns that it has. `view` is the name that may precede them."""

    sql: str
    view: str
    columns: tuple[RecordColumn, ...]

    def select(self, records: DataFrame) -> DataFrame:
        """Return the records of the rows for which the condition is true."""
        spark = records.sparkSession
        whole = f.struct(*records.columns).alias(_RECORD)
        rows = records.select(whole, *(each.read().alias(each.name) for each in self.columns))
        # Views are written without regard to case, and the session of a comparison has it for JSON.
        before = str(spark.conf.get(_CASE))
        spark.conf.set(_CASE, "false")
        try:
            selected = rows.alias(self.view).where(f.expr(self.sql))
        finally:
            spark.conf.set(_CASE, before)
        return selected.select(f"{_RECORD}.*")
