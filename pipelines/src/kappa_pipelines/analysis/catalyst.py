"""Access to Spark's analysed plans. Nodes are objects of the JVM."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

DELAY = "spark.watermarkDelayMs"
"""Metadata key of columns with a watermark."""
EVENTS_OF = "events of "
"""Prefix of the temporary view of a view's rows with their identities. No view of a pipeline has a name with blanks."""
_NAMED = ("AttributeReference", "Alias")


def get_plan(rows: DataFrame) -> Any:
    """Return the analysed plan of rows."""
    return rows._jdf.queryExecution().analyzed()


def kind_of(node: Any) -> str:
    """Return the class of a plan's node or of an expression, such as `Aggregate`."""
    kind: str = node.getClass().getSimpleName()
    return kind


def children_of(node: Any) -> list[Any]:
    """Return the nodes or expressions below."""
    return items(node.children())


def items(sequence: Any) -> list[Any]:
    """Return the items of a Scala sequence."""
    return [sequence.apply(index) for index in range(sequence.size())]


def name_of(expression: Any) -> str:
    """Return the name of a column, or the SQL of another expression."""
    name: str = expression.name() if kind_of(expression) in _NAMED else expression.sql()
    return name


def has_watermark(expression: Any) -> bool:
    """Return whether an expression is a column with a watermark, or a window of one."""
    return kind_of(expression) in _NAMED and bool(expression.metadata().contains(DELAY))


def view_of(node: Any) -> str | None:
    """Return the name of a node's temporary view, None for other nodes, users' aliases, and a view's rows with identities."""
    if kind_of(node) != "SubqueryAlias" or kind_of(node.child()) != "View":
        return None
    name: str = node.alias()
    return None if name.startswith(EVENTS_OF) else name


def find_views(node: Any) -> Iterator[str]:
    """Yield the temporary views in a plan, in its order, with repetitions."""
    name = view_of(node)
    if name is not None:
        yield name
    for child in children_of(node):
        yield from find_views(child)


def find_reads(node: Any) -> Iterator[str]:
    """Yield the temporary views that a plan reads directly."""
    for child in children_of(node):
        name = view_of(child)
        if name is not None:
            yield name
        else:
            yield from find_reads(child)
