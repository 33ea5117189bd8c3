"""Conditions on earlier events, evaluated in Python while a match is searched for. Pure.

Spark evaluates expressions on one event; their values are operands here. Logic is three-valued as in SQL: None is NULL, and so is a
function of it.
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kappa_pipelines.transforms.patterns.automaton import PASSED

ANY_STEP = -1
Event = list[Any]
"""Time and hash, by which it is sorted; a bit for each step whose own condition holds; operands; values for measures, as JSON."""
_OPERANDS: Final = 3
Condition = Callable[[bytes, Sequence[Event]], Any]
"""Whether an event satisfies a step, from the step numbers of all events so far, its own last, and the events."""


@dataclass(frozen=True, slots=True)
class Navigation:
    """A value of earlier events of the match: `function` of the operand over the events of a step.

    `prev` is the previous event of any step. `offset` counts backwards, or forwards for `first`. Without an operand it counts rows.
    """

    function: str
    step: int = ANY_STEP
    operand: int | None = None
    offset: int = 0

    def find(self, path: bytes, events: Sequence[Event]) -> Any:
        """Return the value, None for NULL."""
        if self.function in ("first", "last", "prev"):
            place = self._find_place(path)
            return None if place is None else events[place][_OPERANDS][self.operand]
        places = self._find_places(path)
        if self.operand is None:
            return sum(1 for _ in places)
        return _AGGREGATES[self.function](
            [value for place in places if (value := events[place][_OPERANDS][self.operand]) is not None]
        )

    def remember(self, path: bytes, events: Sequence[Event]) -> Any:
        """Return the part of the past on which present and later values depend."""
        if self.function == "prev":
            return None  # the same for all paths through the pattern
        if self.function in ("first", "last"):
            steps = (Navigation(self.function, self.step, self.operand, n) for n in range(self.offset + 1))
            return tuple(step.find(path, events) for step in steps)
        if self.function != "avg":
            return self.find(path, events)
        return tuple(
            Navigation(each, self.step, self.operand).find(path, events) for each in ("sum", "count")
        )

    def _find_place(self, path: bytes) -> int | None:
        if self.function == "prev":
            place = len(path) - 1 - self.offset
            return place if place >= 0 else None
        if self.function == "last" and self.step != ANY_STEP:
            place = len(path)
            for _ in range(self.offset + 1):
                place = path.rfind(self.step, 0, place)
                if place < 0:
                    return None
            return place
        places = list(self._find_places(path))
        if self.function == "last":
            places.reverse()
        return places[self.offset] if self.offset < len(places) else None

    def _find_places(self, path: bytes) -> Iterator[int]:
        for place, step in enumerate(path):
            if step == self.step or (self.step == ANY_STEP and step != PASSED):
                yield place


_AGGREGATES: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "sum": lambda values: sum(values[1:], values[0]) if values else None,
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
    "avg": lambda values: float(sum(values) / len(values)) if values else None,
}


def this_event(operand: int) -> Navigation:
    """Return the navigation to the tested event itself."""
    return Navigation("prev", ANY_STEP, operand, 0)


@dataclass(frozen=True, slots=True)
class Operand:
    """A value of the event itself, computed by Spark."""

    number: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant."""

    value: Any


@dataclass(frozen=True, slots=True)
class Call:
    """A function of other expressions, by its name in `FUNCTIONS`."""

    function: str
    arguments: tuple["Expression", ...]


Expression = Operand | Constant | Navigation | Call


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is NULL if an argument is."""

    def call(*arguments: Any) -> Any:
        return None if None in arguments else function(*arguments)

    return call


def _and(*arguments: Any) -> Any:
    if False in arguments:
        return False
    return None if None in arguments else True


def _or(*arguments: Any) -> Any:
    if True in arguments:
        return True
    return None if None in arguments else False


def _is_in(value: Any, *others: Any) -> Any:
    return _or(*(None if None in (value, other) else value == other for other in others))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "And": _and,
    "Or": _or,
    "Not": _strict(operator.not_),
    "EqualTo": _strict(operator.eq),
    "LessThan": _strict(operator.lt),
    "LessThanOrEqual": _strict(operator.le),
    "GreaterThan": _strict(operator.gt),
    "GreaterThanOrEqual": _strict(operator.ge),
    "EqualNullSafe": operator.eq,
    "IsNull": lambda value: value is None,
    "IsNotNull": lambda value: value is not None,
    "In": _is_in,
    "Coalesce": lambda *values: next((value for value in values if value is not None), None),
    "Abs": _strict(abs),
    "UnaryMinus": _strict(operator.neg),
    "Add": _strict(operator.add),
    "Subtract": _strict(operator.sub),
    "Multiply": _strict(operator.mul),
    "Divide": _strict(lambda left, right: left / right if right else None),
    "TimestampAddInterval": _strict(operator.add),
    "SubtractTimestamps": _strict(operator.sub),
    "to_float": _strict(float),
}
"""Named like Spark's expressions. Times and intervals are microseconds. Division by zero is NULL."""


def compile_condition(expression: Expression) -> Condition:
    """Return the function that evaluates an expression."""
    match expression:
        case Constant(value):
            return lambda path, events: value
        case Operand(number):
            return lambda path, events: events[len(path) - 1][_OPERANDS][number]
        case Navigation():
            return expression.find
        case Call(name, arguments):
            return _compile_call(FUNCTIONS[name], [compile_condition(each) for each in arguments])


def _compile_call(function: Callable[..., Any], arguments: list[Condition]) -> Condition:
    if len(arguments) == 2:
        left, right = arguments
        return lambda path, events: function(left(path, events), right(path, events))
    return lambda path, events: function(*(each(path, events) for each in arguments))


def find_navigations(expression: Expression) -> Iterator[Navigation]:
    """Yield the navigations in an expression."""
    if isinstance(expression, Navigation):
        yield expression
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from find_navigations(argument)
