"""Every kind of window and join against DuckDB, over shuffled input, in batches, with a crash in the middle."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from laptop.equivalence import build_story, build_table, build_versions, check

START = datetime(2026, 1, 1, tzinfo=UTC)
CLICKS = build_table("clicks", "k STRING, v BIGINT, ts TIMESTAMP", "ts", "10m")
PRICES = build_table("prices", "item STRING, price BIGINT, since TIMESTAMP", "since", "20m")
ITEMS = build_versions("items", "id STRING, name STRING, version BIGINT, gone BOOLEAN")
ORDERS = build_versions("orders", "id BIGINT, item STRING, version BIGINT, gone BOOLEAN")
FOLLOWS = build_versions("follows", "id BIGINT, author STRING, version BIGINT, gone BOOLEAN")
POSTS = build_versions("posts", "id BIGINT, author STRING, text STRING, version BIGINT, gone BOOLEAN")
VIEWS = build_table("views", "k STRING, page STRING, seen TIMESTAMP", "seen", "15m")
LAST = "QUALIFY version = max(version) OVER (PARTITION BY id) AND NOT gone"
NEWS = build_table("news", "title STRING, n BIGINT, ts TIMESTAMP", "ts", "10m")
SEARCHES = build_table(
    "searches", "id BIGINT, owner STRING, query STRING, gone BOOLEAN, since TIMESTAMP", "since", "20m"
)
FOUND = {
    "red": "list_contains(words, 'red')",
    "red OR blue": "list_has_any(words, ['red', 'blue'])",
    '"red car" n:>4': "contains(title, 'RED car') AND n > 4",
    "NOT blue": "NOT list_contains(words, 'blue')",
    "n:3 bl*": "n = 3 AND len(list_filter(words, lambda word: starts_with(word, 'bl'))) > 0",
    "red AND (": "false",
}
"""Queries, and the same in DuckDB."""


STORIES = {
    "tumbling windows": build_story(
        [CLICKS],
        {
            "sql": "SELECT k, window.start AS begins, count(*) AS n, sum(v) AS total FROM clicks"
            " GROUP BY k, window(ts, '15 minutes')"
        },
        "SELECT k, time_bucket(INTERVAL '15 minutes', ts) AS begins, count(*) AS n, sum(v)::BIGINT AS total"
        " FROM clicks GROUP BY ALL",
    ),
    "tumbling windows, updated": build_story(
        [CLICKS],
        {
            "sql": "SELECT k, window.start AS begins, max(v) AS top FROM clicks GROUP BY k, window(ts, '1 hour')"
        },
        "SELECT k, time_bucket(INTERVAL '1 hour', ts) AS begins, max(v) AS top FROM clicks GROUP BY ALL",
        mode="update",
        key=("k", "begins"),
    ),
    "sessions, as an operator": build_story(
        [CLICKS],
        {"window": {"from": "clicks", "key": ["k"], "session": "7m", "aggregates": {"n": "count(*)"}}},
        "SELECT k, min(ts) AS window_start, max(ts) + INTERVAL '7 minutes' AS window_end, count(*) AS n FROM ("
        " SELECT *, sum(fresh) OVER (PARTITION BY k ORDER BY ts RANGE UNBOUNDED PRECEDING) AS session FROM ("
        "  SELECT *, CASE WHEN ts - lag(ts) OVER (PARTITION BY k ORDER BY ts) <= INTERVAL '7 minutes' THEN 0 ELSE 1"
        "  END AS fresh FROM clicks)) GROUP BY k, session",
    ),
    "hopping windows, as an operator": build_story(
        [CLICKS],
        {
            "window": {
                "from": "clicks",
                "hopping": {"length": "30m", "slide": "10m"},
                "aggregates": {"n": "count(*)"},
            }
        },
        "SELECT window_start, window_start + INTERVAL '30 minutes' AS window_end, count(*) AS n FROM clicks,"
        " LATERAL (SELECT unnest([0, 10, 20]) AS back),"
        " LATERAL (SELECT time_bucket(INTERVAL '10 minutes', ts) - back * INTERVAL '1 minute' AS window_start)"
        " GROUP BY window_start",
    ),
    "hopping windows": build_story(
        [CLICKS],
        {
            "sql": "SELECT window.start AS begins, count(*) AS n FROM clicks"
            " GROUP BY window(ts, '30 minutes', '10 minutes')"
        },
        "SELECT begins, count(*) AS n FROM clicks, LATERAL (SELECT unnest([0, 10, 20]) AS back),"
        " LATERAL (SELECT time_bucket(INTERVAL '10 minutes', ts) - back * INTERVAL '1 minute' AS begins)"
        " GROUP BY begins",
    ),
    "session windows": build_story(
        [CLICKS],
        {
            "sql": "SELECT k, session_window.start AS begins, session_window.end AS ends, count(*) AS n FROM clicks"
            " GROUP BY k, session_window(ts, '7 minutes')"
        },
        "SELECT k, min(ts) AS begins, max(ts) + INTERVAL '7 minutes' AS ends, count(*) AS n FROM ("
        " SELECT *, sum(fresh) OVER (PARTITION BY k ORDER BY ts RANGE UNBOUNDED PRECEDING) AS session FROM ("
        "  SELECT *, CASE WHEN ts - lag(ts) OVER (PARTITION BY k ORDER BY ts) <= INTERVAL '7 minutes' THEN 0 ELSE 1"
        "  END AS fresh FROM clicks)) GROUP BY k, session",
    ),
    "sliding windows": build_story(
        [CLICKS],
        {
            "sliding": {
                "from": "clicks",
                "key": ["k"],
                "length": "12m",
                "aggregates": {"n": "count(*)", "mean": "avg(v)", "top": "max(v)"},
            },
        },
        "SELECT k, v, ts, count(*) OVER w AS n, avg(v) OVER w AS mean, max(v) OVER w AS top FROM clicks"
        " WINDOW w AS (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '12 minutes' PRECEDING AND CURRENT ROW)",
    ),
    "sliding windows over all events": build_story(
        [CLICKS],
        {"sliding": {"from": "clicks", "length": "2m", "aggregates": {"n": "count(*)", "most": "max(v)"}}},
        "SELECT k, v, ts, count(*) OVER w AS n, max(v) OVER w AS most FROM clicks"
        " WINDOW w AS (ORDER BY ts RANGE BETWEEN INTERVAL '2 minutes' PRECEDING AND CURRENT ROW)",
    ),
    "a join within a window, with what found no partner": build_story(
        [VIEWS, CLICKS],
        {
            "sql": "SELECT a.k, page, seen, v, ts FROM views a LEFT JOIN clicks c"
            " ON a.k = c.k AND ts BETWEEN seen AND seen + INTERVAL 5 MINUTES"
        },
        "SELECT a.k, page, seen, v, ts FROM views a LEFT JOIN clicks c"
        " ON a.k = c.k AND ts BETWEEN seen AND seen + INTERVAL '5 minutes'",
    ),
    "the version that was valid": build_story(
        [CLICKS, PRICES],
        {
            "asOf": {
                "from": "clicks",
                "table": "prices",
                "key": {"k": "item"},
                "columns": {"cost": "price", "valid_since": "since"},
            },
            "allowUnboundedState": True,
        },
        "SELECT k, v, ts, price AS cost, since AS valid_since FROM clicks"
        " ASOF LEFT JOIN prices ON k = item AND ts >= since",
    ),
    "the version that was valid, not older than half an hour, or nothing": build_story(
        [CLICKS, PRICES],
        {
            "asOf": {
                "from": "clicks",
                "table": "prices",
                "key": {"k": "item"},
                "columns": {"cost": "price"},
                "maxAge": "30m",
                "unmatched": "drop",
            },
        },
        "SELECT k, v, ts, price AS cost FROM clicks ASOF JOIN prices ON k = item AND ts >= since"
        " WHERE ts - since <= INTERVAL '30 minutes'",
    ),
    "two tables that change, joined by a foreign key": build_story(
        [ORDERS, ITEMS],
        {
            "tableJoin": {
                "left": {"from": "orders", "order": "version", "deleted": "gone"},
                "key": ["id"],
                "right": {"from": "items", "order": "version", "deleted": "gone"},
                "foreignKey": {"item": "id"},
                "columns": {"name": "name"},
            },
        },
        f"WITH o AS (FROM orders {LAST}), i AS (FROM items {LAST})"  # noqa: S608
        " SELECT o.id, item, o.version, i.name FROM o LEFT JOIN i ON item = i.id",
        in_order=True,
        key=("id",),
        tombstones="deleted",
    ),
    "two tables that change, joined by equal values": build_story(
        [FOLLOWS, POSTS],
        {
            "tableJoin": {
                "left": {"from": "follows", "order": "version", "deleted": "gone"},
                "key": ["id"],
                "right": {"from": "posts", "order": "version", "deleted": "gone"},
                "rightKey": ["id"],
                "foreignKey": {"author": "author"},
                "columns": {"post": "id", "text": "text"},
                "unmatched": "drop",
            },
        },
        f"WITH l AS (FROM follows {LAST}), r AS (FROM posts {LAST})"  # noqa: S608
        " SELECT l.id, author, l.version, r.id AS post, r.text FROM l JOIN r USING (author)",
        in_order=True,
        key=("id", "post"),
        tombstones="deleted",
    ),
    "stored queries, at times at which watermarks stand": build_story(
        [NEWS, SEARCHES],
        {
            "search": {
                "from": "news",
                "text": ["title"],
                "fields": ["n"],
                "queries": {"from": "searches", "id": "id", "query": "query", "deleted": "gone"},
                "columns": {"search": "id", "owner": "owner"},
                "error": "wrong",
            }
        },
        "WITH versions AS (SELECT *, lead(since) OVER (PARTITION BY id ORDER BY since) AS until FROM searches),"  # noqa: S608 - texts of our own
        " pairs AS (SELECT *, string_split(lower(title), ' ') AS words FROM news JOIN versions"
        " ON ts >= since AND (until IS NULL OR ts < until) WHERE id IS NOT NULL AND NOT gone)"
        " SELECT title, n, ts, id AS search, owner, NULL AS wrong FROM pairs WHERE CASE query"
        + "".join(f" WHEN '{query}' THEN {condition}" for query, condition in FOUND.items())
        + " END UNION ALL SELECT NULL, NULL, since, id, owner, 'Syntax error: unexpected end of expression"
        " (maybe due to unmatched parenthesis) at the end' FROM searches"
        " WHERE query = 'red AND (' AND NOT gone AND id IS NOT NULL",
    ),
}


def build_rows(seed: int, count: int = 240) -> dict[str, list[dict[str, Any]]]:
    """Six hours; keys that are NULL or have no partner, events at the same time, and some that are equal in all."""
    rng = random.Random(seed)
    clicks = [{"k": draw_key(rng), "v": rng.randrange(9), "ts": draw_time(rng)} for _ in range(count)]
    clicks += clicks[:5]
    # Versions of different times: DuckDB has no rule for equal ones.
    times = [START + timedelta(seconds=t) for t in rng.sample(range(0, 6 * 3600, 60), 60)]
    prices = [
        {"item": rng.choice(["a", "b", None]), "price": rng.randrange(99), "since": time} for time in times
    ]
    views = [
        {"k": draw_key(rng), "page": rng.choice("xyz"), "seen": draw_time(rng)} for _ in range(count // 2)
    ]
    tables = build_tables(rng, count)
    news = [
        {
            "title": " ".join(rng.choices(["RED", "car", "Blue"], k=3)),
            "n": rng.choice([None, 3, 5]),
            "ts": draw_time(rng),
        }
        for _ in range(count)
    ]
    searches = [
        {
            "id": rng.choice([1, 2, 3, None]),
            "owner": rng.choice("xy"),
            "query": rng.choice(list(FOUND)),
            "gone": rng.random() < 0.2,
            "since": time,
        }
        for time in times
    ]
    return {
        "clicks": clicks, "prices": prices, "views": views, **tables, "news": news, "searches": searches,
    }  # fmt: skip


def build_tables(rng: random.Random, count: int) -> dict[str, list[dict[str, Any]]]:
    """Return versions of rows of tables, some of which are deletions."""
    orders = [
        {"id": rng.randrange(20), "item": rng.choice("pqrs"), "version": version, "gone": rng.random() < 0.2}
        for version in range(count)
    ]
    items = [
        {"id": rng.choice("pqrs"), "name": rng.choice("xyz"), "version": version, "gone": rng.random() < 0.3}
        for version in range(30)
    ]
    follows = [
        {
            "id": rng.randrange(8),
            "author": rng.choice(["a", "b", "c", None]),
            "version": n,
            "gone": rng.random() < 0.2,
        }
        for n in range(60)
    ]
    posts = [
        {
            "id": rng.randrange(20), "author": rng.choice(["a", "b", "c", None]), "text": rng.choice("xyz"), "version": n,
            "gone": rng.random() < 0.2,
        }
        for n in range(120)
    ]  # fmt: skip
    return {"orders": orders, "items": items, "follows": follows, "posts": posts}


def draw_time(rng: random.Random) -> datetime:
    return START + timedelta(seconds=rng.randrange(0, 6 * 3600, 20))


def draw_key(rng: random.Random) -> str | None:
    return rng.choice(["a", "b", "c", "d", None])


SHORT = (
    "sliding windows",
    "the version that was valid, not older than half an hour, or nothing",
)
"""What no example that `make test` runs does; the other stories, and other sizes, are told by `make chaos` alone."""
CASES = [
    pytest.param(name, batches, marks=() if name in SHORT and batches == 2 else pytest.mark.chaos)
    for name in STORIES
    for batches in (1, 2, 5, 17)
]


@pytest.mark.parametrize(("name", "batches"), CASES)
def test_a_stream_equals_the_batch(name: str, batches: int, spark: SparkSession, tmp_path: Path) -> None:
    check(STORIES[name], build_rows(seed=batches), tmp_path, batches=batches, seed=batches + 1)
