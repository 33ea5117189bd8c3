"""A pattern as a view: Spark computes conditions and operands of each event, a step in Java or in Python finds the matches, and Spark
computes the measures of each match.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from kappa_crds.pattern import Pattern
from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_pipelines.analysis.state import State
from kappa_pipelines.transforms.inputs import Input, check_new_columns, quote, read_input
from kappa_pipelines.transforms.key_groups import JSON, Output, micros, pack, run_step, unpack
from kappa_pipelines.transforms.patterns.automaton import Automaton, build_automaton
from kappa_pipelines.transforms.patterns.define import Condition, build_decoder, read_condition
from kappa_pipelines.transforms.patterns.expressions import Operands, Reader
from kappa_pipelines.transforms.patterns.measures import ROWS, read_measure
from kappa_pipelines.transforms.patterns.native import KEY, Given, explain_python_pattern, search_natively
from kappa_pipelines.transforms.patterns.search import Search
from kappa_pipelines.transforms.patterns.syntax import PatternError, find_steps, parse_steps
from kappa_pipelines.transforms.spec_path import SpecPath

_MOST_STEPS = 60
_OWN_COLUMNS = ("match_start", "match_end", "match_time")
_OUTPUT = Output(
    {
        KEY: "STRING",
        ROWS: "STRING",
        "match_start": "BIGINT",
        "match_end": "BIGINT",
        "match_time": "TIMESTAMP",
    },
    time="match_time",
)


@dataclass(frozen=True)
class _Steps:
    """The steps of a pattern with their numbers, and its automaton."""

    numbers: Mapping[str, int]
    automaton: Automaton


def build_pattern(spark: SparkSession, view: str, pattern: Pattern, *, native: bool) -> DataFrame:
    """Return the rows of the matches; SpecError names the invalid field. With `native`, the module in Java finds them if it can."""
    events = read_input(spark, pattern.from_)
    time = events.find_time(view, pattern.time)
    events.check_columns(view, "pattern.key", pattern.key)
    steps = _read_steps(view, pattern)
    _check_names(view, pattern, steps)
    rows = spark.table(pattern.from_).where(f.col(quote(time)).isNotNull())
    reader = Reader(rows, steps.numbers)
    operands, conditions = Operands(), {}
    for name, sql in pattern.define.items():
        path = SpecPath(view, f"pattern.define.{name}")
        conditions[name] = read_condition(reader, path, name, sql, operands)
    needed, measures = Operands(), {}
    for name, sql in pattern.measures.items():
        path = SpecPath(view, f"pattern.measures.{name}")
        measures[name] = read_measure(reader, path, sql, needed)
    texts, decoders = _encode(view, reader, operands)
    search = _build_search(pattern, steps, conditions, decoders)
    given = Given(
        rows=rows,
        time=time,
        key=tuple(pattern.key),
        hash=f.xxhash64(pack(events.columns)),
        bits=_build_bits(steps, conditions),
        operands=operands,
        needed=needed,
    )
    if native and explain_python_pattern(spark, pattern) is None:
        earlier = {steps.numbers[name]: each.earlier for name, each in conditions.items() if each.earlier}
        found = search_natively(given, search, earlier)
    else:
        found = _search_in_python(given, events, search, texts)
    return _finish(found, view=view, pattern=pattern, measures=measures)


def describe_pattern(view: str, pattern: Pattern) -> State:
    """Return the state of a pattern."""
    until = f"a match is found or {pattern.within} after its first event" if pattern.within else None
    return State(view, "events of unfinished matches", pattern.key, until)


def _read_steps(view: str, pattern: Pattern) -> _Steps:
    try:
        tree = parse_steps(pattern.steps)
        numbers = {name: number for number, name in enumerate(dict.fromkeys(find_steps(tree)), 1)}
        if len(numbers) > _MOST_STEPS:
            raise PatternError(
                f"a pattern can have {_MOST_STEPS} different steps, and this has {len(numbers)}"
            )
        return _Steps(numbers, build_automaton(tree, numbers))
    except PatternError as error:
        raise SpecPath(view, "pattern.steps").fail(f"{error}", Reason.INVALID_SPEC) from error


def _check_names(view: str, pattern: Pattern, steps: _Steps) -> None:
    """Raise SpecError for steps that are not in the pattern, and for duplicate columns."""
    wanted = [("pattern.define", name) for name in pattern.define]
    wanted += [("pattern.skip", pattern.skip.step)] if pattern.skip.step else []
    for field, name in wanted:
        if name not in steps.numbers:
            raise SpecPath(view, field).fail(
                f"there is no step {name!r} in the pattern; it has {', '.join(steps.numbers)}",
                Reason.INVALID_SPEC,
            )
    check_new_columns(view, "pattern.measures", pattern.measures, (*pattern.key, *_OWN_COLUMNS))


def _encode(
    view: str, reader: Reader, operands: Operands
) -> tuple[list[str], tuple[Callable[[str], Any], ...]]:
    """Return how the operands of conditions travel to the workers: SQL of their texts, and the decoders."""
    path = SpecPath(view, "pattern.define")
    kinds = reader.select_types(path, operands.select()) if operands.texts else []
    pairs = [
        build_decoder(path, text, f"({text})", kind) for text, kind in zip(operands.texts, kinds, strict=True)
    ]
    return [sql for sql, _ in pairs], tuple(decoder for _, decoder in pairs)


def _build_search(
    pattern: Pattern,
    steps: _Steps,
    conditions: Mapping[str, Condition],
    decoders: tuple[Callable[[str], Any], ...],
) -> Search:
    earlier = {
        steps.numbers[name]: condition.earlier.expression
        for name, condition in conditions.items()
        if condition.earlier is not None
    }
    within = None if pattern.within is None else round(parse_duration(pattern.within) * 1_000_000)
    skip_step = steps.numbers.get(pattern.skip.step or "", 0)
    return Search(steps.automaton, earlier, decoders, within, pattern.skip.to, skip_step)


def _build_bits(steps: _Steps, conditions: Mapping[str, Condition]) -> Column:
    """Return a number with a bit for each step whose own condition the event satisfies."""
    always = 0
    bits = f.lit(0).cast("bigint")
    for name, number in steps.numbers.items():
        own = conditions[name].own if name in conditions else None
        if own is None:
            always |= 1 << number
        else:
            bits += f.when(f.expr(own), f.lit(1 << number)).otherwise(f.lit(0)).cast("bigint")
    return bits + f.lit(always).cast("bigint")


def _search_in_python(given: Given, events: Input, search: Search, texts: list[str]) -> DataFrame:
    """Return the matches by a step of `key_groups`."""
    columns = {
        "key": pack(given.key) if given.key else f.lit("{}"),
        "time": micros(given.time),
        "hash": given.hash,
        "bits": given.bits,
        "operands": f.to_json(f.array(*map(f.expr, texts))) if texts else f.lit(None).cast("string"),
        "needed": _pack_needed(given.needed),
    }
    found = run_step(given.rows, "key", columns, search, _OUTPUT, time=given.time)
    found = found.withColumn(ROWS, f.from_json(f.col(ROWS), _find_needed(given.rows, given.needed), JSON))
    fields = [t.StructField(name, events.find_type(name)) for name in given.key]
    return found.withColumn(KEY, unpack(f.col(KEY), t.StructType(fields))) if fields else found


def _pack_needed(needed: Operands) -> Column:
    """Return the values of an event for measures, as JSON."""
    if not needed.texts:
        return f.lit("{}")
    return f.to_json(f.struct(*map(f.expr, needed.select())), JSON)


def _find_needed(rows: DataFrame, needed: Operands) -> t.ArrayType:
    """Return the type of a match's rows."""
    kinds = rows.selectExpr(*needed.select()).schema if needed.texts else t.StructType()
    values = t.StructType([t.StructField(field.name, field.dataType) for field in kinds.fields])
    row = t.StructType([t.StructField("s", t.IntegerType()), t.StructField("v", values)])
    return t.ArrayType(row)


def _finish(found: DataFrame, *, view: str, pattern: Pattern, measures: Mapping[str, str]) -> DataFrame:
    """Return the columns of the view."""
    own = [f.timestamp_micros(f.col(name)).alias(name) for name in _OWN_COLUMNS[:2]]
    keys = [f.col(KEY)[name].alias(name) for name in pattern.key]
    for name, sql in measures.items():
        try:
            found.select(f.expr(sql).alias(name))
        except (AnalysisException, ParseException) as error:
            raise SpecPath(view, f"pattern.measures.{name}").explain(error) from error
    values = [f.expr(sql).alias(name) for name, sql in measures.items()]
    return found.select(*keys, *values, *own, f.col(_OWN_COLUMNS[2]))
