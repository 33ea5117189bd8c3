"""The rules of the API server (Common Expression Language), evaluated in this process.

Google's own implementation in C++ does it; what Kubernetes adds to the language, as far as our rules use it, is below. Source:
Kubernetes' documentation, "Common Expression Language in Kubernetes", on its regular expression, list and quantity libraries.
"""

import re
from functools import cache
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional

from kappa_crds.quantities import SIZE_PATTERN, parse_size

_TEXT, _NUMBER, _ANY = cel.Type.STRING, cel.Type.INT, cel.Type.DYN


def _declare(name: str, result: cel.Type, parameters: list[cel.Type], work: Any, *, member: bool = True) -> cel.FunctionDecl:  # fmt: skip
    overload = cel.Overload(f"kubernetes_{name}", result, parameters, is_member=member, impl=work)
    return cel.FunctionDecl(name, [overload])


def _find(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found[0] if found else ""


def _find_all(text: str, pattern: str) -> list[str]:
    return [found[0] for found in re.finditer(pattern, text)]


_KUBERNETES = [
    _declare("find", _TEXT, [_TEXT, _TEXT], _find),
    _declare("findAll", cel.Type.List(_TEXT), [_TEXT, _TEXT], _find_all),
    _declare("sum", _NUMBER, [cel.Type.List(_ANY)], sum),
    _declare("isQuantity", cel.Type.BOOL, [_TEXT], lambda text: bool(re.fullmatch(SIZE_PATTERN, text)), member=False),
    _declare("quantity", _NUMBER, [_TEXT], parse_size, member=False),
    _declare("compareTo", _NUMBER, [_NUMBER, _NUMBER], lambda one, other: (one > other) - (one < other)),
]  # fmt: skip


@cache
def _build_environment() -> cel.Env:
    variables = {"self": _ANY}
    return cel.NewEnv(variables=variables, extensions=[ext_optional.ExtOptional()], functions=_KUBERNETES)


@cache
def _compile(expression: str) -> cel.Expression:
    return _build_environment().compile(expression)


def evaluate(expression: str, value: Any) -> Any:
    """Return the result of an expression for a value, its `self`; RuntimeError if it cannot be evaluated."""
    result = _compile(expression).eval(data={"self": value})
    if result.type() == cel.Type.ERROR:
        raise RuntimeError(str(result.value()))
    return result.plain_value()
