"""Conditions of steps: what Spark computes for each event, and what the workers evaluate during the search.

The workers evaluate numbers, texts, booleans, dates, times and the functions in `conditions`. Other expressions on an event must be
inside of a reference, as in `LAST(lower(A.city))`, where Spark computes them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import types as t

from kappa_pipelines.analysis.catalyst import children_of, get_plan, items, kind_of
from kappa_pipelines.transforms.patterns.conditions import (
    ANY_STEP,
    FUNCTIONS,
    Call,
    Constant,
    Expression,
    Navigation,
    Operand,
    this_event,
)
from kappa_pipelines.transforms.patterns.expressions import OPERAND, Operands, Reader, Reference, Text
from kappa_pipelines.transforms.spec_path import SpecPath

_REFERENCE = "__kappa_reference_"
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


@dataclass(frozen=True)
class Earlier:
    """A condition that refers to earlier events: SQL over columns of these types, what each column is, and the same for the workers."""

    sql: str
    columns: t.StructType
    inputs: tuple[Navigation, ...]
    expression: Expression


@dataclass(frozen=True)
class Condition:
    """A step's condition: SQL over one event, or one that refers to earlier events."""

    own: str | None
    earlier: Earlier | None


def read_condition(reader: Reader, path: SpecPath, step: str, sql: str, operands: Operands) -> Condition:
    """Return a step's condition; SpecError if it is invalid. The expressions that it needs of each event are added to `operands`."""
    text = reader.parse(path, sql)
    if not text.refers_back(step):
        own = text.strip()
        _check_boolean(path, reader.select_types(path, [f"({own}) AS c"])[0])
        return Condition(own, None)
    references: list[Reference] = []
    rewritten = text.replace(lambda part: _cut_out(part, step, references, operands))
    kinds = reader.select_types(path, operands.select()) if operands.texts else []
    return Condition(None, _Known(reader, path, rewritten, kinds, references, operands).build())


def _cut_out(part: Text, step: str, references: list[Reference], operands: Operands) -> str | None:
    """Return the column that replaces a reference, or a part that reads only the event itself; None for other parts."""
    reference = part.reference(step)
    if reference is not None:
        if reference.operand is not None:
            operands.number(reference.operand)
        references.append(reference)
        return f"{_REFERENCE}{len(references) - 1}"
    if part.has_columns() and not part.refers_back(step):
        return f"{OPERAND}{operands.number(part.strip())}"
    return None


def _check_boolean(path: SpecPath, kind: t.DataType) -> None:
    if not isinstance(kind, t.BooleanType):
        raise path.fail(
            f"a condition must be true or false, and this is {kind.simpleString().upper()}; compare it"
        )


@dataclass(frozen=True)
class _Known:
    """A condition whose references and operands are columns, with their types."""

    reader: Reader
    path: SpecPath
    rewritten: str
    kinds: list[t.DataType]
    references: list[Reference]
    operands: Operands

    def build(self) -> Earlier:
        """Return the condition; its expression for the workers has Spark's types and casts."""
        fields = [t.StructField(f"{OPERAND}{number}", kind) for number, kind in enumerate(self.kinds)]
        fields += [
            t.StructField(f"{_REFERENCE}{at}", self._find_type(reference))
            for at, reference in enumerate(self.references)
        ]
        columns = t.StructType(fields)
        empty = self.reader.rows.sparkSession.createDataFrame([], columns)
        try:
            typed = empty.selectExpr(f"({self.rewritten}) AS c")
        except (AnalysisException, ParseException) as error:
            raise self.path.explain(error) from error
        _check_boolean(self.path, typed.schema[0].dataType)
        (alias,) = items(get_plan(typed).projectList())
        expression = self._convert(children_of(alias)[0], {})
        inputs = (*map(this_event, range(len(self.kinds))), *map(self._navigate, self.references))
        return Earlier(self.rewritten, columns, inputs, expression)

    def _find_type(self, reference: Reference) -> t.DataType:
        if reference.function == "count":
            return t.LongType()
        assert reference.operand is not None  # noqa: S101 - only count goes without
        kind = self.kinds[self.operands.number(reference.operand)]
        return find_result(self.path, reference, kind)

    def _convert(self, node: Any, shared: Mapping[str, Expression]) -> Expression:
        kind = kind_of(node)
        if kind == "AttributeReference":
            return self._find_column(str(node.name()))
        if kind in ("With", "Between"):
            return self._convert_shared(node if kind == "With" else children_of(node)[0], shared)
        if kind == "CommonExpressionRef":
            return shared[node.id().toString()]
        if node.foldable():
            return Constant(_read_constant(node))
        arguments = tuple(self._convert(child, shared) for child in self._find_arguments(node))
        if kind == "Cast":
            return self._convert_cast(node, arguments)
        if kind not in FUNCTIONS:
            raise self.path.fail(
                f"{kind} cannot be evaluated in a condition that refers to earlier events; put it around the column, inside of"
                " FIRST, LAST or PREV, or into a view before"
            )
        return Call(kind, arguments)

    @staticmethod
    def _find_arguments(node: Any) -> list[Any]:
        return [child for child in children_of(node) if kind_of(child) != "CommonExpressionDef"]

    def _convert_shared(self, node: Any, shared: Mapping[str, Expression]) -> Expression:
        """Convert Spark's form of BETWEEN: an expression with a named common part."""
        body, *definitions = children_of(node)
        named = {each.id().toString(): self._convert(children_of(each)[0], shared) for each in definitions}
        return self._convert(body, {**shared, **named})

    def _convert_cast(self, node: Any, arguments: tuple[Expression, ...]) -> Expression:
        before, after = (_name_type(each.dataType()) for each in (node.child(), node))
        if before == after or (before in _NUMBERS and after in _NUMBERS):
            return Call("to_float", arguments) if after in ("float", "double") else arguments[0]
        raise self.path.fail(
            f"{before.upper()} and {after.upper()} cannot be compared in a condition that refers to earlier events; cast the"
            " column inside of it"
        )

    def _find_column(self, name: str) -> Expression:
        if name.startswith(OPERAND):
            return Operand(int(name.removeprefix(OPERAND)))
        return self._navigate(self.references[int(name.removeprefix(_REFERENCE))])

    def _navigate(self, reference: Reference) -> Navigation:
        step = ANY_STEP if reference.step is None else self.reader.numbers[reference.step]
        operand = None if reference.operand is None else self.operands.number(reference.operand)
        return Navigation(reference.function, step, operand, reference.offset)


def find_result(path: SpecPath, reference: Reference, kind: t.DataType) -> t.DataType:
    """Return the type of a reference to values of a type."""
    if reference.function in ("sum", "avg") and not isinstance(kind, t.NumericType):
        raise path.fail(
            f"{reference.function.upper()} needs a number, and {reference.operand} is {kind.simpleString().upper()}"
        )
    if reference.function == "avg":
        return t.DoubleType()
    if reference.function != "sum":
        return kind
    if isinstance(kind, t.DecimalType):
        return t.DecimalType(38, kind.scale)
    return t.DoubleType() if isinstance(kind, t.FractionalType) else t.LongType()


def _name_type(kind: Any) -> str:
    """Return a type's name without its parameters."""
    name = str(kind.typeName()).split("(")[0]
    return {"integer": "int", "long": "bigint", "byte": "tinyint", "short": "smallint"}.get(
        name, name.split(" ")[0]
    )


def _read_constant(node: Any) -> Any:
    value = node.eval(None)
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value.toString()) if hasattr(value, "toString") else str(value)
    return Decimal(text) if _name_type(node.dataType()) == "decimal" else text


def _is_true(text: str) -> bool:
    return text == "true"


def build_decoder(
    path: SpecPath, operand: str, column: str, kind: t.DataType
) -> tuple[str, Callable[[str], Any]]:
    """Return how a column travels to the workers: the SQL of its text, and the function that decodes it."""
    plain = f"CAST({column} AS STRING)"
    match kind:
        case t.TimestampType():
            return f"CAST(unix_micros({column}) AS STRING)", int
        case t.DateType():
            return f"CAST(unix_date({column}) AS STRING)", int
        case t.FloatType():
            return f"CAST(CAST({column} AS DOUBLE) AS STRING)", float
        case t.DoubleType():
            return plain, float
        case t.DecimalType():
            return plain, Decimal
        case t.BooleanType():
            return plain, _is_true
        case t.StringType():
            return plain, str
        case t.IntegralType():
            return plain, int
    raise path.fail(
        f"{operand} is {kind.simpleString().upper()}, which cannot be compared with earlier events"
    )
