"""Published examples of MATCH_RECOGNIZE through Spark, and what is said of patterns that are wrong."""

import itertools
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_pipelines.errors import SpecError
from kappa_pipelines.laptop.explanation import explain
from kappa_pipelines.laptop.records import Record
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.runs import LocalRun
from kappa_pipelines.laptop.session import start_spark
from laptop.equivalence import build_story, build_table

APRIL = datetime(2011, 4, 1, tzinfo=UTC)
TICKER = build_table("ticker", "symbol STRING, ts TIMESTAMP, price INT, note STRUCT<by: STRING>", "ts", "5d")
PRICES = [12, 17, 19, 21, 25, 12, 15, 20, 24, 25, 19, 15, 25, 25, 14, 12, 14, 24, 23, 22]
V_SHAPE = {
    "from": "ticker",
    "key": ["symbol"],
    "steps": "STRT DOWN+ UP+",
    "define": {"DOWN": "price < PREV(price)", "UP": "UP.price > LAST(price, 1)"},
    "measures": {
        "begin": "STRT.ts",
        "bottom": "LAST(DOWN.ts)",
        "lowest": "MIN(price)",
        "rise": "LAST(UP.price) - LAST(DOWN.price)",
        "ups": "COUNT(UP.*)",
        "mean": "AVG(DOWN.price + 0.5)",
        "total": "SUM(DOWN.price)",
        "before": "LAST(price, 1)",
        "by": "upper(FIRST(STRT.note.by))",
    },
    "within": "20d",
    "skip": {"to": "last", "step": "UP"},
}


def build_revision(pattern: dict[str, Any]) -> Revision:
    manifest = build_story([TICKER], {"pattern": {**V_SHAPE, **pattern}}, "").manifest
    return build_local_revision({**manifest, "metadata": {"namespace": "test", **manifest["metadata"]}})


def build_run(folder: Path, pattern: dict[str, Any]) -> LocalRun:
    revision = build_revision(pattern)
    return LocalRun(start_spark(revision), revision, folder)


@pytest.mark.chaos  # five seconds, for a rare value
def test_events_of_years_that_pandas_cannot_hold_match_or_are_counted_as_late(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = build_run(tmp_path, {"measures": {"begin": "STRT.ts"}})
    times = [f"2300-04-0{day}T00:00:00Z" for day in (1, 2, 3)]
    rows = [
        {"symbol": "ACME", "ts": at, "price": price} for at, price in zip(times, (12, 10, 14), strict=True)
    ]
    rows.append({"symbol": "ACME", "ts": "1600-01-01T00:00:00Z", "price": 1})
    run.feed({"ticker": [Record(json.dumps(row).encode()) for row in rows]})
    run.end()
    run.process()
    (match,) = [json.loads(output.value or "") for output in run.outputs("answer")]
    assert match["begin"].startswith("2300-04-01")
    assert match["match_time"].startswith("2300-04")
    assert run.late == 1


# True of all falling prices, and said in every way that a condition on earlier events knows.
FALLING = """
    price < PREV(price) AND (price) IS NOT NULL AND NOT (PREV(price, 1) + 1) IS NULL
    AND (price + 0) BETWEEN 1 AND LAST(STRT.price) AND symbol IN ('(', LAST(upper(STRT.symbol)))
    AND ts <= FIRST(STRT.ts) + INTERVAL 15 DAYS AND ts - FIRST(ts) < INTERVAL 15 DAYS
    AND price * 1.5 <= MAX(price) * 1.5 AND coalesce(LAST(price, 500), -1) = -1 AND abs(-COUNT(DOWN.*)) / 1 < 9.5
    AND (AVG(DOWN.price) > 1.5 OR LAST(STRT.note.by) = 'nobody') AND upper(note.by) = 'X'
"""


def test_the_v_shapes_of_the_standard(spark: SparkSession, tmp_path: Path) -> None:
    run = build_run(tmp_path, {"define": {"DOWN": FALLING, "UP": "UP.price > PREV(UP.price)"}})
    rows = [
        {
            "symbol": "ACME",
            "ts": (APRIL + timedelta(days=day)).isoformat(),
            "price": price,
            "note": {"by": "x"},
        }
        for day, price in enumerate(PRICES)
    ]
    for batch in ((1, 0, 4, 3, 2), (5, 6, 8, 7, 9, 10, 11), (14, 12, 13, 15, 16, 19, 18, 17)):
        run.feed({"ticker": [Record(json.dumps(rows[day]).encode()) for day in batch]})
    run.end()
    run.process()
    found = [json.loads(output.value or "") for output in run.outputs("answer")]
    days = [
        [datetime.fromisoformat(row[c]).day for c in ("begin", "bottom", "match_end", "match_time")]
        for row in found
    ]
    assert days == [[5, 6, 10, 11], [10, 12, 13, 14], [14, 16, 18, 19]]
    assert [(row["lowest"], row["rise"], row["ups"], row["total"], row["before"]) for row in found] == [
        (12, 13, 4, 12, 24),
        (15, 10, 1, 34, 15),
        (12, 12, 2, 26, 14),
    ]
    assert {(row["symbol"], row["by"]) for row in found} == {("ACME", "X")}
    assert [row["mean"] for row in found] == [12.5, 17.5, 13.5]


@pytest.mark.chaos
def test_matches_can_be_counted_in_windows(spark: SparkSession, tmp_path: Path) -> None:
    view = {"pattern": {"from": "ticker", "steps": "A B", "define": {"B": "price > A.price"}, "within": "1d"}}
    manifest = build_story([TICKER], view, "").manifest
    spec = manifest["spec"]
    daily = {"from": "answer", "tumbling": "1d", "aggregates": {"n": "count(*)", "first": "min(match_end)"}}
    spec["views"].append({"name": "daily", "window": daily})
    spec["sinks"] = [{"name": "daily", "from": "daily", "kafka": {"topic": "daily"}}]
    metadata = {"namespace": "test", **manifest["metadata"]}
    revision = build_local_revision({**manifest, "metadata": metadata})
    run = LocalRun(start_spark(revision), revision, tmp_path)
    # Matches end at 2, 6, 10, … hours; in the second half of each day they are none, for prices fall.
    hours = [(hour, 1 + hour % 4 // 2 if hour % 24 < 12 else 30 - hour % 24) for hour in range(1, 60)]
    rows = [{"ts": (APRIL + timedelta(hours=hour)).isoformat(), "price": price} for hour, price in hours]
    for part in (rows[20:40], rows[:20], rows[40:]):
        run.feed({"ticker": [Record(json.dumps(row).encode()) for row in part]})
    run.end()
    run.process()
    found = [json.loads(output.value or "") for output in run.outputs("daily")]
    ends = [APRIL + timedelta(hours=b[0]) for a, b in itertools.pairwise(hours) if b[1] > a[1]]
    days = {end.date(): [each for each in ends if each.date() == end.date()] for end in ends}
    assert {(row["window_start"][:10], row["n"], row["first"][:13]) for row in found} == {
        (str(day), len(own), min(own).isoformat()[:13]) for day, own in days.items()
    }
    assert len(found) == 3


def test_explain_shows_the_state_of_a_pattern(spark: SparkSession, tmp_path: Path) -> None:
    run = build_run(tmp_path, {})
    said = "\n".join(explain("story", spark, build_revision({}), run.compiled))
    assert "view answer ← ticker" in said
    assert (
        "keeps the events of unfinished matches by symbol until a match is found or 20d after its first event"
        in said
    )


# What is changed in a good pattern, the reason, and words that the message must have.
WRONG: dict[str, tuple[dict[str, Any], Reason, tuple[str, ...]]] = {
    "steps that cannot be read": (
        {"steps": "STRT DOWN+ )"},
        Reason.INVALID_SPEC,
        ("pattern.steps", "column 12"),
    ),
    "a condition for no step": ({"steps": "STRT UP"}, Reason.INVALID_SPEC, ("no step 'DOWN'", "STRT, UP")),
    "a skip to no step": (
        {"skip": {"to": "first", "step": "X"}},
        Reason.INVALID_SPEC,
        ("pattern.skip", "'X'"),
    ),
    "an unknown key": ({"key": ["k"]}, Reason.UNKNOWN_COLUMN, ("pattern.key", "'k'", "symbol")),
    "an unknown column": (
        {"define": {"DOWN": "cost < 5", "UP": "true"}},
        Reason.UNKNOWN_COLUMN,
        ("pattern.define.DOWN", "'cost'"),
    ),
    "an unknown column in a look": (
        {"define": {"DOWN": "price < PREV(cost)", "UP": "true"}},
        Reason.UNKNOWN_COLUMN,
        ("pattern.define.DOWN", "'cost'"),
    ),
    "an unknown step in a condition": (
        {"define": {"DOWN": "price < LAST(Q.price)", "UP": "true"}},
        Reason.UNKNOWN_COLUMN,
        ("pattern.define.DOWN", "Q"),
    ),
    "a condition that is a number": (
        {"define": {"DOWN": "PREV(price) + 1", "UP": "true"}},
        Reason.INVALID_SQL,
        ("pattern.define.DOWN", "INT"),
    ),
    "a condition that is a text": (
        {"define": {"UP": "symbol"}},
        Reason.INVALID_SQL,
        ("pattern.define.UP", "STRING"),
    ),
    "a condition that is no SQL": ({"define": {"UP": "price <"}}, Reason.INVALID_SQL, ("pattern.define.UP",)),
    "a function beside a look": (
        {"define": {"UP": "sqrt(LAST(price, 1)) > 2"}},
        Reason.INVALID_SQL,
        ("pattern.define.UP", "Sqrt", "inside of"),
    ),
    "an operand that cannot be compared": (
        {"define": {"UP": "note = LAST(note, 1)"}},
        Reason.INVALID_SQL,
        ("pattern.define", "STRUCT"),
    ),
    "a look at two steps": (
        {"measures": {"m": "SUM(UP.price - DOWN.price)"}},
        Reason.INVALID_SQL,
        ("measures.m", "one step", "DOWN, UP"),
    ),
    "a look in a look": (
        {"measures": {"m": "SUM(LAST(price))"}},
        Reason.INVALID_SQL,
        ("measures.m", "another one"),
    ),
    "the event before a match": (
        {"measures": {"m": "PREV(price)"}},
        Reason.INVALID_SQL,
        ("measures.m", "LAST(column, 1)"),
    ),
    "the event before another step": (
        {"define": {"UP": "price > PREV(DOWN.price)"}},
        Reason.INVALID_SQL,
        ("pattern.define.UP", "remove DOWN"),
    ),
    "a look past NULLs": (
        {"measures": {"m": "LAST(price IGNORE NULLS)"}},
        Reason.INVALID_SQL,
        ("pattern.measures.m", "IGNORE NULLS"),
    ),
    "the sum of texts": (
        {"measures": {"m": "SUM(symbol)"}},
        Reason.INVALID_SQL,
        ("measures.m", "needs a number"),
    ),
    "a measure that Spark refuses": (
        {"measures": {"m": "explode_it(LAST(price))"}},
        Reason.SQL_REFUSED,
        ("pattern.measures.m", "explode_it"),
    ),
    "a measure with the name of a column": (
        {"measures": {"Symbol": "1"}},
        Reason.INVALID_SPEC,
        ("another name",),
    ),
    "no limit in time": (
        {"within": None},
        Reason.UNBOUNDED_STATE,
        ("view 'answer'", "by symbol", "pattern.within"),
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_pattern_reports_place_and_problem(wrong: str, spark: SparkSession, tmp_path: Path) -> None:
    change, reason, words = WRONG[wrong]
    fields = {name: value for name, value in {**V_SHAPE, **change}.items() if value is not None}
    if "steps" not in change and "define" in change:
        fields["measures"], fields["skip"] = {}, {}
    with pytest.raises(SpecError) as refused:
        build_run(tmp_path, fields if "within" in fields else {**fields, "within": None})
    assert refused.value.reason is reason
    assert all(word in refused.value.message for word in words), refused.value.message
