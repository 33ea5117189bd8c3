"""Measures: SQL over the rows of a match, which are an array with the number of each row's step.

References to the match become expressions over that array, and Spark computes the measure with its own functions and types.
"""

from kappa_pipelines.transforms.inputs import quote
from kappa_pipelines.transforms.patterns.define import find_result
from kappa_pipelines.transforms.patterns.expressions import OPERAND, Operands, Reader, Reference, Text
from kappa_pipelines.transforms.spec_path import SpecPath

ROWS = "__kappa_rows"


def read_measure(reader: Reader, path: SpecPath, sql: str, operands: Operands) -> str:
    """Return a measure as SQL over `ROWS`; SpecError if it is invalid."""
    text = reader.parse(path, sql)

    def swap(part: Text) -> str | None:
        reference = part.reference()
        if reference is None and part.names:
            reference = Reference("last", None, part.strip())
        return None if reference is None else _write_reference(reader, path, reference, operands)

    return text.replace(swap)


def _write_reference(reader: Reader, path: SpecPath, reference: Reference, operands: Operands) -> str:
    if reference.function == "prev":
        raise path.fail("PREV has no meaning for a whole match; use LAST(column, 1)")
    own = ROWS if reference.step is None else f"filter({ROWS}, r -> r.s = {reader.numbers[reference.step]})"
    if reference.operand is None:
        return f"CAST(size({own}) AS BIGINT)"
    kind = reader.select_types(path, [f"({reference.operand}) AS c"])[0]
    result = find_result(path, reference, kind).simpleString()
    column = quote(f"{OPERAND}{operands.number(reference.operand)}")
    return _write_values(reference, f"transform({own}, r -> r.v.{column})", result)


def _write_values(reference: Reference, values: str, result: str) -> str:
    count = f"CAST(size(filter({values}, x -> x IS NOT NULL)) AS BIGINT)"
    kind = "DOUBLE" if reference.function == "avg" else result
    total = f"aggregate({values}, CAST(NULL AS {kind}), (a, x) -> CAST(coalesce(a + x, a, x) AS {kind}))"
    return {
        "first": f"get({values}, {reference.offset})",
        "last": f"get(reverse({values}), {reference.offset})",
        "count": count,
        "min": f"array_min({values})",
        "max": f"array_max({values})",
        "sum": total,
        "avg": f"try_divide({total}, {count})",
    }[reference.function]
