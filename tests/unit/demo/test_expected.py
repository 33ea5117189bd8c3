"""What DuckDB makes of flights."""

from datetime import UTC, datetime

import pandas as pd
import pytest

from demo.expected import Key, Row, compute_expected
from demo.flights import read_flights


def flights(*rows: tuple[str, str, int, float | None]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["origin", "time_hour", "minute", "dep_delay"])


def test_one_row_an_airport_and_hour() -> None:
    found = compute_expected(
        flights(
            ("JFK", "2013-01-01T10:00:00Z", 5, 4.0),
            ("JFK", "2013-01-01T10:00:00Z", 59, -2.0),
            ("JFK", "2013-01-01T11:00:00Z", 0, 30.0),
            ("LGA", "2013-01-01T10:00:00Z", 0, 1.0),
        )
    )
    ten, eleven = datetime(2013, 1, 1, 10, tzinfo=UTC), datetime(2013, 1, 1, 11, tzinfo=UTC)
    assert found == {
        Key("JFK", ten): Row(2, 1.0, 4.0),
        Key("JFK", eleven): Row(1, 30.0, 30.0),
        Key("LGA", ten): Row(1, 1.0, 1.0),
    }


def test_a_cancelled_flight_counts_but_has_no_delay() -> None:
    rows = compute_expected(
        flights(
            ("JFK", "2013-01-01T10:00:00Z", 0, None),
            ("JFK", "2013-01-01T10:00:00Z", 1, 6.0),
            ("LGA", "2013-01-01T10:00:00Z", 1, None),
        )
    )
    assert sorted(rows.values(), key=lambda row: row.departures) == [Row(1, None, None), Row(2, 6.0, 6.0)]


def test_the_year_has_all_flights() -> None:
    rows = compute_expected(read_flights())
    assert len(rows) == 19_486
    assert sum(row.departures for row in rows.values()) == 336_776
    assert max(row.max_delay or 0.0 for row in rows.values()) == 1301.0


@pytest.mark.parametrize(("months", "count"), [(1, 27_004), (2, 51_955)])
def test_a_slice_has_the_first_months(months: int, count: int) -> None:
    assert len(read_flights(months)) == count
