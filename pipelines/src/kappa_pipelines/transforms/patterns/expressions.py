"""SQL of patterns, parsed by Spark's own parser.

The parser gives the position of each part of an expression. References to earlier events of the match (`LAST(A.price)`,
`COUNT(B.*)`, …) are replaced by columns; parts that read one event alone are left for Spark to compute. The rest of a condition
becomes an expression for the workers, with Spark's types and casts.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType

from kappa_pipelines.analysis.catalyst import children_of, items, kind_of
from kappa_pipelines.sandbox.check import Place, check_plan, parse_expression
from kappa_pipelines.transforms.inputs import quote
from kappa_pipelines.transforms.spec_path import SpecPath

FUNCTIONS = ("first", "last", "prev", "count", "sum", "avg", "min", "max")
_PLACES = ("first", "last", "prev")
OPERAND = "__kappa_operand_"


@dataclass(frozen=True)
class Reference:
    """A reference to events of the match: of one step or, without a step, of all. Without an operand it counts rows."""

    function: str
    step: str | None
    operand: str | None
    offset: int = 0


@dataclass
class Operands:
    """Expressions on one event that Spark computes for all events, each once. Their columns are numbered."""

    texts: list[str] = field(default_factory=list)

    def number(self, text: str) -> int:
        """Return the number of an expression's column."""
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text)

    def select(self) -> list[str]:
        """Return the expressions as items of a SELECT."""
        return [f"({text}) AS {OPERAND}{number}" for number, text in enumerate(self.texts)]


@dataclass(frozen=True)
class Reader:
    """Parses the expressions of a pattern over the events in `rows`. `numbers` are those of its steps."""

    rows: DataFrame
    numbers: Mapping[str, int]

    def parse(self, path: SpecPath, text: str) -> "Text":
        """Return an expression's tree; SpecError if it is not SQL, or names what it may not use."""
        tree = parse_expression(self.rows.sparkSession, path.text, text)
        return Text(path, text, tree, frozenset(self.numbers))

    def select_types(self, path: SpecPath, columns: list[str]) -> list[DataType]:
        """Return the types of expressions on one event; SpecError for what Spark refuses."""
        try:
            selected = self.rows.selectExpr(*columns)
            check_plan(Place(path.text), selected)
            return [column.dataType for column in selected.schema.fields]
        except (AnalysisException, ParseException) as error:
            raise path.explain(error) from error


@dataclass(frozen=True)
class Text:
    """An expression's text and its tree, or a part of them."""

    path: SpecPath
    whole: str
    node: Any
    steps: frozenset[str]

    @property
    def parts(self) -> list["Text"]:
        """Return its subexpressions."""
        return [Text(self.path, self.whole, node, self.steps) for node in children_of(self.node)]

    @property
    def own_span(self) -> tuple[int, int] | None:
        """Return its position by the parser: start and end. For `x IS NULL` that is without the `x`."""
        origin = self.node.origin()
        if not origin.startIndex().isDefined():
            return None
        return origin.startIndex().get(), origin.stopIndex().get() + 1

    @property
    def span(self) -> tuple[int, int]:
        """Return the position of the whole expression, with its parts and their brackets."""
        spans = [part.own_span for part in self.walk()]
        begin = min((span[0] for span in spans if span), default=0)
        end = max((span[1] for span in spans if span), default=0)
        return _close_brackets(self.whole, begin, end)

    @property
    def names(self) -> list[str]:
        """Return the parts of a column's name; empty for other expressions."""
        return items(self.node.nameParts()) if kind_of(self.node) == "UnresolvedAttribute" else []

    def walk(self) -> Iterator["Text"]:
        """Yield the expression and all below it."""
        yield self
        for part in self.parts:
            yield from part.walk()

    def reference(self, own: str | None = None) -> Reference | None:
        """Return the reference that the expression is, None if it is not one. The step `own` is the event itself."""
        names = self.names
        if len(names) > 1 and names[0] in self.steps and names[0] != own:
            return Reference("last", names[0], _quote_all(names[1:]))
        function, arguments = self._read_call()
        if function is None or function not in FUNCTIONS:
            return None
        reference = self._read_reference(function, arguments)
        if function == "prev" and reference.step not in (None, own):
            raise self.path.fail(
                f"{self._quote()}: PREV refers to the previous event of any step; remove {reference.step}"
            )
        return reference

    def refers_back(self, own: str | None = None) -> bool:
        """Return whether the expression, or a part of it, is a reference."""
        return any(part.reference(own) is not None for part in self.walk())

    def has_columns(self) -> bool:
        """Return whether it reads columns."""
        return any(part.names for part in self.walk())

    def replace(self, swap: Callable[["Text"], str | None]) -> str:
        """Return the text with each part, from the top, replaced by the text that `swap` returns for it, if any."""
        begin, end = self.span
        made, at = "", begin
        for start, stop, text in sorted(self._find_swaps(swap)):
            made += self.whole[at:start] + text
            at = stop
        return made + self.whole[at:end]

    def strip(self) -> str:
        """Return the text without the names of steps before columns."""
        return self.replace(
            lambda part: (
                _quote_all(part.names[1:]) if len(part.names) > 1 and part.names[0] in self.steps else None
            )
        )

    def _find_swaps(self, swap: Callable[["Text"], str | None]) -> Iterator[tuple[int, int, str]]:
        text = swap(self)
        if text is not None:
            yield (*self.span, text)
            return
        for part in self.parts:
            yield from part._find_swaps(swap)

    def _read_call(self) -> tuple[str | None, list["Text"]]:
        """Return a call's function and arguments. The parser reads `FIRST(x)` and `LAST(x)` as aggregates, others as calls."""
        kind = kind_of(self.node)
        if kind == "AggregateExpression":
            inner = self.node.aggregateFunction()
            if "IGNORE NULLS" in self._quote().upper():
                raise self.path.fail(f"{self._quote()}: IGNORE NULLS cannot be used over a match")
            function = Text(self.path, self.whole, inner, self.steps)
            return kind_of(inner).lower(), function.parts[:1]
        if kind != "UnresolvedFunction":
            return None, []
        if self.node.isDistinct() or self.node.filter().isDefined():
            raise self.path.fail(f"{self._quote()}: neither DISTINCT nor FILTER can be used over a match")
        return str(self.node.prettyName()).lower(), self.parts

    def _read_reference(self, function: str, arguments: list["Text"]) -> Reference:
        if not arguments or len(arguments) > (2 if function in _PLACES else 1):
            raise self.path.fail(f"{self._quote()} has a wrong number of arguments")
        what = arguments[0]
        if function == "count" and (step := what._find_rows(self)) is not None:
            return Reference(function, step or None, None)
        if any(part.reference() is not None for part in what.walk() if not part.names):
            raise self.path.fail(f"{self._quote()}: a reference to the match cannot contain another one")
        used = {part.names[0] for part in what.walk() if len(part.names) > 1 and part.names[0] in self.steps}
        columns = {part.names[0] for part in what.walk() if part.names} - used
        if len(used) > 1 or (used and columns):
            raise self.path.fail(
                f"{self._quote()} must refer to one step; it refers to {', '.join(sorted(used | columns))}"
            )
        step = next(iter(used), None)
        return Reference(function, step, what.strip(), self._read_offset(function, arguments[1:]))

    def _find_rows(self, call: "Text") -> str | None:
        """Return the step whose rows `count` counts, "" for all; None if it counts values."""
        if kind_of(self.node) == "UnresolvedStar":
            target = items(self.node.target().get()) if self.node.target().isDefined() else [""]
            if target[0] and target[0] not in self.steps:
                raise self.path.fail(
                    f"there is no step {target[0]!r}; there are {', '.join(sorted(self.steps))}"
                )
            return str(target[0])
        return "" if self.own_span == call.own_span else None  # count(*), which the parser reads as count(1)

    def _read_offset(self, function: str, rest: list["Text"]) -> int:
        if not rest:
            return 1 if function == "prev" else 0
        begin, end = rest[0].span
        offset = self.whole[begin:end]
        if not offset.isdigit() or int(offset) > 1000:
            raise self.path.fail(f"{self._quote()}: the offset must be a whole number up to 1000")
        return int(offset)

    def _quote(self) -> str:
        begin, end = self.span
        return self.whole[begin:end]


def _close_brackets(text: str, begin: int, end: int) -> tuple[int, int]:
    """Return the span, extended to the partners of brackets in it."""
    plain = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", lambda quoted: "_" * len(quoted[0]), text)
    depth = lowest = 0
    for sign in plain[begin:end]:
        depth += (sign == "(") - (sign == ")")
        lowest = min(lowest, depth)
    for _ in range(-lowest):
        begin = plain.rindex("(", 0, begin)
    for _ in range(depth - lowest):
        end = plain.index(")", end) + 1
    return begin, end


def _quote_all(names: Iterable[str]) -> str:
    return ".".join(map(quote, names))
