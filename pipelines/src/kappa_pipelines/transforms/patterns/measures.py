"""Measures: SQL over the rows of a match, which arrive as an array with the number of each row's step.

Looks at the match become expressions over that array, and Spark computes the measure with its own functions and types.
"""

from kappa_pipelines.transforms.inputs import quote
from kappa_pipelines.transforms.patterns.define import find_result
from kappa_pipelines.transforms.patterns.expressions import OPERAND, Look, Operands, Reader, Text
from kappa_pipelines.transforms.place import Place

ROWS = "__kappa_rows"


def read_measure(reader: Reader, place: Place, sql: str, operands: Operands) -> str:
    """Return a measure as SQL over `ROWS`; SpecError says what is wrong with it."""
    text = reader.parse(place, sql)

    def swap(part: Text) -> str | None:
        look = part.look()
        if look is None and part.names:
            look = Look("last", None, part.strip())
        return None if look is None else _write_look(reader, place, look, operands)

    return text.replace(swap)


def _write_look(reader: Reader, place: Place, look: Look, operands: Operands) -> str:
    if look.function == "prev":
        raise place.fail("PREV has no meaning for a whole match; use LAST(column, 1)")
    own = ROWS if look.step is None else f"filter({ROWS}, r -> r.s = {reader.numbers[look.step]})"
    if look.operand is None:
        return f"CAST(size({own}) AS BIGINT)"
    kind = reader.select_types(place, [f"({look.operand}) AS c"])[0]
    result = find_result(place, look, kind).simpleString()
    column = quote(f"{OPERAND}{operands.number(look.operand)}")
    return _write_values(look, f"transform({own}, r -> r.v.{column})", result)


def _write_values(look: Look, values: str, result: str) -> str:
    count = f"CAST(size(filter({values}, x -> x IS NOT NULL)) AS BIGINT)"
    kind = "DOUBLE" if look.function == "avg" else result
    total = f"aggregate({values}, CAST(NULL AS {kind}), (a, x) -> CAST(coalesce(a + x, a, x) AS {kind}))"
    return {
        "first": f"get({values}, {look.offset})",
        "last": f"get(reverse({values}), {look.offset})",
        "count": count,
        "min": f"array_min({values})",
        "max": f"array_max({values})",
        "sum": total,
        "avg": f"try_divide({total}, {count})",
    }[look.function]
