"""Whether two values are equal, in which columns they differ, and what a tolerance permits."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kappa_crds.comparison import ColumnTolerance, Tolerance
from kappa_pipelines.compare.values import Rule, find_changes, write_canonical

_NONE = Rule(Tolerance())
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def _columns(old: str, new: str, **tolerance: Any) -> list[str] | None:
    found = find_changes(old.encode(), new.encode(), Rule(Tolerance(**tolerance)))
    return None if found is None else [change.column for change in found]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('{"a":1,"b":2}', '{ "b": 2, "a": 1 }'),
        ('{"a":1.0}', '{"a":1}'),
        ('{"a":1e2}', '{"a":100}'),
        ('{"a":null}', "{}"),
        ('{"a":"\\u00e4"}', '{"a":"ä"}'),
        ('{"a":{"b":null,"c":1}}', '{"a":{"c":1}}'),
        ("5", "5.0"),
        ('{"a":-0.0}', '{"a":0}'),
    ],
)
def test_values_that_differ_in_notation_are_equal(old: str, new: str) -> None:
    assert _columns(old, new) == []
    assert write_canonical(old.encode(), _NONE) == write_canonical(new.encode(), _NONE)


@pytest.mark.parametrize(
    ("old", "new", "columns"),
    [
        ('{"a":1,"b":2}', '{"a":2,"b":2}', ["a"]),
        ('{"a":1}', '{"a":true}', ["a"]),
        ('{"a":1}', '{"a":"1"}', ["a"]),
        ('{"a":9007199254740993}', '{"a":9007199254740992.0}', ["a"]),
        ('{"a":0.1234567890123456789}', '{"a":0.1234567890123456788}', ["a"]),
        ('{"a":{"b":1,"c":2}}', '{"a":{"b":1,"c":3}}', ["a.c"]),
        ('{"a":[1,2]}', '{"a":[2,1]}', ["a"]),
        ('{"a":{"b":1}}', "{}", ["a"]),
        ("5", "6", ["value"]),
        ('{"a":1}', '{"a":{"#":"1"}}', ["a"]),
        ('{"a":1e400}', '{"a":2e400}', ["a"]),
        ("text", "other", None),
        ('{"a":1}', "text", None),
        ("[" * 100_000, "{}", None),
        ('{"a":' + "9" * 5000 + "}", "{}", None),
    ],
)
def test_the_columns_that_differ_are_named(old: str, new: str, columns: list[str] | None) -> None:
    assert _columns(old, new) == columns
    assert write_canonical(old.encode(), _NONE) != write_canonical(new.encode(), _NONE)


def test_a_limit_applies_to_numbers_and_to_those_in_lists() -> None:
    old, new = '{"a":100,"b":[1,2],"c":1}', '{"a":100.5,"b":[1,2.4],"c":3}'
    assert _columns(old, new, absolute=0.5) == ["c"]
    assert _columns(old, new, relative=0.01) == ["b", "c"]
    assert _columns(old, new, absolute=0.5, columns=[ColumnTolerance(name="c", relative=0.7)]) == []
    assert _columns(old, new, absolute=0.5, columns=[ColumnTolerance(name="b")]) == ["b", "c"]
    assert _columns('{"a":{"c":1}}', '{"a":{"c":1.5}}', columns=[ColumnTolerance(name="a", absolute=1)]) == []


def test_ignored_columns_may_differ_with_all_that_is_in_them() -> None:
    old, new = '{"at":{"x":1},"a":1}', '{"at":[],"a":1,"b":{"at":2}}'
    assert _columns(old, new, ignored_columns=["at"]) == ["b"]
    rule = Rule(Tolerance(ignored_columns=("at",)))
    assert write_canonical(b'{"at":1,"a":1}', rule) == write_canonical(b'{"a":1.0}', rule)


def test_the_difference_is_of_the_new_minus_the_old_number() -> None:
    (change,) = find_changes(b'{"a":1.5}', b'{"a":1}', _NONE) or ()
    assert change.difference == -0.5
    (change,) = find_changes(b'{"a":null}', b'{"a":1}', _NONE) or ()
    assert change.difference is None
    assert change.old is None


@given(old=_JSON, new=_JSON)
def test_no_change_is_found_exactly_where_canonical_forms_are_equal(old: Any, new: Any) -> None:
    before, after = json.dumps(old).encode(), json.dumps(new, indent=1).encode()
    is_equal = find_changes(before, after, _NONE) == ()
    assert is_equal == (write_canonical(before, _NONE) == write_canonical(after, _NONE))


@given(value=_JSON)
def test_a_value_equals_itself_in_another_notation(value: Any) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False).encode(errors="surrogatepass")
    assert not find_changes(json.dumps(value).encode(), text, _NONE)


@given(old=st.decimals(-(10**6), 10**6), new=st.decimals(-(10**6), 10**6), limit=st.floats(0, 10**6))
def test_numbers_are_near_exactly_within_the_limit(old: Decimal, new: Decimal, limit: float) -> None:
    found = _columns(f'{{"a":{old}}}', f'{{"a":{new}}}', absolute=limit)
    assert (found == []) == (abs(Decimal(old) - Decimal(new)) <= Decimal(str(limit)))
