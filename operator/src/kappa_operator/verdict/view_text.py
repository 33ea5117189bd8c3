"""What a view reads and keeps state for, as far as its text shows: pure, without Spark.

SQL is read by sqlglot, which knows Spark's dialect. What it cannot read is left to the driver: none of this decides anything.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import ErrorLevel, exp, parse_one
from sqlglot.errors import SqlglotError

from kappa_crds.view import View

LONGEST = 65_536
"""Characters of SQL that are read of a pipeline at most; reading so many takes half a second."""
_WINDOW = re.compile(r"\bwindow\b(?!\s*\(|\s+\w+\s+as\b)", re.IGNORECASE)
"""The column that Spark names `window`: to sqlglot the word begins a clause."""


@dataclass(frozen=True, slots=True)
class Statement:
    """What a SELECT reads and keeps state for, as normalised SQL.

    `aggregates` are in the order in which Spark keeps them, `joins` the words of each join with its condition.
    """

    reads: tuple[str, ...]
    groups: tuple[str, ...]
    aggregates: tuple[str, ...]
    joins: tuple[str, ...]
    distinct: int = 0

    @property
    def aggregated(self) -> bool:
        """Return whether it groups rows."""
        return bool(self.groups or self.aggregates)

    @property
    def stateful(self) -> bool:
        """Return whether it keeps state; joins do, as all that a pipeline reads are streams."""
        return self.aggregated or bool(self.joins or self.distinct)


def read_statement(view: View) -> Statement | None:
    """Return the statement of a view in SQL; None for another kind, and for SQL that cannot be read here."""
    return None if view.sql is None else _read_sql(view.sql)


def find_output_columns(view: View) -> tuple[str, ...] | None:
    """Return the names of the columns of a view; None where its text does not show them all."""
    tree = _parse(view.sql) if view.sql is not None and len(view.sql) <= LONGEST else None
    if not isinstance(tree, exp.Select) or tree.is_star:
        return None
    names = tuple(each.alias_or_name for each in tree.expressions)
    return names if all(names) else None


def _parse(sql: str) -> exp.Expr | None:
    try:
        return parse_one(_WINDOW.sub("`window`", sql), dialect="spark", error_level=ErrorLevel.RAISE)
    except (SqlglotError, RecursionError):
        return None


@lru_cache(maxsize=64)  # for one change each statement is needed several times
def _read_sql(sql: str) -> Statement | None:
    tree = _parse(sql)
    if tree is None:
        return None
    return Statement(
        reads=tuple(dict.fromkeys(_find_tables(tree))),
        groups=tuple(_say(key) for group in tree.find_all(exp.Group) for key in group.expressions),
        aggregates=tuple(dict.fromkeys(map(_say, _find_aggregates(tree)))),
        joins=tuple(map(_say, tree.find_all(exp.Join, bfs=False))),
        distinct=sum(select.args.get("distinct") is not None for select in tree.find_all(exp.Select)),
    )


def find_reads(view: View) -> tuple[str, ...]:
    """Return the names of the sources and views that a view reads, as far as its text shows."""
    if view.sql is not None:
        statement = read_statement(view)
        return () if statement is None else statement.reads
    if view.python is not None:
        return view.python.reads
    fields = view.operator
    named = [getattr(fields, "from_", None), getattr(fields, "table", None)]
    inner = [getattr(fields, name, None) for name in ("table", "left", "right", "queries")]
    named += [getattr(each, "from_", None) for each in inner]
    return tuple(dict.fromkeys(name for name in named if isinstance(name, str)))


def _find_tables(tree: exp.Expr) -> Iterator[str]:
    """Yield the tables that are read; not what the statement itself gives a name, nor functions that make rows."""
    own = {each.alias_or_name.lower() for each in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table, bfs=False):
        if isinstance(table.this, exp.Identifier) and not table.db and table.name.lower() not in own:
            yield table.name


def _find_aggregates(tree: exp.Expr) -> Iterator[exp.Expr]:
    for found in tree.find_all(exp.AggFunc, exp.Anonymous, bfs=False):
        by_name = isinstance(found, exp.Anonymous) and found.name.lower().endswith("_agg")
        if (by_name or isinstance(found, exp.AggFunc)) and found.find_ancestor(exp.Window) is None:
            yield found


def _say(node: exp.Expr) -> str:
    return node.sql(dialect="spark", normalize=True, normalize_functions="lower", comments=False)
