"""What both versions must compute of the whole log, by DuckDB over the flights themselves."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import duckdb
import pandas as pd

from demo.flights import Frame

_FLIGHTS = """
SELECT * FROM (
  SELECT *, strptime(time_hour, '%Y-%m-%dT%H:%M:%SZ') + to_minutes(minute) AS utc FROM every
) WHERE (origin, carrier, flight, strftime(utc, '%Y-%m-%dT%H:%M')) NOT IN (
  SELECT (origin, carrier, flight, scheduled) FROM left_out
)
"""
_LOCAL = """
SELECT origin, carrier, flight, strftime(utc, '%Y-%m-%dT%H:%M'), strftime({local}, '%Y-%m-%d %H:%M') FROM flights
"""
_HOURS = """
SELECT origin, strftime({local}, '%Y-%m-%d %H:%M'), count(*), avg(dep_delay), max(dep_delay) FROM flights GROUP BY ALL
"""
_WRONG = "{time} - INTERVAL 5 HOURS"
_RIGHT = "timezone('America/New_York', timezone('UTC', {time}))"

Flight = tuple[str, str, int, str]
"""Airport, carrier, number and scheduled departure in UTC: no two flights have the same."""
Hour = tuple[str, str]
"""Airport and local hour."""
Row = tuple[int, float | None, float | None]
"""Departures, mean and maximum delay."""


@dataclass(frozen=True)
class Expected:
    """The rows of both outputs by one version: local times by flight, and figures by hour."""

    local: dict[Flight, str]
    hours: dict[Hour, Row]


def compute_expected(frame: Frame, without: set[Flight], *, right: bool) -> Expected:
    """Return what a version must compute of the flights, without some of them."""
    formula = _RIGHT if right else _WRONG
    left_out = pd.DataFrame(sorted(without), columns=["origin", "carrier", "flight", "scheduled"])
    with duckdb.connect() as connection:
        connection.register("every", frame)
        connection.register("left_out", left_out.astype({"flight": "int64"}))
        connection.execute(f"CREATE TEMP TABLE flights AS {_FLIGHTS}")
        flights = connection.execute(_LOCAL.format(local=formula.format(time="utc"))).fetchall()
        hour = formula.format(time="date_trunc('hour', utc)")
        hours = connection.execute(_HOURS.format(local=hour)).fetchall()
    local = {(origin, carrier, flight, utc): local for origin, carrier, flight, utc, local in flights}
    if len(local) != len(flights):
        raise AssertionError("flights are not unique")
    return Expected(local, {(origin, hour): tuple(row) for origin, hour, *row in hours})


def read_flight(row: dict[str, Any]) -> tuple[Flight, str]:
    """Return the flight of a row of the stream, and its local time."""
    return read_scheduled(row), row["local"]


def read_scheduled(row: dict[str, Any]) -> Flight:
    """Return the flight of a row of the stream, or of a record of the log."""
    return row["origin"], row["carrier"], row["flight"], row["scheduled"][:16]


def read_hour(row: dict[str, Any]) -> tuple[Hour, Row]:
    """Return the key of a row of the table, and its figures."""
    return (row["origin"], row["hour"]), (row["departures"], row["mean_delay"], row["max_delay"])


def is_same(one: Row | None, other: Row | None) -> bool:
    """Whether two rows are equal; means to a billionth, because both engines divide."""
    if one is None or other is None:
        return one is other
    if one[1] is None or other[1] is None:
        return one == other
    return (one[0], one[2]) == (other[0], other[2]) and abs(one[1] - other[1]) <= 1e-9 * max(
        1.0, abs(other[1])
    )


def count_differences(expected: dict[Hour, Row], found: dict[Hour, Row]) -> int:
    """Return the keys of a table that differ."""
    return sum(not is_same(expected.get(key), found.get(key)) for key in expected.keys() | found.keys())


def count_missing(expected: dict[Flight, str], found: Counter[Flight]) -> tuple[int, int]:
    """Return the flights that are missing, and those that are there more than once."""
    return sum(flight not in found for flight in expected), sum(count > 1 for count in found.values())
