"""Joins of two tables by a foreign key: changes and deletions of the joined rows.

There are two steps, with their state distributed by different keys:

1. by the left table's key: the right row that each left row references. A change becomes one message to the right row that
   it references now, and a `leave` message to the one that it referenced before;
2. by the right table's key: the right row and all left rows that reference it. `leave` messages come first, so a batch has at
   most one output for a left row: the result of its last change.

With `rightKey` the second step is `PairStep` of `table_pairs`, and the right table has a first step too.

Only the last change of a row in a batch has an effect. A change without a key is a truncation, which all key groups of a step get.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StructType

from kappa_crds.joins import Table, TableJoin, Unmatched
from kappa_crds.reasons import Reason
from kappa_pipelines.analysis.change_version import UNAVAILABLE, is_version
from kappa_pipelines.analysis.state import State
from kappa_pipelines.errors import SpecError
from kappa_pipelines.transforms.inputs import Input, check_new_columns, quote, read_input
from kappa_pipelines.transforms.key_groups import Output, Row, TableStep, unpack
from kappa_pipelines.transforms.native_tables import RunTableStep
from kappa_pipelines.transforms.stored import Kept
from kappa_pipelines.transforms.table_pairs import DROP, LEAVE, LEFT, PUT, RIGHT, PairStep
from kappa_pipelines.transforms.tables import (
    check_table,
    fill_order,
    find_news,
    find_truncations,
    pack_key,
    pick_types,
    select_changes,
    select_rows,
)
from kappa_pipelines.transforms.versions import Change

_MESSAGES = Output({"to": "STRING", "id": "STRING", "verb": "STRING", "known": "BOOLEAN", "body": "STRING"})
_JOINED = Output({"body": "STRING", "found": "STRING", "deleted": "BOOLEAN"})
_NULL_KEY = ""  # a row without a reference; no key in JSON is empty


class FollowStep(TableStep):
    """Stores the reference and body of each left row, and sends messages to the right rows.

    Input rows are (id, to, order, body), output rows (to, id, verb, known, body); `known` means that the row existed before, and the
    body of `leave` is what the row references now.
    """

    native = "follow"

    def advance(self, kept: Kept, rows: Sequence[Row], watermark: int) -> Iterator[Row]:  # noqa: D102 - see Step
        changes = ((key, Change(order, body, to)) for key, to, order, body in rows)
        for key, change in find_news(kept, changes, lambda key: _find_left(kept, key)).items():
            old = _find_left(kept, key)
            if change.body is None:
                if old is not None:
                    del kept[key]
                    yield old.to, key, DROP, True, old.body
                continue
            to = change.to or _NULL_KEY
            kept[key] = (change.order, to, change.body)
            if old is not None and old.to != to:
                yield old.to, key, LEAVE, True, to
            yield to, key, PUT, old is not None, change.body


def _find_left(kept: Kept, key: str) -> Change | None:
    if key not in kept:
        return None
    order, to, body = kept[key]
    return Change(order, body, to)


class MatchStep(TableStep):
    """Stores the right rows and the left rows that reference them, and joins them.

    Input rows are (to, id, verb, known, body, order): a change of the right row if `verb` is NULL, else a message of the first
    step. Output rows are (body, found, deleted). With `inner`, a left row without a right row is deleted.
    """

    def __init__(self, *, inner: bool) -> None:
        self._inner = inner
        self.native = "inner match" if inner else "match"

    def advance(self, kept: Kept, rows: Sequence[Row], watermark: int) -> Iterator[Row]:  # noqa: D102 - see Step
        changes = find_news(
            kept,
            ((to, Change(order, body)) for to, _, verb, _, body, order in rows if verb is None),
            lambda to: _find_right(kept, to),
        )
        messages: dict[str, list[Row]] = {}
        for to, *message, _ in rows:
            if message[1] is not None:
                messages.setdefault(to, []).append(tuple(message))
        for to in messages.keys() | changes.keys():
            yield from self._join(kept, to, messages.get(to, []), changes.get(to))

    def _join(self, kept: Kept, to: str, messages: Iterable[Row], change: Change | None) -> Iterator[Row]:
        right, lefts = kept.pop(to, (None, {}))
        touched: dict[str, bool] = {}
        for key, verb, known, body in messages:
            if verb == PUT:
                lefts[key], touched[key] = body, known
            else:
                lefts.pop(key, None)
                if verb == DROP:
                    yield body, None, True
        if change is not None:
            touched |= dict.fromkeys(lefts.keys() - touched.keys(), right is not None)
            right = None if change.body is None else (change.order, change.body)
        for key, known in touched.items():
            found = None if right is None else right[1]
            if found is not None or not self._inner:
                yield lefts[key], found, False
            elif known:
                yield lefts[key], None, True
        if right is not None or lefts:
            kept[to] = (right, lefts)


def _find_right(kept: Kept, to: str) -> Change | None:
    right, _ = kept.get(to, (None, {}))
    return None if right is None else Change(*right)


def build_table_join(spark: SparkSession, view: str, join: TableJoin, run: RunTableStep) -> DataFrame:
    """Return the changes of the joined table; SpecError where the view names what is not there. `run` runs its steps."""
    left, right = read_input(spark, join.left.from_), read_input(spark, join.right.from_)
    _check(view, join, left, right)
    references = _follow(spark, join.left, join.key, join.foreign_key, left.columns, run=run)
    build = _match if join.right_key is None else _pair
    joined = build(spark, join, references, run)
    return _unpack(joined, join, left.schema, pick_types(right, join.columns))


def _follow(
    spark: SparkSession,
    table: Table,
    key: Sequence[str],
    references: Mapping[str, str],
    body: Sequence[str],
    *,
    run: RunTableStep,
) -> DataFrame:
    """Return the messages of a table's rows to what they reference: its columns, and the names that the values have in the key there."""
    known = reduce(and_, (f.col(quote(name)).isNotNull() for name in references))
    to = f.when(known, pack_key(list(references), references.values()))
    columns: dict[str, Column] = {"id": pack_key(key, key), "to": to}
    changes = select_changes(spark.table(table.from_), table, columns, body)
    taken = {"id": f.col("id"), "to": f.col("to"), "order": fill_order(changes), "body": f.col("body")}
    return run(changes, "id", taken, FollowStep(), _MESSAGES, to_all=find_truncations("id", table))


def _match(spark: SparkSession, join: TableJoin, references: DataFrame, run: RunTableStep) -> DataFrame:
    changes = select_rows(spark, join.right, join.foreign_key, join.columns).withColumnRenamed("key", "to")
    both = references.unionByName(changes, allowMissingColumns=True)
    given = {name: f.col(name) for name in ("to", "id", "verb", "known", "body")} | {
        "order": fill_order(both)
    }
    step = MatchStep(inner=join.unmatched is Unmatched.DROP)
    return run(both, "to", given, step, _JOINED, to_all=find_truncations("to", join.right))


def _pair(spark: SparkSession, join: TableJoin, lefts: DataFrame, run: RunTableStep) -> DataFrame:
    own = {name: name for name in join.foreign_key.values()}
    taken = list(dict.fromkeys(join.columns.values()))
    rights = _follow(spark, join.right, join.right_key or (), own, taken, run=run)
    both = lefts.withColumn("side", f.lit(LEFT)).unionByName(rights.withColumn("side", f.lit(RIGHT)))
    given = {name: f.col(name) for name in ("to", "side", "id", "verb", "body")}
    return run(both.where(f.col("to") != _NULL_KEY), "to", given, PairStep(), _JOINED)


def describe_table_join(view: str, join: TableJoin) -> State:
    """Return the state of a join of tables."""
    often = "" if join.right_key is None else ", twice"
    tables = f"rows of {join.left.from_}, twice, and of {join.right.from_}{often}"
    return State(view, tables, (*join.key, *join.foreign_key.values()), "a tombstone deletes them")


def _check(view: str, join: TableJoin, left: Input, right: Input) -> None:
    left.check_columns(view, "tableJoin.key", join.key)
    left.check_columns(view, "tableJoin.foreignKey", join.foreign_key)
    right.check_columns(view, "tableJoin.foreignKey", join.foreign_key.values())
    right.check_columns(view, "tableJoin.columns", join.columns.values())
    check_new_columns(view, "tableJoin.columns", join.columns, left.columns)
    taken = {name.lower() for name in (*left.columns, *join.columns)} - {(join.left.deleted or "").lower()}
    check_new_columns(view, "tableJoin.deleted", [join.deleted], taken)
    check_table(view, "tableJoin.left", join.left, left)
    check_table(view, "tableJoin.right", join.right, right)
    _check_right_key(view, join, right)


def _check_right_key(view: str, join: TableJoin, right: Input) -> None:
    right.check_columns(view, "tableJoin.rightKey", join.right_key or ())
    missing = [name for name in join.right_key or () if name not in join.columns.values()]
    if missing:
        raise SpecError(
            Reason.INVALID_SPEC,
            f"view {view!r}: tableJoin.rightKey has {', '.join(missing)}, which tableJoin.columns lacks; add it, as both keys are the key"
            " of the result",
        )


def _unpack(joined: DataFrame, join: TableJoin, left: StructType, right: StructType) -> DataFrame:
    both = joined.select(
        unpack(f.col("body"), left).alias("left"), unpack(f.col("found"), right).alias("right"), "deleted"
    )
    mark = (join.left.deleted or join.deleted).lower()
    own = [
        _complete(f.col("left")[field.name], field.dataType).alias(field.name)
        for field in left.fields
        if field.name.lower() not in {mark, join.deleted.lower()}
    ]
    new = [f.col("right")[old].alias(name) for name, old in join.columns.items()]
    return both.select(*own, *new, f.col("deleted").alias(join.deleted))


def _complete(column: Column, kind: DataType) -> Column:
    """Return a column of a joined row. Its version lists no unavailable values: they are filled in, and another join must not replace them."""
    if not is_version(kind):
        return column
    return column.withField(UNAVAILABLE.name, f.lit(None).cast(UNAVAILABLE.dataType))
