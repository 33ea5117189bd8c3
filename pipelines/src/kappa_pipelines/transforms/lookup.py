"""Lookups: each event with the current row of a table, without delay.

The current row is the one after all changes up to and including the same batch. The table is state, distributed by its key; events are
not stored. A NULL key finds nothing.
"""

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructField

from kappa_crds.joins import Lookup, Unmatched
from kappa_pipelines.analysis.catalyst import DELAY
from kappa_pipelines.analysis.state import State
from kappa_pipelines.transforms.inputs import Input, check_new_columns, read_input
from kappa_pipelines.transforms.key_groups import Output, Row, TableStep, pack, unpack
from kappa_pipelines.transforms.native_tables import RunTableStep
from kappa_pipelines.transforms.stored import Kept
from kappa_pipelines.transforms.tables import (
    check_table,
    fill_order,
    find_news,
    find_truncations,
    pack_key,
    pick_types,
    select_rows,
)
from kappa_pipelines.transforms.versions import Change

_OUTPUT = Output({"event": "STRING", "found": "STRING"})


class LookupStep(TableStep):
    """Stores the rows of a table and finds them for events.

    Input rows are (key, event, order, body): a change of the table if `event` is NULL, and a truncation if the key is, too.
    """

    native = "find"

    def advance(self, kept: Kept, rows: Sequence[Row], watermark: int) -> Iterable[Row]:  # noqa: D102 - see Step
        changes = ((key, Change(order, body)) for key, event, order, body in rows if event is None)
        for key, change in find_news(kept, changes, lambda key: _find_row(kept, key)).items():
            _store(kept, key, change)
        return [(event, _read(kept, key)) for key, event, *_ in rows if event is not None]


def _find_row(kept: Kept, key: str) -> Change | None:
    found = kept.get(key)
    return None if found is None else Change(*found)


def _store(kept: Kept, key: str, change: Change) -> None:
    if change.body is None:
        kept.pop(key, None)
    else:
        kept[key] = (change.order, change.body)


def _read(kept: Kept, key: str) -> str | None:
    found: tuple[int, str] | None = kept.get(key)
    return None if found is None else found[1]


def build_lookup(spark: SparkSession, view: str, lookup: Lookup, run: RunTableStep) -> DataFrame:
    """Return the events with the rows found; SpecError for unknown columns. `run` runs its step."""
    events, table = read_input(spark, lookup.from_), read_input(spark, lookup.table.from_)
    _check(view, lookup, events, table)
    rows = _select_events(spark, lookup, events).unionByName(
        select_rows(spark, lookup.table, lookup.key, lookup.columns), allowMissingColumns=True
    )
    given = {"key": f.col("key"), "event": f.col("event"), "order": fill_order(rows), "body": f.col("body")}
    found = run(rows, "key", given, LookupStep(), _OUTPUT, to_all=find_truncations("key", lookup.table))
    if lookup.unmatched is Unmatched.DROP:
        found = found.where(f.col("found").isNotNull())
    return _unpack(found, lookup, events, table)


def describe_lookup(view: str, lookup: Lookup) -> State:
    """Return the state of a lookup."""
    return State(
        view, f"rows of {lookup.table.from_}", tuple(lookup.key.values()), "a tombstone deletes them"
    )


def _check(view: str, lookup: Lookup, events: Input, table: Input) -> None:
    events.check_columns(view, "lookup.key", lookup.key)
    table.check_columns(view, "lookup.key", lookup.key.values())
    table.check_columns(view, "lookup.columns", lookup.columns.values())
    check_new_columns(view, "lookup.columns", lookup.columns, events.columns)
    check_table(view, "lookup.table", lookup.table, table)


def _select_events(spark: SparkSession, lookup: Lookup, events: Input) -> DataFrame:
    key = pack_key(list(lookup.key), tuple(lookup.key.values()))
    return spark.table(lookup.from_).select(key.alias("key"), pack(events.columns).alias("event"))


def _unpack(found: DataFrame, lookup: Lookup, events: Input, table: Input) -> DataFrame:
    both = found.select(
        unpack(f.col("event"), events.schema).alias("event"),
        unpack(f.col("found"), pick_types(table, lookup.columns)).alias("found"),
    )
    own = [
        f.col("event")[field.name].alias(field.name, metadata=_keep_delay(field))
        for field in events.schema.fields
    ]
    return both.select(*own, *(f.col("found")[old].alias(new) for new, old in lookup.columns.items()))


def _keep_delay(field: StructField) -> dict[str, int]:
    """Return the metadata that keeps a column's watermark: the step emits every event at once."""
    return {DELAY: field.metadata[DELAY]} if DELAY in (field.metadata or {}) else {}
