"""Checks SQL by Spark's parser before Spark analyses it, and the analysed plan before Spark runs it.

The analysis itself may read files, resolve functions of catalogs and build large plans, so a statement is refused by its parsed tree. The
analysed plan shows what the text does not name: `current_user` without brackets is a column in the tree, and a function in the plan.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from kappa_crds.reasons import Reason
from kappa_pipelines.analysis.catalyst import (
    EVENTS_OF,
    children_of,
    contains_plan,
    expressions_of,
    find_classes,
    items,
    kind_of,
    read_plan,
    read_tree,
)
from kappa_pipelines.errors import SpecError
from kappa_pipelines.failures.classify import first_lines
from kappa_pipelines.failures.exceptions import read_sql_failure
from kappa_pipelines.sandbox import rules

_UNBOUND = {
    "ExpressionWithUnresolvedIdentifier": "IDENTIFIER() is refused; write the name",
    "NamedParameter": "a statement has no parameters; write the value",
    "PosParameter": "a statement has no parameters; write the value",
}
_LEAVES = ("Literal", "UnresolvedAttribute", "AttributeReference", "UnresolvedStar")
_WRAPPERS = ("Cast", "UnaryMinus", "UnaryPositive", "NamedArgumentExpression")
_PLAIN = (
    "ByteType",
    "ShortType",
    "IntegerType",
    "LongType",
    "FloatType",
    "DoubleType",
    "DecimalType",
    "StringType",
)
_CALLS: Mapping[str, Callable[[Any], tuple[list[str], list[Any]]]] = {
    "UnresolvedFunction": lambda node: (items(node.nameParts()), items(node.arguments())),
    "UnresolvedGenerator": lambda node: ([node.name().funcName()], children_of(node)),
    "UnresolvedTableValuedFunction": lambda node: (items(node.name()), items(node.functionArgs())),
    "UnresolvedHint": lambda node: ([node.name()], items(node.parameters())),
}
"""Nodes that name a function or a hint: how its name and its arguments are read."""


@dataclass(frozen=True)
class Place:
    """Where SQL is in a spec: its path, and whether lines and columns of the text are those of the spec."""

    path: str
    lines: bool = False
    columns: bool = False

    def refuse(self, text: str, node: Any = None) -> SpecError:
        """Return the error for a part of the SQL."""
        return SpecError(Reason.SQL_REFUSED, f"{self.path}{self._find_position(node)}: {text}")

    def _find_position(self, node: Any) -> str:
        if node is None or not self.lines or not node.origin().line().isDefined():
            return ""
        line, column = node.origin().line().get(), node.origin().startPosition().get() + 1
        return f", line {line}, column {column}" if self.columns else f", line {line}"


def check_query(spark: SparkSession, place: Place, sql: str, scans: Mapping[str, int]) -> int:
    """Return how many relations a query reads; SpecError if it is a command, or names what it may not use.

    `scans` has the number of relations behind each view. Another name counts as one relation, and Spark finds out whether it exists.
    """
    reads = {table: Counter(names) for table, names in _read_query(spark, place, sql).items()}
    found = _count_scans(reads, {name.lower(): count for name, count in scans.items()})
    if found > rules.MOST_SCANS:
        why = f"it reads {found:g} relations through views and WITH, and {rules.MOST_SCANS} is the most"
        raise place.refuse(why)
    return found


@lru_cache(maxsize=256)  # a driver compiles its views several times
def _read_query(spark: SparkSession, place: Place, sql: str) -> Mapping[str, Counter[str]]:
    """Return the relations of a query, by the common table expression that reads them; "" is the rest of the statement."""
    parser = spark._jsparkSession.sessionState().sqlParser()
    walk = _Walk(spark, place)
    try:
        walk.run(read_tree(spark, parser.parseQuery(sql)))
    except (ParseException, Py4JJavaError):
        command = _find_command(parser, sql)
        if command is None:
            raise
        raise place.refuse(f"{command} is a command, and a view is one query") from None
    return walk.reads


def _find_command(parser: Any, sql: str) -> str | None:
    """Return the kind of a statement that is not a query; None if it is not a statement at all."""
    try:
        return kind_of(parser.parsePlan(sql)).removesuffix("$")
    except (ParseException, Py4JJavaError):
        return None


def _count_scans(reads: dict[str, Counter[str]], known: dict[str, int], table: str = "") -> int:
    """Return how many relations the statement, or one of its common table expressions, reads. `known` are counted already."""
    # It is removed, so that an expression that reads its own name reads the view of that name.
    own = reads.pop(table, Counter())
    for name in own:
        if name in reads:
            known[name] = _count_scans(reads, known, name)
    return max(1, sum(times * known.get(name, 1) for name, times in own.items()))


@lru_cache(maxsize=256)
def parse_expression(spark: SparkSession, path: str, sql: str) -> Any:
    """Return the tree of an expression of a spec; SpecError if it is not SQL, or names what it may not use."""
    try:
        tree = spark._jsparkSession.sessionState().sqlParser().parseExpression(sql)
    except ParseException as error:
        message = first_lines(read_sql_failure(error).message)
        raise SpecError(Reason.INVALID_SQL, f"{path}: {message}") from error
    _Walk(spark, Place(path)).run(read_tree(spark, tree), is_plan=False)
    return tree


def check_plan(place: Place, rows: DataFrame) -> None:
    """Raise SpecError if the analysed plan has what a view may not use, up to the views that it reads."""
    _Walk(rows.sparkSession, place, is_parsed=False).run(read_plan(rows))


@lru_cache(maxsize=2)  # of the session, and of one that late records are computed in
def _find_refused_classes(spark: SparkSession) -> dict[str, str]:
    """Return the classes of refused functions, each with why it is refused."""
    names = defaultdict(list)
    for name, kind in find_classes(spark, tuple(rules.list_refused())).items():
        names[kind.rpartition(".")[2]].append(name)
    return {kind: rules.explain_refusal(same) for kind, same in names.items()}


def _read_literal(node: Any) -> Any:
    """Return the value of a literal number or text, also of one in a cast or with a sign; None for another expression."""
    while kind_of(node) in _WRAPPERS:
        node = children_of(node)[0]
    is_plain = kind_of(node) == "Literal" and kind_of(node.dataType()).removesuffix("$") in _PLAIN
    return node.value() if is_plain else None


class _Part(NamedTuple):
    """A node that is still to be visited, and the common table expression that it belongs to."""

    node: Any
    is_plan: bool
    table: str


@dataclass
class _Walk:
    """A walk over a tree with all its parts: subqueries, common table expressions, and what Spark keeps beside children.

    `reads` has the relations that each common table expression reads, and those of the rest of the statement by the name "".
    """

    spark: SparkSession
    place: Place
    is_parsed: bool = True
    reads: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    groupings: int = 1

    def run(self, root: Any, *, is_plan: bool = True) -> None:
        """Visit all parts; SpecError for one that is refused."""
        pending, visited = [_Part(root, is_plan, "")], 0
        while pending:
            part = pending.pop()
            visited += 1
            if self.is_parsed and visited > rules.MOST_NODES:
                raise self.place.refuse(f"it has more than {rules.MOST_NODES} parts; divide it into views")
            pending.extend(self._visit(part))

    def _visit(self, part: _Part) -> Iterator[_Part]:
        """Check a node, and yield the parts of it."""
        kind = kind_of(part.node)
        if kind in _LEAVES:
            return
        if kind in _CALLS:
            self._check_call(kind, part.node)
        if part.is_plan:
            yield from self._visit_plan(kind, part)
        else:
            yield from self._visit_expression(kind, part)

    def _visit_plan(self, kind: str, part: _Part) -> Iterator[_Part]:
        node = part.node
        if kind not in rules.list_names("plan", "nodes"):
            raise self.place.refuse(f"a view cannot have the step {kind}", node)
        if kind == "View":  # it was checked
            return
        if kind == "UnresolvedRelation":
            self.reads[part.table][self._read_relation(node)] += 1
        if kind == "UnresolvedWith":
            yield from self._open_tables(node)
        if kind == "WithWindowDefinition":
            windows = items(node.windowDefinitions().values().toSeq())
            yield from (_Part(each, False, part.table) for each in windows)
        yield from (_Part(each, True, part.table) for each in children_of(node))
        yield from (_Part(each, False, part.table) for each in expressions_of(node))

    def _open_tables(self, node: Any) -> Iterator[_Part]:
        if node.allowRecursion():
            raise self.place.refuse("WITH RECURSIVE is refused; nothing bounds the recursion", node)
        for table in items(node.innerChildren()):
            name = str(table.alias()).lower()
            self.reads.setdefault(name, Counter())
            yield _Part(read_tree(self.spark, table), True, name)
        if len(self.reads) > rules.MOST_TABLES:
            raise self.place.refuse(f"it has more than {rules.MOST_TABLES} tables in WITH", node)

    def _visit_expression(self, kind: str, part: _Part) -> Iterator[_Part]:
        node = part.node
        why = _UNBOUND.get(kind) or _find_refused_classes(self.spark).get(kind)
        if kind in ("Cube", "Rollup"):
            why = self._count_groupings(kind, len(children_of(node)))
        if why is not None:
            raise self.place.refuse(why, node)
        if kind == "UnresolvedStarExceptOrReplace" and node.replacements().isDefined():
            yield from (_Part(each, False, part.table) for each in items(node.replacements().get()))
        if contains_plan(self.spark, node):
            yield _Part(read_tree(self.spark, node.plan()), True, part.table)
        yield from (_Part(each, False, part.table) for each in children_of(node))

    def _count_groupings(self, kind: str, columns: int) -> str | None:
        self.groupings *= 2**columns if kind == "Cube" else columns + 1
        if self.groupings <= rules.MOST_GROUPINGS:
            return None
        return f"it has {self.groupings:g} grouping sets, and {rules.MOST_GROUPINGS} is the most"

    def _check_call(self, kind: str, node: Any) -> None:
        """Check the name and the literal arguments of a function or a hint."""
        parts, arguments = _CALLS[kind](node)
        literals = [_read_literal(each) for each in arguments]
        if parts[-1].lower() == "window":
            literals = [self._read_duration(each) for each in literals]
        why = rules.refuse_call(kind, parts, literals)
        if why is not None:
            raise self.place.refuse(why, node)

    def _read_duration(self, literal: Any) -> Any:
        """Return the microseconds of an interval, which is a number of them or text; None for what is not one."""
        if literal is None or isinstance(literal, int):
            return literal
        jvm: Any = self.spark._jvm
        windows = jvm.org.apache.spark.sql.catalyst.expressions.TimeWindow
        try:
            return windows.getIntervalInMicroSeconds(str(literal))
        except (PySparkException, Py4JJavaError):
            return None

    def _read_relation(self, node: Any) -> str:
        parts = [str(each) for each in items(node.multipartIdentifier())]
        name = parts[-1].lower()
        why = "it is not a source or a view, but a file or a table of a catalog" if len(parts) > 1 else None
        if name.startswith("__kappa"):
            why = "it is internal to the runtime"
        if not node.options().isEmpty():
            why = "sources and views have no options"
        if why is not None:
            raise self.place.refuse(f"{'.'.join(parts)} cannot be read: {why}", node)
        return name.removeprefix(EVENTS_OF)
