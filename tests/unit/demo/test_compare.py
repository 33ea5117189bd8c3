"""The comparison: it must find whatever is wrong, or it proves nothing."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from demo.compare import (
    Letter,
    compare_letters,
    compare_rows,
    is_same_mean,
    parse_row,
)
from demo.errors import DemoError
from demo.expected import Key, Row
from demo.loader import Malformed
from demo.records import Fault

KEY = Key("JFK", datetime(2013, 1, 1, 10, tzinfo=UTC))
OTHER = Key("LGA", datetime(2013, 1, 1, 10, tzinfo=UTC))
ROW = Row(18, 3.5, 47.0)
EXPECTED = {KEY: ROW, OTHER: Row(1, None, None)}


def whats(found: dict[Key, Row]) -> list[tuple[str, str]]:
    return [(difference.where[:3], difference.what) for difference in compare_rows(EXPECTED, found)]


def test_equal_results_have_no_difference() -> None:
    assert compare_rows(EXPECTED, dict(EXPECTED)) == []


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (replace(ROW, departures=19), "departures"),
        (replace(ROW, max_delay=46.0), "max_delay"),
        (replace(ROW, max_delay=None), "max_delay"),
        (replace(ROW, mean_delay=3.5000001), "mean_delay"),
        (replace(ROW, mean_delay=None), "mean_delay"),
    ],
)
def test_a_wrong_value_is_reported(wrong: Row, what: str) -> None:
    assert whats({**EXPECTED, KEY: wrong}) == [("JFK", what)]


def test_every_wrong_value_of_a_row_is_reported() -> None:
    assert whats({**EXPECTED, KEY: Row(1, 2.0, 3.0)}) == [
        ("JFK", "departures"),
        ("JFK", "max_delay"),
        ("JFK", "mean_delay"),
    ]


def test_a_delay_where_all_flights_were_cancelled_is_reported() -> None:
    assert whats({**EXPECTED, OTHER: Row(1, 0.0, None)}) == [("LGA", "mean_delay")]


def test_a_missing_key_is_reported() -> None:
    assert whats({KEY: ROW}) == [("LGA", "missing")]


def test_an_extra_key_is_reported() -> None:
    extra = Key("EWR", KEY.hour)
    assert whats({**EXPECTED, extra: ROW}) == [("EWR", "not expected")]


def test_an_empty_result_differs_in_every_key() -> None:
    assert len(compare_rows(EXPECTED, {})) == 2


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1.0, 1.0 + 1e-10, True),
        (1e6, 1e6 + 1e-4, True),
        (1.0, 1.0 + 1e-8, False),
        (0.0, 0.0, True),
        (0.0, 1e-12, False),
        (None, None, True),
        (None, 0.0, False),
        (float("nan"), float("nan"), False),
    ],
)
def test_means_are_equal_to_a_billionth(one: float | None, other: float | None, same: bool) -> None:
    assert is_same_mean(one, other) is same


def record(**changes: Any) -> tuple[bytes, bytes]:
    key = {"origin": "JFK", "hour": "2013-01-01T10:00:00.000000Z"}
    value = {**key, "departures": 18, "mean_delay": 3.5, "max_delay": 47.0, **changes}
    return json.dumps(key).encode(), json.dumps(value).encode()


def test_a_record_of_the_result_is_read_as_spark_writes_it() -> None:
    assert parse_row(*record()) == (KEY, ROW)
    assert parse_row(*record(mean_delay=None, max_delay=None)) == (KEY, Row(18, None, None))


@pytest.mark.parametrize("bad", [(None, b"{}"), (b"JFK", b"{}"), (record()[0], None), (record()[0], b"{}")])
def test_a_record_of_another_form_is_refused(bad: tuple[bytes | None, bytes | None]) -> None:
    with pytest.raises(DemoError, match="unknown form"):
        parse_row(*bad)


def test_a_value_of_another_key_is_refused() -> None:
    with pytest.raises(DemoError, match="disagree"):
        parse_row(*record(origin="LGA"))


MALFORMED = {
    (0, 7): Malformed(b'{"scheduled":', Fault.TRUNCATED),
    (3, 1): Malformed(b'{"dep_delay":"twelve"}', Fault.WRONG_NUMBER),
    (2, 9): Malformed(None, Fault.NULL),
}
LETTERS = {
    "flights/0/7": Letter(b'{"scheduled":', "value is not a JSON object"),
    "flights/3/1": Letter(b'{"dep_delay":"twelve"}', "column dep_delay: twelve is not a DOUBLE"),
    "flights/2/9": Letter(b"", "value is null"),
}


def letter_whats(letters: dict[str, Letter]) -> list[str]:
    return [difference.what for difference in compare_letters("flights", MALFORMED, letters)]


def test_all_dead_letters_in_place_have_no_difference() -> None:
    assert letter_whats(LETTERS) == []


@pytest.mark.parametrize("name", LETTERS)
def test_a_missing_dead_letter_is_reported(name: str) -> None:
    assert letter_whats({key: letter for key, letter in LETTERS.items() if key != name}) == ["missing"]


def test_a_dead_letter_of_a_good_record_is_reported() -> None:
    assert letter_whats({**LETTERS, "flights/0/8": Letter(b"{}", "?")}) == ["not expected"]


def test_a_dead_letter_with_other_bytes_is_reported() -> None:
    assert letter_whats({**LETTERS, "flights/0/7": Letter(b"{", "value is not a JSON object")}) == ["value"]


def test_a_dead_letter_without_an_error_is_reported() -> None:
    assert letter_whats({**LETTERS, "flights/0/7": Letter(b'{"scheduled":', "")}) == ["error"]


def test_an_error_that_does_not_name_the_column_is_reported() -> None:
    vague = Letter(b'{"dep_delay":"twelve"}', "something is wrong")
    assert letter_whats({**LETTERS, "flights/3/1": vague}) == ["error"]
