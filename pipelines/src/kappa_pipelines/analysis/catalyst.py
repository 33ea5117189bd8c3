"""Access to Spark's plans. Nodes are objects of the JVM, or of a `Node` with what walks need of them.

A walk over objects of the JVM takes about ten requests for each node: for its class, each child, and the release of every object.
`read_tree` takes three for a whole plan.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from py4j.java_gateway import JavaClass, is_instance_of
from pyspark.sql import DataFrame, SparkSession

DELAY = "spark.watermarkDelayMs"
"""Metadata key of columns with a watermark."""
EVENTS_OF = "events of "
"""Prefix of the temporary view of a view's rows with their identities. No view of a pipeline has a name with blanks."""
_NAMED = ("AttributeReference", "Alias")
_STREAMING, _CONTAINS_PLAN, _WATERMARK = "S", "P", "W"
"""Facts of a node, as the Java module has them."""


class Node:
    """A node of a plan, or an expression, with all below it, and its own expressions. What it lacks is requested from the JVM.

    No attribute is named like a method of Spark's nodes.
    """

    __slots__ = ("_java", "_line", "_tree", "below", "column", "facts", "kind", "label", "own")

    def __init__(self, tree: Any, line: int, kind: str, facts: str, name: str) -> None:
        self._tree, self._line, self._java = tree, line, None
        self.kind, self.label = kind, name
        self.column = facts.lstrip(f"{_STREAMING}{_CONTAINS_PLAN}{_WATERMARK}")
        self.facts = facts.removesuffix(self.column)
        self.below: list[Node] = []
        self.own: list[Node] = []

    @property
    def java(self) -> Any:
        """Return the object of the JVM, which is released with this one."""
        if self._java is None:
            self._java = self._tree.node(self._line)
        return self._java

    def __getattr__(self, name: str) -> Any:
        return getattr(self.java, name)


def read_tree(spark: SparkSession, root: Any) -> Any:
    """Return a plan or an expression with all below it; the object of the JVM itself where the runtime's jar is missing."""
    jvm: Any = spark._jvm
    found = jvm.kappa.plan.Tree
    if not isinstance(found, JavaClass):
        return root
    tree = found.of(root)
    above: list[Node] = []
    for number, line in enumerate(tree.text().split("\0")[:-1]):
        depth, relation, kind, facts, name = line.split("\t", 4)
        node = Node(tree, number, kind, facts, name)
        del above[int(depth) :]
        if above:
            (above[-1].below if relation == "C" else above[-1].own).append(node)
        above.append(node)
    return above[0]


def get_plan(rows: DataFrame) -> Any:
    """Return the analysed plan of rows, as an object of the JVM."""
    return rows._jdf.queryExecution().analyzed()


def read_plan(rows: DataFrame) -> Any:
    """Return the analysed plan of rows with what walks need."""
    return read_tree(rows.sparkSession, get_plan(rows))


def java_of(node: Any) -> Any:
    """Return the object of the JVM for a node, as arguments of its methods must be."""
    return node.java if isinstance(node, Node) else node


def kind_of(node: Any) -> str:
    """Return the class of a plan's node or of an expression, such as `Aggregate`."""
    kind: str = node.kind if isinstance(node, Node) else node.getClass().getSimpleName()
    return kind


def children_of(node: Any) -> list[Any]:
    """Return the nodes or expressions below."""
    return node.below if isinstance(node, Node) else items(node.children())


def expressions_of(plan: Any) -> list[Any]:
    """Return the expressions of a plan's node. The projections of an Expand are alike, so those of the first one."""
    if isinstance(plan, Node):
        return plan.own
    return items(plan.projections().head() if kind_of(plan) == "Expand" else plan.expressions())


def contains_plan(spark: SparkSession, expression: Any) -> bool:
    """Return whether an expression has a plan, as a subquery has."""
    if isinstance(expression, Node):
        return _CONTAINS_PLAN in expression.facts
    kind = "org.apache.spark.sql.catalyst.expressions.PlanExpression"
    return bool(is_instance_of(spark.sparkContext._gateway, expression, kind))


def is_streaming(plan: Any) -> bool:
    """Return whether a plan reads a stream."""
    return _STREAMING in plan.facts if isinstance(plan, Node) else bool(plan.isStreaming())


def id_of(column: Any) -> str:
    """Return the number of a column."""
    return column.column if isinstance(column, Node) else str(column.exprId().id())


def find_classes(spark: SparkSession, names: Sequence[str]) -> dict[str, str]:
    """Return the class of each of Spark's own functions, without those that it does not have."""
    jvm: Any = spark._jvm
    if isinstance(jvm.kappa.plan.Functions, JavaClass):
        found = zip(names, jvm.kappa.plan.Functions.findClasses(" ".join(names)).split(" "), strict=True)
        return {name: kind for name, kind in found if kind != "-"}
    catalyst = jvm.org.apache.spark.sql.catalyst
    registry, identifier = catalyst.analysis.FunctionRegistry.builtin(), catalyst.FunctionIdentifier
    known = {name: registry.lookupFunction(identifier(name)) for name in names}
    return {name: info.get().getClassName() for name, info in known.items() if info.isDefined()}


def items(sequence: Any) -> list[Any]:
    """Return the items of a Scala sequence."""
    return [sequence.apply(index) for index in range(sequence.size())]


def name_of(expression: Any) -> str:
    """Return the name of a column, or the SQL of another expression."""
    if isinstance(expression, Node) and expression.column:
        return expression.label
    name: str = expression.name() if kind_of(expression) in _NAMED else expression.sql()
    return name


def has_watermark(expression: Any) -> bool:
    """Return whether an expression is a column with a watermark, or a window of one."""
    if isinstance(expression, Node) and expression.column:
        return _WATERMARK in expression.facts
    return kind_of(expression) in _NAMED and bool(expression.metadata().contains(DELAY))


def view_of(node: Any) -> str | None:
    """Return the name of a node's temporary view, None for other nodes, users' aliases, and a view's rows with identities."""
    if kind_of(node) != "SubqueryAlias" or kind_of(children_of(node)[0]) != "View":
        return None
    name: str = node.label if isinstance(node, Node) else node.alias()
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
