"""Conditions of steps: what Spark computes for each event, and what the workers evaluate while they search.

The workers know numbers, texts, booleans, dates and times, and the functions of `conditions`; whatever else a condition does to an
event has to stand inside of a look, as in `LAST(lower(A.city))`, where Spark computes it.
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
)
from kappa_pipelines.transforms.patterns.expressions import OPERAND, Look, Operands, Reader, Text
from kappa_pipelines.transforms.place import Place

_LOOK = "__kappa_look_"
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


@dataclass(frozen=True)
class Condition:
    """A step's condition: SQL over one event, or an expression that looks at earlier ones."""

    own: str | None
    earlier: Expression | None


def read_condition(reader: Reader, place: Place, step: str, sql: str, operands: Operands) -> Condition:
    """Return a step's condition; SpecError says what is wrong with it. What it needs of each event joins `operands`."""
    text = reader.parse(place, sql)
    if not text.looks_back(step):
        own = text.strip()
        _check_boolean(place, reader.select_types(place, [f"({own}) AS c"])[0])
        return Condition(own, None)
    looks: list[Look] = []
    rewritten = text.replace(lambda part: _cut_out(part, step, looks, operands))
    kinds = reader.select_types(place, operands.select()) if operands.texts else []
    return Condition(None, _Known(reader, place, rewritten, kinds, looks, operands).build())


def _cut_out(part: Text, step: str, looks: list[Look], operands: Operands) -> str | None:
    """Return the column that stands for a look at the match, or for a part that is about the event alone."""
    look = part.look(step)
    if look is not None:
        if look.operand is not None:
            operands.number(look.operand)
        looks.append(look)
        return f"{_LOOK}{len(looks) - 1}"
    if part.has_columns() and not part.looks_back(step):
        return f"{OPERAND}{operands.number(part.strip())}"
    return None


def _check_boolean(place: Place, kind: t.DataType) -> None:
    if not isinstance(kind, t.BooleanType):
        raise place.fail(
            f"a condition must be true or false, and this is {kind.simpleString().upper()}; compare it"
        )


@dataclass(frozen=True)
class _Known:
    """A condition whose looks and operands have become columns, with the types that these have."""

    reader: Reader
    place: Place
    rewritten: str
    kinds: list[t.DataType]
    looks: list[Look]
    operands: Operands

    def build(self) -> Expression:
        """Return the expression, as Spark understands it, for the workers."""
        fields = [t.StructField(f"{OPERAND}{number}", kind) for number, kind in enumerate(self.kinds)]
        fields += [t.StructField(f"{_LOOK}{at}", self._find_type(look)) for at, look in enumerate(self.looks)]
        empty = self.reader.rows.sparkSession.createDataFrame([], t.StructType(fields))
        try:
            typed = empty.selectExpr(f"({self.rewritten}) AS c")
        except (AnalysisException, ParseException) as error:
            raise self.place.explain(error) from error
        _check_boolean(self.place, typed.schema[0].dataType)
        (alias,) = items(get_plan(typed).projectList())
        return self._convert(children_of(alias)[0], {})

    def _find_type(self, look: Look) -> t.DataType:
        if look.function == "count":
            return t.LongType()
        assert look.operand is not None  # noqa: S101 - only count goes without
        kind = self.kinds[self.operands.number(look.operand)]
        return find_result(self.place, look, kind)

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
            raise self.place.fail(
                f"{kind} cannot be evaluated beside a look at earlier events; put it around the column, inside of"
                " FIRST, LAST or PREV, or into a view before"
            )
        return Call(kind, arguments)

    @staticmethod
    def _find_arguments(node: Any) -> list[Any]:
        return [child for child in children_of(node) if kind_of(child) != "CommonExpressionDef"]

    def _convert_shared(self, node: Any, shared: Mapping[str, Expression]) -> Expression:
        """Convert what Spark makes of BETWEEN: an expression with a part that it names."""
        body, *definitions = children_of(node)
        named = {each.id().toString(): self._convert(children_of(each)[0], shared) for each in definitions}
        return self._convert(body, {**shared, **named})

    def _convert_cast(self, node: Any, arguments: tuple[Expression, ...]) -> Expression:
        before, after = (_name_type(each.dataType()) for each in (node.child(), node))
        if before == after or (before in _NUMBERS and after in _NUMBERS):
            return Call("to_float", arguments) if after in ("float", "double") else arguments[0]
        raise self.place.fail(
            f"{before.upper()} and {after.upper()} cannot be compared beside a look at earlier events; cast the"
            " column inside of it"
        )

    def _find_column(self, name: str) -> Expression:
        if name.startswith(OPERAND):
            return Operand(int(name.removeprefix(OPERAND)))
        look = self.looks[int(name.removeprefix(_LOOK))]
        step = ANY_STEP if look.step is None else self.reader.numbers[look.step]
        operand = None if look.operand is None else self.operands.number(look.operand)
        return Navigation(look.function, step, operand, look.offset)


def find_result(place: Place, look: Look, kind: t.DataType) -> t.DataType:
    """Return the type of a look at values of a type."""
    if look.function in ("sum", "avg") and not isinstance(kind, t.NumericType):
        raise place.fail(
            f"{look.function.upper()} needs a number, and {look.operand} is {kind.simpleString().upper()}"
        )
    if look.function == "avg":
        return t.DoubleType()
    if look.function != "sum":
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
    place: Place, operand: str, column: str, kind: t.DataType
) -> tuple[str, Callable[[str], Any]]:
    """Return how a column travels to the workers: the SQL of its text, and what makes a value of that."""
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
    raise place.fail(
        f"{operand} is {kind.simpleString().upper()}, which cannot be compared with earlier events"
    )
