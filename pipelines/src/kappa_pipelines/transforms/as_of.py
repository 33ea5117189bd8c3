"""As-of joins: each event with the version of a table's row that was valid at its event time.

As a plan: a stream-stream join of events with versions that are not newer, then the newest version for each event. The watermark is
that of the slower side, so an event is emitted when all versions up to its time have arrived. Of two versions with the same time the one
with the greater columns wins, in any order of arrival. A NULL key has no version.
"""

from pyspark.sql import SparkSession

from kappa_crds.joins import AsOfJoin, Unmatched
from kappa_pipelines.transforms.events import TIME, group_by_event, select_events, unpack_columns
from kappa_pipelines.transforms.inputs import Input, check_new_columns, quote, quote_interval

_SINCE = "__kappa_since"
_VERSION = "__kappa_version"


def build_as_of(spark: SparkSession, view: str, join: AsOfJoin, events: Input, table: Input) -> str:
    """Return the statement; SpecError for unknown columns."""
    time, since = events.find_time(view), table.find_time(view)
    events.check_columns(view, "asOf.key", join.key)
    table.check_columns(view, "asOf.key", join.key.values())
    table.check_columns(view, "asOf.columns", join.columns.values())
    check_new_columns(view, "asOf.columns", join.columns, events.columns)
    keys = {f"__kappa_key_{number}": column for number, column in enumerate(join.key)}
    taken = ", ".join(f"{quote(column)} AS {quote(name)}" for name, column in join.columns.items())
    own = "".join(
        f", {quote(column)} AS __kappa_on_{number}" for number, column in enumerate(join.key.values())
    )
    # Spark compares keys of two streams by their bytes. It leaves out most NULLs itself, but not those of DOUBLE and FLOAT.
    known = " AND ".join(f"{quote(column)} IS NOT NULL" for column in join.key.values())
    versions = f"SELECT {quote(since)} AS {_SINCE}, struct({taken}) AS {_VERSION}{own} FROM {table.name} WHERE {known}"  # noqa: S608
    valid = [f"{name} = __kappa_on_{number}" for number, name in enumerate(keys)] + [f"{_SINCE} <= {TIME}"]
    if join.max_age is not None:
        valid.append(f"{_SINCE} >= {TIME} - {quote_interval(join.max_age)}")
    newest = f"max_by({_VERSION}, struct({_SINCE}, {_VERSION}))"
    columns = [f"{newest}.{quote(name)} AS {quote(name)}" for name in join.columns]
    kind = "LEFT" if join.unmatched is Unmatched.KEEP else "INNER"
    return (
        f"SELECT {', '.join([*unpack_columns(events, time), *columns])}\n"
        f"FROM ({select_events(spark, events, time, keys)}) {kind} JOIN ({versions}) ON {' AND '.join(valid)}\n"
        f"{group_by_event()}"
    )
