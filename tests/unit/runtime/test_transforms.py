"""What operators mean, as plain functions, against DuckDB's words for the same."""

from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kappa_pipelines.transforms.inputs import quote, quote_interval
from reference.joins import join_as_of
from reference.windows import slide

START = datetime(2026, 1, 1, tzinfo=UTC)
moments = st.integers(0, 40).map(lambda minutes: START + timedelta(minutes=minutes))
keys = st.sampled_from(["a", "b", None])
events = st.lists(st.tuples(keys, moments, st.integers(0, 9)), min_size=1, max_size=25)
LENGTH = timedelta(minutes=10)


def ask(sql: str, **tables: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows of a query over tables of key, time and value."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name, rows in tables.items():
        connection.execute(f"CREATE TABLE {name} (k VARCHAR, t TIMESTAMPTZ, v BIGINT)")
        if rows:
            connection.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows)  # noqa: S608 - names of our own
    return [tuple(map(_plain, row)) for row in connection.execute(sql).fetchall()]


def _plain(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


@settings(max_examples=60, deadline=None)
@given(rows=events)
def test_a_sliding_window_is_a_range_in_sql(rows: list[tuple[Any, ...]]) -> None:
    found = slide(
        rows, lambda e: e[0], lambda e: e[1], LENGTH, lambda window: (len(window), sum(e[2] for e in window))
    )
    sql = (
        "SELECT k, t, v, count(*) OVER w, sum(v) OVER w FROM e WINDOW w AS (PARTITION BY k ORDER BY t"
        " RANGE BETWEEN INTERVAL '10 minutes' PRECEDING AND CURRENT ROW)"
    )
    assert sorted(((*event, *value) for event, value in found), key=repr) == sorted(
        ask(sql, e=rows), key=repr
    )


@settings(max_examples=60, deadline=None)
@given(rows=events, versions=st.lists(st.tuples(keys, moments, st.integers(0, 9)), unique_by=lambda v: v[:2]))
def test_an_as_of_join_is_that_of_sql(rows: list[tuple[Any, ...]], versions: list[tuple[Any, ...]]) -> None:
    found = join_as_of(
        rows,
        versions,
        key=lambda e: e[0],
        time=lambda e: e[1],
        version_key=lambda v: v[0],
        since=lambda v: v[1],
        columns=lambda v: v[2],
    )
    sql = "SELECT e.k, e.t, e.v, x.v FROM e ASOF LEFT JOIN x ON e.k = x.k AND e.t >= x.t"
    mine = [(*event, version[2] if version else None) for event, version in found]
    assert sorted(mine, key=repr) == sorted(ask(sql, e=rows, x=versions), key=repr)


def test_a_version_that_is_too_old_is_none_and_of_equal_times_the_greater_wins() -> None:
    event = ("a", START + timedelta(minutes=30), 0)
    versions = [("a", START, 1), ("a", START, 2)]

    def join(minutes: int) -> Any:
        return join_as_of(
            [event],
            versions,
            key=lambda e: e[0],
            time=lambda e: e[1],
            version_key=lambda v: v[0],
            since=lambda v: v[1],
            columns=lambda v: v[2],
            max_age=timedelta(minutes=minutes),
        )[0][1]

    assert join(30) == ("a", START, 2)
    assert join(29) is None


@pytest.mark.parametrize(
    ("duration", "interval"),
    [
        ("90s", "INTERVAL '0 00:01:30.000' DAY TO SECOND"),
        ("250ms", "INTERVAL '0 00:00:00.250' DAY TO SECOND"),
        ("1d2h", "INTERVAL '1 02:00:00.000' DAY TO SECOND"),
    ],
)
def test_a_duration_is_an_interval_in_sql(duration: str, interval: str) -> None:
    assert quote_interval(duration) == interval


def test_a_column_may_have_any_name() -> None:
    assert quote("a`b c") == "`a``b c`"
