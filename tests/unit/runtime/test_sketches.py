"""Filters and sketches: what they promise, and how calls of them are found in SQL."""

import hashlib
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kappa_crds.view import View
from kappa_pipelines.errors import SpecError
from kappa_pipelines.transforms.sketches import bloom, frequency
from kappa_pipelines.transforms.sketches.calls import Call, replace_calls
from kappa_pipelines.transforms.sketches.functions import describe_sketches, expand_calls
from reference import bloom as bloom_reference
from reference import frequency as frequency_reference
from reference.bloom import Hash

parts = st.lists(st.lists(st.one_of(st.none(), st.text(max_size=2)), max_size=20), min_size=1, max_size=4)
salts = st.integers(0, 1000)


def digest_with(salt: int) -> Hash:
    """A hash; with another salt it is another one."""

    def digest(value: str, number: int) -> int:
        found = hashlib.blake2b(f"{number} {value}".encode(), key=str(salt).encode(), digest_size=8)
        return int.from_bytes(found.digest())

    return digest


@settings(max_examples=40, deadline=None)
@given(parts=parts, slices=st.integers(1, 3), salt=salts)
def test_merged_filters_are_the_filter_of_all_values_and_forget_none(
    parts: list[list[str | None]], slices: int, salt: int
) -> None:
    digest = digest_with(salt)
    values = [value for part in parts for value in part]
    merged = bloom_reference.merge([bloom_reference.build(part, slices, digest) for part in parts])
    assert merged == bloom_reference.build(values, slices, digest)
    assert all(bloom_reference.might_contain(merged, value, digest) for value in values if value is not None)


@settings(max_examples=8, deadline=None)
@given(size=st.sampled_from([(500, 0.01), (6000, 0.02), (12000, 0.1)]), salt=salts)
def test_the_false_positive_rate_of_a_filter_is_at_most_as_requested(
    size: tuple[int, float], salt: int
) -> None:
    items, share = size
    digest = digest_with(salt)
    kept = bloom_reference.build(map(str, range(items)), bloom.count_slices(items, share), digest)
    wrong = sum(bloom_reference.might_contain(kept, f"other {number}", digest) for number in range(2000))
    assert wrong <= 2000 * share + 4 * (2000 * share) ** 0.5  # a draw may be that unlucky, hardly more


@pytest.mark.parametrize(
    ("items", "share", "slices"), [(1, 0.5, 1), (1000, 0.01, 2), (20_000, 0.01, 6), (22_000, 0.001, 10)]
)
def test_a_filter_has_as_many_slices_as_its_numbers_need(items: int, share: float, slices: int) -> None:
    assert bloom.count_slices(items, share) == slices


@settings(max_examples=40, deadline=None)
@given(parts=parts, size=st.tuples(st.integers(1, 9), st.integers(1, 3)), salt=salts)
def test_merged_sketches_are_the_sketch_of_all_values_and_never_estimate_too_low(
    parts: list[list[str | None]], size: tuple[int, int], salt: int
) -> None:
    digest = digest_with(salt)
    values = [value for part in parts for value in part]
    merged = frequency_reference.merge([frequency_reference.build(part, *size, digest) for part in parts])
    assert merged == frequency_reference.build(values, *size, digest)
    truth = Counter(value for value in values if value is not None)
    assert all(frequency_reference.estimate(merged, value, digest) >= count for value, count in truth.items())


@settings(max_examples=8, deadline=None)
@given(error=st.sampled_from([0.005, 0.05]), confidence=st.sampled_from([0.5, 0.9]), salt=salts)
def test_the_error_of_a_sketch_seldom_exceeds_the_requested_bound(
    error: float, confidence: float, salt: int
) -> None:
    digest = digest_with(salt)
    truth = {str(number): 1 + 3000 // (number + 1) for number in range(600)}  # a few come often, most seldom
    values = [value for value, count in truth.items() for _ in range(count)]
    kept = frequency_reference.build(values, *frequency.find_size(error, confidence), digest)
    excess = [frequency_reference.estimate(kept, value, digest) - count for value, count in truth.items()]
    assert sum(each > error * len(values) for each in excess) <= (1 - confidence) * len(truth)


def test_the_size_of_a_sketch_is_that_of_its_inventors() -> None:
    assert frequency.find_size(0.01, 0.99) == (272, 5)


@pytest.mark.parametrize(
    ("sql", "written"),
    [
        ("SELECT f(a, 'x)', g(1, 2)) AS n", "SELECT <f|a|'x)'|g(1, 2)> AS n"),
        ("f(f(a), [1, 2])", "<f|<f|a>|[1, 2]>"),
        ("F (a -- f(b)\n , b)\nc", "<f|a|b>\n\nc"),
        (
            "'f(a)' \"f(a)\" `f(a)` r'\\' /* f(a) */ f() -- f(a)",
            "'f(a)' \"f(a)\" `f(a)` r'\\' /* f(a) */ <f> -- f(a)",
        ),
        ("ff(a) f f(a", "ff(a) f f(a"),
    ],
)
def test_calls_are_found_where_sql_has_them_and_nowhere_else(sql: str, written: str) -> None:
    def write(call: Call) -> str:
        return f"<{'|'.join([call.function, *call.arguments])}>"

    assert replace_calls(sql, {"f"}, write) == written


def sql_view(sql: str) -> View:
    return View.model_validate({"name": "agg", "sql": sql})


def window_view(sql: str) -> View:
    window: dict[str, Any] = {"from": "a", "tumbling": "1h", "aggregates": {"seen": sql}}
    return View.model_validate({"name": "agg", "window": window})


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (
            sql_view("SELECT\n  bloom_filter(x, 10) FROM a"),
            "line 2, column 3: bloom_filter has 2 arguments; it is bloom_f",
        ),
        (sql_view("SELECT bloom_filter(x, n, 0.1) FROM a"), "'n' must be a whole number"),
        (sql_view("SELECT bloom_filter(x, 1000000, 0.01) FROM a"), "accept more false positives"),
        (sql_view("SELECT bloom_filter(x, 10, 1) FROM a"), "between 0 and 1"),
        (
            window_view("frequency_sketch(x, 0.01, 99)"),
            "view 'agg', window.aggregates.seen: frequency_sketch(value, error, con",
        ),
        (window_view("frequency_sketch(x, 0, 0.9)"), "the error must be at least 0.0001"),
        (
            window_view("bloom_filter(x, 10, 0.1) FILTER (WHERE y)"),
            "takes no FILTER",
        ),
    ],
)
def test_an_invalid_call_is_reported_with_its_place(view: View, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        expand_calls(view)
    assert words in caught.value.message


def test_the_state_of_sketches_is_explained() -> None:
    view = sql_view(
        "SELECT frequency_estimate(frequency_sketch(x, 0.01, 0.99), 'a'), bloom_filter(y, 1000, 0.01) FROM a"
    )
    assert describe_sketches(view) == [
        "frequency_sketch(x, 0.01, 0.99) is a frequency sketch of 5 × 272 counters for each group, up to 22 KiB",
        "bloom_filter(y, 1000, 0.01) is a Bloom filter of 8 KiB for each group",
    ]
    assert expand_calls(sql_view("SELECT 1")) == sql_view("SELECT 1")
