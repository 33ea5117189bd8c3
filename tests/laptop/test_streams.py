"""What batch SQL has and a stream has not is refused with the way to write it; and that way is one that Spark runs."""

# ruff: noqa: S608 - the statements are what is tested
import random
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, MapType, StringType, StructType

from kappa_crds import API_VERSION
from kappa_crds.reasons import Reason
from kappa_pipelines.analysis.state import State
from kappa_pipelines.errors import SpecError
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.session import start_spark
from kappa_pipelines.plan.compile import compile_revision
from kappa_pipelines.revision.settings import CHECKPOINT_SETTINGS
from kappa_pipelines.transforms.events import ID, select_events
from kappa_pipelines.transforms.inputs import Input

TIME = {"column": "ts", "watermark": "2s"}
SOURCES: list[dict[str, Any]] = [
    {
        "name": "bids",
        "topic": "bids",
        "format": {
            "json": {"schema": "id BIGINT, auction BIGINT, bidder STRING, price DOUBLE, ts TIMESTAMP"}
        },
        "eventTime": TIME,
    },
    {
        "name": "auctions",
        "topic": "auctions",
        "format": {"json": {"schema": "id BIGINT, seller STRING, ts TIMESTAMP"}},
        "eventTime": TIME,
    },
]


def compile_views(*views: str, mode: str = "append", key: str = "id", **fields: Any) -> tuple[State, ...]:
    """Compile a pipeline of these views, v0, v1 …, and return the state that its sink's query keeps."""
    named = [{"name": f"v{number}", "sql": sql, **fields} for number, sql in enumerate(views)]
    sink = {"name": "out", "from": named[-1]["name"], "kafka": {"topic": "out", "key": [key]}, "mode": mode}
    spec = {"sources": SOURCES, "views": named, "sinks": [sink]}
    metadata = {"name": "p", "namespace": "default"}
    revision = build_local_revision(
        {"apiVersion": API_VERSION, "kind": "Pipeline", "metadata": metadata, "spec": spec}
    )
    return compile_revision(start_spark(revision), revision).sinks[0].states


HOUR = "window(ts, '1 hour')"
BOUND = "a.ts BETWEEN b.ts AND b.ts + INTERVAL 1 HOUR"
PAIR = f"bids b LEFT JOIN auctions a ON a.id = b.auction AND {BOUND}"
OVER = "OVER (PARTITION BY auction ORDER BY price DESC)"

# What is refused, words of the way out, and the views by which it is done.
REFUSED: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "row_number": (
        f"SELECT * FROM (SELECT *, row_number() {OVER} AS n FROM bids) WHERE n = 1",
        "`max_by(struct(*), price)` is the row with the highest price",
        (f"SELECT auction AS id, max_by(struct(*), price) AS best FROM bids GROUP BY auction, {HOUR}",),
    ),
    "rank": (
        f"SELECT * FROM (SELECT *, rank() {OVER} AS n FROM bids) WHERE n <= 3",
        "`slice(sort_array(collect_list(struct(price, id)), false), 1, 3)` are the best three",
        (
            f"SELECT auction AS id, slice(sort_array(collect_list(struct(price, id)), false), 1, 3) AS best FROM bids GROUP BY auction, {HOUR}",
        ),
    ),
    "lag": (
        "SELECT id, price - lag(price) OVER (PARTITION BY bidder ORDER BY ts) AS more FROM bids",
        "a view of kind pattern",
        (f"SELECT bidder AS id, sort_array(collect_list(struct(ts, price))) AS l FROM bids GROUP BY bidder, {HOUR}",),
    ),
    "count(DISTINCT)": (
        f"SELECT {HOUR} AS id, count(DISTINCT bidder) AS n FROM bids GROUP BY {HOUR}",
        "write `size(collect_set(x))` for `count(DISTINCT x)`",
        (f"SELECT {HOUR} AS id, size(collect_set(bidder)) AS n FROM bids GROUP BY {HOUR}",),
    ),
    "IN": (
        "SELECT * FROM bids WHERE auction IN (SELECT id FROM auctions)",
        "a JOIN with a bound in time",
        (f"SELECT b.* FROM bids b JOIN auctions a ON a.id = b.auction AND {BOUND}",),
    ),
    "NOT EXISTS": (
        "SELECT * FROM bids b WHERE NOT EXISTS (SELECT 1 FROM auctions a WHERE a.id = b.auction)",
        "for NOT IN and NOT EXISTS a LEFT JOIN with one and `WHERE b.id IS NULL`",
        (f"SELECT b.* FROM {PAIR} WHERE a.id IS NULL",),
    ),
    "LEFT ANTI": (
        "SELECT b.* FROM bids b LEFT ANTI JOIN auctions a ON a.id = b.auction",
        "a LEFT JOIN with a bound in time and `WHERE b.id IS NULL`",
        (f"SELECT b.* FROM {PAIR} WHERE a.id IS NULL",),
    ),
    "EXCEPT": (
        "SELECT id FROM bids EXCEPT SELECT id FROM auctions",
        "a LEFT JOIN with a bound in time",
        (f"SELECT b.id FROM {PAIR} WHERE a.id IS NULL",),
    ),
    "an unbounded LEFT JOIN": (
        "SELECT b.*, a.seller FROM bids b LEFT JOIN auctions a ON a.id = b.auction",
        "For the present row of a table take a view of kind lookup",
        (f"SELECT b.*, a.seller FROM {PAIR}",),
    ),
    "ORDER BY with LIMIT": (
        "SELECT * FROM bids ORDER BY price DESC LIMIT 3",
        "leave ORDER BY out",
        (
            f"SELECT {HOUR} AS id, slice(sort_array(collect_list(struct(price, id)), false), 1, 3) AS best FROM bids GROUP BY {HOUR}",
        ),
    ),
    "an aggregate of an aggregate": (
        "SELECT max(count(*)) AS id FROM bids GROUP BY auction",
        "put the inner one into a view of its own, grouped by a window",
        (
            f"SELECT {HOUR} AS w, auction, count(*) AS n FROM bids GROUP BY {HOUR}, auction",
            "SELECT w AS id, max(n) AS most FROM v0 GROUP BY w",
        ),
    ),
    "a computed time in GROUP BY": (
        "SELECT date_trunc('hour', ts) AS id, count(*) AS n FROM bids GROUP BY date_trunc('hour', ts)",
        "group by a window of the event time itself, `window(time, '1 hour')`",
        (
            f"SELECT {HOUR} AS w, count(*) AS n FROM bids GROUP BY {HOUR}",
            "SELECT window_time(w) AS t, n FROM v0",
            "SELECT window(t, '1 day') AS id, sum(n) AS n FROM v1 GROUP BY window(t, '1 day')",
        ),
    ),
    "DISTINCT with the start of a window": (
        f"SELECT DISTINCT {HOUR}.start AS id, auction FROM bids",
        "also in DISTINCT",
        (f"SELECT DISTINCT {HOUR} AS id, auction FROM bids",),
    ),
    "a window's start in the condition of a join": (
        f"SELECT b.id FROM bids b JOIN auctions a ON {HOUR.replace('ts', 'b.ts')}.start = {HOUR.replace('ts', 'a.ts')}.start",
        "make a column of it in a view for each side",
        (
            f"SELECT *, {HOUR} AS w FROM bids",
            f"SELECT *, {HOUR} AS w FROM auctions",
            "SELECT b.id, a.seller FROM v0 b JOIN v1 a ON b.w = a.w",
        ),
    ),
    "a window in the condition of a join": (
        f"SELECT b.id FROM bids b JOIN auctions a ON a.id = b.auction AND {HOUR.replace('ts', 'b.ts')} = {HOUR.replace('ts', 'a.ts')}",
        "and join these views on w",
        (
            f"SELECT *, {HOUR} AS w FROM bids",
            f"SELECT *, {HOUR} AS w FROM auctions",
            "SELECT b.id, a.seller FROM v0 b JOIN v1 a ON b.w = a.w AND a.id = b.auction",
        ),
    ),
}  # fmt: skip
PARTS_OF_PLANS = re.compile(r"#\d|~\w|Exception|SQLSTATE|; line \d|[A-Z]+_[A-Z]+_[A-Z]+|checkCorrectness")


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_stream_has_not_is_refused_with_the_way_to_write_it(spark: SparkSession, case: str) -> None:
    sql, words, _ = REFUSED[case]
    with pytest.raises(SpecError) as refused:
        compile_views(sql)
    assert refused.value.reason is Reason.UNSUPPORTED_QUERY
    assert "view 'v0'" in refused.value.message
    assert words in refused.value.message
    assert PARTS_OF_PLANS.findall(refused.value.message) == []


@pytest.mark.parametrize("case", REFUSED)
def test_the_way_that_is_named_is_one(spark: SparkSession, case: str) -> None:
    states = compile_views(*REFUSED[case][2])
    assert [state for state in states if state.until is None] == []


def test_an_aggregation_of_what_may_still_change_is_two_pipelines_and_no_check_to_switch_off(
    spark: SparkSession,
) -> None:
    counted = f"SELECT {HOUR} AS w, auction, count(*) AS n FROM bids GROUP BY {HOUR}, auction"
    with pytest.raises(SpecError) as refused:
        compile_views(counted, "SELECT w AS id, avg(n) AS n FROM v0 GROUP BY w", mode="update")
    assert refused.value.reason is Reason.UNSUPPORTED_QUERY
    assert "view 'v1' for sink 'out'" in refused.value.message
    assert "write it as two pipelines" in refused.value.message
    assert PARTS_OF_PLANS.findall(refused.value.message) == []


def test_another_refusal_of_spark_is_reported_without_plan_fragments(spark: SparkSession) -> None:
    with pytest.raises(SpecError) as refused:
        compile_views(
            "SELECT id, count(*) AS n FROM bids GROUP BY id LIMIT 3", mode="update", allowUnboundedState=True
        )
    assert "Spark cannot run this as a stream: Limits are not supported" in refused.value.message
    assert PARTS_OF_PLANS.findall(refused.value.message) == []


def test_an_aggregation_without_keys_is_one_row_and_bounded(spark: SparkSession) -> None:
    (state,) = compile_views("SELECT count(*) AS id, max(price) AS most FROM bids", mode="update")
    assert (state.until, state.grows_with) == (None, None)


@pytest.mark.parametrize(
    ("sql", "grows_with"),
    [
        ("SELECT auction AS id, count(*) AS n FROM bids GROUP BY auction", "keys"),
        ("SELECT auction AS id, collect_list(price) AS n FROM bids GROUP BY auction", "records"),
        ("SELECT 1 AS id, size(collect_set(price)) AS n FROM bids", "records"),
        ("SELECT auction AS id, median(price) AS n FROM bids GROUP BY auction", "records"),
        ("SELECT DISTINCT id FROM bids", "keys"),
    ],
)
def test_unbounded_state_is_refused_with_what_it_grows_with(
    spark: SparkSession, sql: str, grows_with: str
) -> None:
    with pytest.raises(SpecError) as refused:
        compile_views(sql, mode="update")
    assert refused.value.reason is Reason.UNBOUNDED_STATE
    assert f"grows with the number of {grows_with};" in refused.value.message


def test_a_join_without_a_bound_grows_with_the_records(spark: SparkSession) -> None:
    sql = "SELECT b.id, a.seller FROM bids b JOIN auctions a ON a.id = b.auction"
    states = compile_views(sql, allowUnboundedState=True)
    assert {state.grows_with for state in states} == {"records"}
    with pytest.raises(SpecError, match=r"side of a join by .* grows with the number of records;"):
        compile_views(sql)


def test_equal_events_stay_apart_and_a_task_that_runs_again_gives_each_the_same_identity(
    spark: SparkSession, tmp_path: Path
) -> None:
    for part in range(3):
        (tmp_path / f"{part}.json").write_text('{"k": "x", "at": "2026-01-01T08:00:00Z"}\n' * 4)
    schema = StructType().add("k", "string").add("at", "timestamp")
    for name, value in CHECKPOINT_SETTINGS.items():  # with these, sources have names
        spark.conf.set(name, value)
    stream = spark.readStream.name("events").schema(schema)
    stream.json(str(tmp_path)).createOrReplaceTempView("events")
    found: list[list[str]] = []

    def run_twice(frame: DataFrame, batch: int) -> None:
        for _ in range(2):
            found.append(sorted(row[ID] for row in frame.collect()))

    rows = spark.sql(select_events(spark, Input("events", schema), "at", {}))
    rows.writeStream.foreachBatch(run_twice).trigger(availableNow=True).start().awaitTermination()
    first, again = found
    assert len(set(first)) == 12
    assert first == again


def test_events_in_another_order_have_the_same_identities(spark: SparkSession) -> None:
    schema = (
        StructType()
        .add("k", "string")
        .add("at", "timestamp")
        .add("tags", MapType(StringType(), IntegerType()))
    )
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [(key, at, {"a": number}) for key in "xxyz" for number in (1, 1, 2)]

    def identify(seed: int) -> list[tuple[Any, ...]]:
        shuffled = random.Random(seed).sample(rows, len(rows))
        frame = spark.createDataFrame(shuffled, schema).repartition(2, "k")
        frame.createOrReplaceTempView("events")
        made = spark.sql(select_events(spark, Input("events", schema), "at", {})).collect()
        return sorted((row[ID], row["__kappa_event"]["k"], row["__kappa_event"]["tags"]["a"]) for row in made)

    first, again = identify(1), identify(2)
    assert first == again
    assert len({identity for identity, *_ in first}) == len(rows)


def test_events_of_sources_and_stateless_views_are_identified_by_their_position(spark: SparkSession) -> None:
    spec = {
        "plain": "SELECT id, price, ts FROM bids WHERE price > 1",
        "both": "SELECT ts FROM bids UNION ALL SELECT ts FROM auctions",
        "parts": "SELECT explode(array(id, auction)) AS id, ts FROM bids",
        "joined": "SELECT b.id, a.seller, b.ts FROM bids b JOIN auctions a ON a.id = b.auction"
        " AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR",
        "counted": "SELECT window_time(window) AS ts, n FROM"
        " (SELECT window, count(*) AS n FROM bids GROUP BY window(ts, '1 minute'))",
    }
    compile_views("SELECT id, price FROM bids JOIN auctions USING (id)", allowUnboundedState=True)
    for name, sql in spec.items():
        spark.sql(sql).createOrReplaceTempView(name)
    by_position = {
        name
        for name in ("bids", *spec)
        if "uuid()" in select_events(spark, Input(name, spark.table(name).schema), "ts", {})
    }
    assert by_position == {"bids", "plain", "both", "parts"}


def test_a_sliding_window_over_the_rows_of_a_join_is_compiled(spark: SparkSession) -> None:
    sql = "SELECT b.id, a.seller, b.ts FROM bids b JOIN auctions a ON a.id = b.auction" + (
        " AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR"
    )
    window = {"from": "v0", "key": ["seller"], "length": "5m", "aggregates": {"n": "count(*)"}}
    spec = {
        "sources": SOURCES,
        "views": [{"name": "v0", "sql": sql}, {"name": "v1", "sliding": window}],
        "sinks": [{"name": "out", "from": "v1", "kafka": {"topic": "out"}, "mode": "append"}],
    }
    metadata = {"name": "joined", "namespace": "test"}
    revision = build_local_revision(
        {"apiVersion": API_VERSION, "kind": "Pipeline", "metadata": metadata, "spec": spec}
    )
    (sink,) = compile_revision(start_spark(revision), revision).sinks
    assert sink.sources == ("bids", "auctions")
    assert {"v0", "v1"} <= sink.views
