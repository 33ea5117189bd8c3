"""What patterns mean: published examples, and the search as events come against the search in all events at once."""

import json
import pickle
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kappa_crds.pattern import SkipTo
from kappa_pipelines.transforms.patterns.automaton import build_automaton
from kappa_pipelines.transforms.patterns.conditions import (
    ANY_STEP,
    Call,
    Constant,
    Expression,
    Navigation,
    Operand,
    compile_condition,
)
from kappa_pipelines.transforms.patterns.search import NEVER, Search
from kappa_pipelines.transforms.patterns.syntax import PatternError, find_steps, parse_steps
from kappa_pipelines.transforms.stored import decode, encode
from reference.patterns import Match, find_matches

Event = tuple[int, int]
"""Time and price."""
Path = tuple[str | None, ...]
_NO_STEP = 255
"""A number that no event of a match has: that of an event that a negation passes over is 0."""


@dataclass(frozen=True)
class Case:
    """A pattern, with a condition for each step."""

    steps: str
    define: Mapping[str, Expression]
    within: int | None = None
    skip: SkipTo = SkipTo.PAST_LAST_ROW
    skip_step: str | None = None

    @property
    def numbers(self) -> dict[str, int]:
        return {
            name: number for number, name in enumerate(dict.fromkeys(find_steps(parse_steps(self.steps))), 1)
        }


PRICE = Operand(0)


def last(step: int = ANY_STEP, offset: int = 0) -> Navigation:
    return Navigation("last", step, 0, offset)


def call(name: str, *arguments: Expression) -> Call:
    return Call(name, arguments)


def search_whole(case: Case, events: Sequence[Event]) -> list[Match]:
    """The reference."""
    conditions = {name: compile_condition(each) for name, each in case.define.items()}
    numbers = case.numbers

    def holds(name: str, path: Path, seen: Sequence[Event]) -> Any:
        values = [[time, 0, 0, [price], None] for time, price in seen]
        return name not in conditions or conditions[name](
            bytes(numbers[each] if each else 0 for each in path), values
        )

    within = float("inf") if case.within is None else case.within
    tree = parse_steps(case.steps)
    options = {"within": within, "skip": case.skip, "skip_step": case.skip_step}
    return find_matches(tree, events, time=lambda e: e[0], holds=holds, **options)  # type: ignore[arg-type]


def search_batches(case: Case, events: Sequence[Event], seed: int, slack: int = 5) -> list[tuple[Any, ...]]:
    """What comes out as events come in batches, in another order; state is stored between them. Prices are ids."""
    rng = random.Random(seed)
    given_rows = [
        ("k", time, at, -1, json.dumps([str(price)]), str(at)) for at, (time, price) in enumerate(events)
    ]
    given_rows.sort(key=lambda row: row[1] + slack * 0.9 * rng.random())
    search = pickle.loads(pickle.dumps(build_search(case)))  # noqa: S301 - our own
    kept: dict[str, Any] = {}
    found: list[tuple[Any, ...]] = []
    latest, watermark = 0, 0
    while given_rows:
        batch = given_rows[: (size := rng.randrange(1, 5))]
        del given_rows[:size]
        before = watermark
        wake = search.find_wake(kept)
        watermark = max(watermark, latest - slack)
        assert wake is None or wake > before, "it waits for a time that has passed"
        new = search.advance(kept, batch, watermark)
        assert all(before < row[4] <= watermark for row in new), (
            "a match is told when it is certain, not later"
        )
        found += new
        latest = max(latest, *(row[1] for row in batch))
        kept = decode(encode(kept))
    found += search.advance(kept, [], NEVER)
    assert kept == {}, "something is kept although nothing can come"
    return found


def build_search(case: Case) -> Search:
    numbers = case.numbers
    automaton = build_automaton(parse_steps(case.steps), numbers)
    earlier = {numbers[name]: each for name, each in case.define.items() if name in numbers}
    skip_step = numbers.get(case.skip_step or "", _NO_STEP)
    return Search(automaton, earlier, (int,), case.within, case.skip, skip_step)


def check_same(case: Case, events: Sequence[Event], seed: int) -> list[Match]:
    expected = search_whole(case, events)
    rows = [
        {
            "rows": [{"s": case.numbers[s], "v": m.start + at} for at, s in enumerate(m.steps) if s],
            "times": (events[m.start][0], events[m.last][0], min(m.decided, NEVER)),
        }
        for m in expected
    ]
    found = [{"rows": json.loads(row[1]), "times": row[2:]} for row in search_batches(case, events, seed)]
    assert found == rows
    return expected


FALLING = call("LessThan", PRICE, Navigation("prev", ANY_STEP, 0, 1))
RISING = call("GreaterThan", PRICE, Navigation("prev", ANY_STEP, 0, 1))
# ISO/IEC TR 19075-5 and Oracle's documentation: the ticker ACME, a price for each day of April 2011.
ACME = list(enumerate([12, 17, 19, 21, 25, 12, 15, 20, 24, 25, 19, 15, 25, 25, 14, 12, 14, 24, 23, 22], 1))
# Flink's documentation, "Pattern Recognition": tickers, second by second.
TICKER = list(enumerate([12, 17, 19, 21, 25, 18, 15, 14, 24, 25, 19]))
AVERAGES = list(enumerate([12, 17, 13, 16, 25, 2, 4, 10, 15, 25, 25, 30]))
LOOPS = list(enumerate([10, 11, 12, 13, 14, 16], 2))
SUMS = list(enumerate([7, 9, 10, 5, 17, 14], 1))


def say(match: Match, events: Sequence[Event]) -> tuple[int, str, int]:
    return events[match.start][0], "".join(each or "-" for each in match.steps), events[match.last][0]


@pytest.mark.parametrize("seed", range(5))
def test_the_v_shapes_of_the_standard_are_found(seed: int) -> None:
    """With `AFTER MATCH SKIP TO LAST UP`, so that one may begin where the one before ends."""
    case = Case("S D+ U+", {"D": FALLING, "U": RISING}, skip=SkipTo.LAST, skip_step="U")
    found = check_same(case, ACME, seed)
    assert [say(m, ACME) for m in found] == [(5, "SDUUUU", 10), (10, "SDDU", 13), (14, "SDDUU", 18)]


def test_the_ticker_of_flinks_documentation_is_found() -> None:
    first = call("And", call("IsNull", last(2, 1)), call("LessThan", last(2), last(1)))
    down = call("Or", first, call("LessThan", last(2), last(2, 1)))
    up = call("GreaterThan", last(3), last(2))
    found = check_same(Case("S D+ U", {"D": down, "U": up}), TICKER, 1)
    assert [say(m, TICKER) for m in found] == [(4, "SDDDU", 8)]


def test_the_average_of_flinks_documentation_is_that_of_the_step_so_far() -> None:
    below = call("LessThan", Navigation("avg", 1, 0), Constant(15))
    found = check_same(Case("A+ B", {"A": below}), AVERAGES, 1)
    assert [say(m, AVERAGES) for m in found] == [(0, "AAAAB", 4), (5, "AAAAAAB", 11)]


@pytest.mark.parametrize(("steps", "ends"), [("A B* C", [16]), ("A B*? C", [13, 16])])
def test_loops_of_flinks_documentation_are_greedy_or_reluctant(steps: str, ends: list[int]) -> None:
    define = {
        "A": call("GreaterThan", PRICE, Constant(10)),
        "B": call("LessThan", PRICE, Constant(15)),
        "C": call("GreaterThan", PRICE, Constant(12)),
    }
    assert [LOOPS[m.last][1] for m in check_same(Case(steps, define), LOOPS, 1)] == ends


@pytest.mark.parametrize(
    ("skip", "sums"),
    [
        (SkipTo.PAST_LAST_ROW, [26, 17]),
        (SkipTo.NEXT_ROW, [26, 24, 15, 22, 17]),
        (SkipTo.LAST, [26, 15, 22, 17]),
        (
            SkipTo.FIRST,
            [26, 24, 15, 22, 17],
        ),  # refused in SQL, as the search would stand still; see the documentation
    ],
)
def test_skips_of_flinks_documentation(skip: SkipTo, sums: list[int]) -> None:
    below = call("LessThan", Navigation("sum", 1, 0), Constant(30))
    found = check_same(Case("A+ C", {"A": below}, skip=skip, skip_step="A"), SUMS, 1)
    assert [sum(SUMS[m.start + at][1] for at, s in enumerate(m.steps) if s == "A") for m in found] == sums


def is_price(price: int) -> Expression:
    return call("EqualTo", PRICE, Constant(price))


PAYMENT = {"O": is_price(1), "P": is_price(2), "S": is_price(3)}


def test_a_negation_passes_over_events_until_the_next_step() -> None:
    case = Case("O !P S", PAYMENT, within=10)

    def tell(*prices: int) -> list[tuple[int, str, int]]:
        events = list(enumerate(prices))
        return [say(match, events) for match in check_same(case, events, 1)]

    assert tell(1, 0, 0, 3, 3) == [(0, "O--S", 3)]
    assert tell(1, 0, 2, 3) == []
    assert tell(1, 0, 2, 1, 3) == [(3, "OS", 4)]


def test_a_negation_at_the_end_holds_until_the_time_is_over() -> None:
    case = Case("O !P", PAYMENT, within=3)
    events = [(0, 1), (1, 0), (2, 1), (5, 2), (10, 1), (14, 2)]
    found = check_same(case, events, 1)
    assert [(say(m, events), m.decided) for m in found] == [((0, "O", 0), 3), ((10, "O", 10), 13)]


def test_null_is_not_true() -> None:
    null = call("LessThan", PRICE, Constant(None))
    assert check_same(Case("A", {"A": null}), TICKER, 1) == []
    assert check_same(Case("A", {"A": call("Not", null)}), TICKER, 1) == []


steps_of_patterns = st.recursive(
    st.sampled_from("ABC"),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(" ".join),
        st.lists(inner, min_size=2, max_size=2).map(lambda parts: f"({'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["?", "*", "+", "??", "*?", "+?", "{2}", "{1,2}", "{2,}?"])).map(
            lambda parts: f"({parts[0]}){parts[1]}"
        ),
        st.tuples(inner, st.sampled_from(["!A", "!B", "!C"]), inner).map(" ".join),
        st.tuples(inner, st.sampled_from(["!A", "!B", "!C"])).map(" ".join),
    ),
    max_leaves=6,
)
conditions = st.sampled_from(
    [
        *map(is_price, (0, 1, 2)),
        call("GreaterThan", PRICE, Constant(0)),
        FALLING,
        call("GreaterThanOrEqual", PRICE, last(1, 1)),
        call("Or", call("IsNull", last(2, 1)), call("LessThan", PRICE, Navigation("first", 2, 0))),
        call("LessThan", Navigation("sum", ANY_STEP, 0), Constant(6)),
        call("LessThan", Navigation("count", 1), Constant(2)),
        call("LessThan", Navigation("avg", 2, 0), Constant(1)),
    ]
)
histories = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 2)), min_size=1, max_size=14).map(sorted)


def is_pattern(steps: str) -> bool:
    try:
        return parse_steps(steps) is not None
    except PatternError:
        return False


@settings(max_examples=examples(600), deadline=None)
@given(
    steps=steps_of_patterns.filter(is_pattern),
    define=st.fixed_dictionaries({"A": conditions, "B": conditions, "C": conditions}),
    events=histories,
    within=st.sampled_from([None, 3, 8]),
    skip=st.sampled_from(SkipTo),
    seed=st.integers(0, 99),
)
def test_batches_change_nothing(
    steps: str,
    define: dict[str, Expression],
    events: list[Event],
    within: int | None,
    skip: SkipTo,
    seed: int,
) -> None:
    check_same(Case(steps, define, within, skip, "B"), events, seed)


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ("A B+ )", r"column 6: cannot read '\)'"),
        ("A (B | C", "column 9: a \\) is missing"),
        ("A | ", "a step is missing at the end"),
        ("+ A", r"column 1: a step is missing before '\+ A'"),
        ("A $", r"column 3: cannot read '\$'"),
        ("A{}", "column 2: write a count"),
        ("A{3,2}", "column 2: a count must be from 1 to 200"),
        ("A{201}", "a count must be from 1 to 200"),
        ("A (B?)*", "column 3: the repeated part can match without any event"),
        ("A? B*", "the pattern can match without any event"),
        ("!A B", "!A must be between two steps"),
        ("A (!B C)", "!B must be between two steps"),
        ("A !B C?", "!B must be between two steps"),
        ("A !B | C", "!B must be between two steps"),
    ],
)
def test_an_invalid_pattern_reports_the_place(steps: str, said: str) -> None:
    with pytest.raises(PatternError, match=said):
        parse_steps(steps)


def test_a_pattern_that_is_too_long_is_refused() -> None:
    with pytest.raises(PatternError, match="longer than"):
        build_automaton(parse_steps("(A{20}){30}"), {"A": 1})
