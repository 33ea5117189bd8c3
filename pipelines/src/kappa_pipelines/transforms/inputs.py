"""The input of an operator: a source or view with its columns, and their names in SQL."""

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructType

from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_pipelines.analysis.catalyst import DELAY
from kappa_pipelines.errors import SpecError


@dataclass(frozen=True)
class ColumnKind:
    """Types that a column may have, and their description."""

    words: str
    types: tuple[type[DataType], ...]


@dataclass(frozen=True)
class Input:
    """A defined source or view."""

    name: str
    schema: StructType

    @property
    def columns(self) -> list[str]:
        """Return its columns, in order."""
        return self.schema.names

    def find_type(self, column: str) -> DataType:
        """Return the type of a column."""
        return next(field.dataType for field in self.schema.fields if field.name.lower() == column.lower())

    def find_time(self, view: str, wanted: str | None = None) -> str:
        """Return its event-time column; SpecError if there is none, or several and none is named."""
        timed = [field.name for field in self.schema.fields if DELAY in (field.metadata or {})]
        if wanted is not None and wanted.lower() not in map(str.lower, timed):
            raise SpecError(
                Reason.UNSUPPORTED_QUERY,
                f"view {view!r}: {self.name!r} has no watermark on {wanted!r}; {_describe_timed(timed)}",
            )
        if wanted is None and len(timed) != 1:
            raise SpecError(
                Reason.UNSUPPORTED_QUERY,
                f"view {view!r}: {self.name!r} must have one column with a watermark; {_describe_timed(timed)}",
            )
        return next(name for name in timed if wanted is None or name.lower() == wanted.lower())

    def check_columns(self, view: str, field: str, names: Iterable[str]) -> None:
        """Raise SpecError for unknown columns."""
        known = {name.lower() for name in self.columns}
        for name in names:
            if name.lower() not in known:
                raise SpecError(
                    Reason.UNKNOWN_COLUMN,
                    f"view {view!r}: {field} names column {name!r}, which {self.name!r} does not have;"
                    f" it has {', '.join(self.columns)}",
                )

    def find_columns(
        self, view: str, field: str, names: Iterable[str], kind: ColumnKind | None = None
    ) -> list[str]:
        """Return the columns as they are spelled; SpecError for unknown ones or ones of another kind."""
        wanted = list(names)
        self.check_columns(view, field, wanted)
        spelled = {name.lower(): name for name in self.columns}
        found = [spelled[name.lower()] for name in wanted]
        for name in found:
            data_type = self.schema[name].dataType
            if kind is not None and not isinstance(data_type, kind.types):
                raise SpecError(
                    Reason.INVALID_SPEC,
                    f"view {view!r}: {field} must be {kind.words}, and column {name!r} of {self.name!r} is"
                    f" {data_type.simpleString().upper()}; change its type in the schema, or cast it in a preceding view",
                )
        return found


def _describe_timed(timed: list[str]) -> str:
    if not timed:
        return "none of its columns has one: set eventTime on the source, and keep that column in the views between"
    return f"it has one on {', '.join(timed)}"


def read_input(spark: SparkSession, name: str) -> Input:
    """Return a source or view; AnalysisException if it is not defined."""
    return Input(name, spark.table(name).schema)


def quote(name: str) -> str:
    """Return a column's name quoted for SQL."""
    return f"`{name.replace('`', '``')}`"


def quote_interval(duration: str) -> str:
    """Return a duration as an interval in SQL, to the millisecond."""
    days, seconds = divmod(parse_duration(duration), 86400)
    hours, seconds = divmod(seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    return f"INTERVAL '{days:.0f} {hours:02.0f}:{minutes:02.0f}:{seconds:06.3f}' DAY TO SECOND"


def check_new_columns(view: str, field: str, names: Iterable[str], taken: Iterable[str]) -> None:
    """Raise SpecError for a new column with the name of an existing one, or of one before it."""
    known = {name.lower() for name in taken}
    for name in names:
        if name.lower() in known:
            raise SpecError(
                Reason.INVALID_SPEC,
                f"view {view!r}: {field} has {name!r}, which is already a column; use another name",
            )
        known.add(name.lower())
