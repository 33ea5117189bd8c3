"""Pipelines on real Spark and Kafka: what they compute, what they keep, and how they stop."""

import json
import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from confluent_kafka import Message
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.progress import Progress
from kappa_operator.pipeline.tuning import build_tuning
from spark.conftest import wait_for
from spark.revisions import build_revision, source

START = datetime(2013, 1, 1, tzinfo=UTC)
WINDOWED = (
    "SELECT window(ts, '1 minute') AS w, k, count(*) AS n, sum(v) AS total, max(v) AS top"
    " FROM flights GROUP BY 1, 2"
)
TIMED: dict[str, Any] = {"eventTime": {"column": "ts", "watermark": "30s"}}


def _records(count: int, seed: int = 7) -> list[dict[str, Any]]:
    """Records in nearly the order of time: at most ten seconds late, so none is dropped."""
    rng = random.Random(seed)
    return [
        {
            "k": rng.randrange(20),
            "v": rng.randrange(1000) / 4,
            "ts": (START + timedelta(seconds=number / 10 + rng.random() * 10)).isoformat(),
        }
        for number in range(count)
    ]


def _windows_by_duckdb(records: list[dict[str, Any]]) -> dict[tuple[str, int], tuple[int, float, float]]:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("CREATE TABLE flights (k BIGINT, v DOUBLE, ts TIMESTAMPTZ)")
    connection.executemany(
        "INSERT INTO flights VALUES (?, ?, ?)", [(r["k"], r["v"], r["ts"]) for r in records]
    )
    rows = connection.execute(
        "SELECT strftime(date_trunc('minute', ts), '%Y-%m-%dT%H:%M:%S.%fZ'), k, count(*), sum(v), max(v)"
        " FROM flights GROUP BY 1, 2"
    ).fetchall()
    return {(row[0], row[1]): tuple(row[2:]) for row in rows}


def _last_windows(messages: list[Message]) -> dict[tuple[str, int], tuple[int, float, float]]:
    """The last record of each key, as a reader of a compacted topic sees it."""
    latest = {m.key(): json.loads(m.value() or b"") for m in sorted(messages, key=lambda m: m.offset() or 0)}
    return {(r["w"]["start"], r["k"]): (r["n"], r["total"], r["top"]) for r in latest.values()}


def _windowed(names: dict[str, str], checkpoint: Path, bootstrap: str, **changes: Any) -> Any:
    spec = {
        "sources": [source(**TIMED)],
        "views": [{"name": "hourly", "sql": WINDOWED}],
        "sinks": [
            {"name": "out", "from": "hourly", "kafka": {"topic": "out", "key": ["w", "k"]}, "mode": "update"}
        ],
        "trigger": {"maxRecords": 2000},
        **changes,
    }
    return build_revision(spec, checkpoint, bootstrap, topics=names)


def test_windows_equal_duckdbs_over_the_same_records_across_restarts(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {"flights": topics.make("flights"), "out": topics.make("out")}
    records = _records(9000)
    born = _windowed(names, checkpoint, broker.bootstrap)
    other = born.model_copy(update={"tuning": born.tuning.model_copy(update={"shuffle_partitions": 3})})
    for generation, part in enumerate((records[:3000], records[3000:6000], records[6000:]), start=1):
        topics.write(names["flights"], [json.dumps(r) for r in part])
        driver = run(born if generation < 3 else other, generation)  # the state keeps its partitions
        driver.wait_for_records(1000 if generation < 3 else 1)
        if generation == 3:
            driver.wait_for("no lag", lambda p: p.lag == 0 and p.queries[0].batch_id >= 0)
            _check_recovery(driver.wait_for("it has started", lambda p: p.recovery is not None))
        assert driver.stop().graceful
        assert _batches(checkpoint, "offsets") == _batches(checkpoint, "commits")
    assert _last_windows(topics.read(names["out"])) == _windows_by_duckdb(records)
    assert topics.committed("kappa.test.delays", names["flights"]) == topics.ends(names["flights"])


def _check_recovery(progress: Progress) -> None:
    """What a start took is told by what Spark says of its first batch."""
    found = progress.recovery
    assert found is not None
    assert 0 < found.prepare_seconds < found.seconds
    assert found.state_seconds > 0
    assert found.state_rows > 0
    assert found.records >= 3000


def _batches(checkpoint: Path, log: str, sink: str = "out") -> set[int]:
    return {int(path.name) for path in (checkpoint / sink / log).iterdir() if path.name.isdigit()}


@pytest.mark.parametrize("stops", [5, pytest.param(20, marks=pytest.mark.chaos)])
def test_stops_under_load_all_end_at_a_committed_batch(
    run: Any, broker: Any, topics: Any, checkpoint: Path, stops: int
) -> None:
    names = {"flights": topics.make("flights"), "out": topics.make("out")}
    topics.write(names["flights"], [json.dumps(r) for r in _records(3_000 * stops)])
    revision = _windowed(names, checkpoint, broker.bootstrap, trigger={"maxRecords": 300})
    rng = random.Random(11)
    for generation in range(1, stops + 1):
        driver = run(revision, generation)
        driver.wait_for("a query", lambda p: p.queries)
        time.sleep(rng.random() * 1.2)  # a random moment of a batch
        assert driver.stop().graceful
        assert _batches(checkpoint, "offsets") == _batches(checkpoint, "commits"), f"stop {generation}"
    assert driver.progress.lag > 0, "the load ended before the stops did"
    committed = topics.committed("kappa.test.delays", names["flights"])
    log = (checkpoint / "out" / "offsets" / str(max(_batches(checkpoint, "offsets")))).read_text()
    assert {
        int(p): o for p, o in json.loads(log.splitlines()[-1].partition(":")[2])[names["flights"]].items()
    } == (committed)


MALFORMED: dict[str | None, str] = {
    '{"k": "many", "v": 1.5}': "column k: many is not a BIGINT",
    '{"k": 1, "v": 1.5': "value is not a JSON object",
    '{"k": 1, "ts": "yesterday", "v": "x"}': "column v: x is not a DOUBLE; column ts: yesterday is not a TIMESTAMP",
    "[1, 2]": "value is not a JSON object",
    "": "value is empty",
    "null": "value is not a JSON object",
    None: "value is null",
}


def test_records_that_do_not_parse_become_dead_letters_with_the_error(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name) for name in ("flights", "out", "dead")}
    good = ['{"k": 1, "v": 2.5, "ts": "2013-01-01T05:00:00Z"}', "{}"]
    topics.write(names["flights"], [*good, *MALFORMED], key="same", headers=[("trace", b"7")])
    driver = run(_passing(names, checkpoint, broker.bootstrap))
    driver.wait_for_records(len(good) + len(MALFORMED))
    driver.wait_for("dead letters", lambda p: p.dead_lettered == len(MALFORMED))
    progress = driver.progress
    (query,) = progress.queries
    (read,) = query.sources
    assert (query.total_malformed_rows, read.total_malformed_rows) == (len(MALFORMED), len(MALFORMED))
    assert (query.total_written_rows, read.total_input_rows) == (len(good), len(good) + len(MALFORMED))
    assert driver.stop().graceful
    assert topics.values(names["out"]) == [
        {"k": 1, "v": 2.5, "ts": "2013-01-01T05:00:00.000000Z"},
        {"k": None, "v": None, "ts": None},
    ]
    letters = {(m.value() or b"").decode(): m for m in topics.read(names["dead"])}
    assert {text: dict(m.headers())["kappa.error"].decode() for text, m in letters.items() if text} == {
        value: error for value, error in MALFORMED.items() if value
    }
    letter = letters["[1, 2]"]
    headers = {name: value.decode() for name, value in letter.headers()}
    assert headers.pop("kappa.timestamp").endswith("Z")
    place = f"{names['flights']}/{headers['kappa.partition']}/{headers['kappa.offset']}"
    assert letter.key().decode() == place
    assert headers | {"kappa.partition": "", "kappa.offset": ""} == {
        "trace": "7",
        "kappa.error": "value is not a JSON object",
        "kappa.pipeline": "test/delays",
        "kappa.source": "flights",
        "kappa.topic": names["flights"],
        "kappa.partition": "",
        "kappa.offset": "",
        "kappa.key": "same",
    }
    assert len(topics.read(names["dead"])) == len(MALFORMED)


def _passing(names: dict[str, str], checkpoint: Path, bootstrap: str, **changes: Any) -> Any:
    spec = {
        "sources": [source()],
        "sinks": [{"name": "out", "from": "flights", "kafka": {"topic": "out"}}],
        **({"deadLetter": "dead"} if "dead" in names else {}),
        **changes,
    }
    return build_revision(spec, checkpoint, bootstrap, topics=names)


def test_without_a_dead_letter_topic_malformed_records_are_only_counted(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name) for name in ("flights", "out")}
    topics.write(names["flights"], ["{", '{"k": 1}'])
    driver = run(_passing(names, checkpoint, broker.bootstrap))
    progress = driver.wait_for_records(2)
    assert (progress.queries[0].total_malformed_rows, progress.dead_lettered) == (1, 0)
    assert driver.stop().graceful
    assert len(topics.read(names["out"])) == 1


def test_two_sinks_of_one_source_take_its_dead_letters_once(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name) for name in ("flights", "out", "more", "dead")}
    topics.write(names["flights"], ["{", '{"k": 1}'] * 5)
    sinks = [{"name": name, "from": "flights", "kafka": {"topic": name}} for name in ("out", "more")]
    driver = run(_passing(names, checkpoint, broker.bootstrap, sinks=sinks))
    driver.wait_for_records(10)
    assert driver.stop().graceful
    assert len(topics.read(names["dead"])) == 5
    assert [len(topics.read(names[name])) for name in ("out", "more")] == [5, 5]
    assert topics.committed("kappa.test.delays", names["flights"]) == topics.ends(names["flights"])


def test_a_source_may_be_read_twice_by_one_query(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name) for name in ("flights", "out")}
    records = [{"k": k, "v": v, "ts": START.isoformat()} for k in range(3) for v in (1.0, 9.0)]
    topics.write(names["flights"], [json.dumps(r) for r in records])
    views = [
        {"name": "low", "sql": "SELECT * FROM flights WHERE v < 5;"},
        {"name": "high", "sql": "-- the others\nSELECT * FROM flights WHERE v >= 5 -- all"},
        {
            "name": "both",
            "sql": "SELECT low.k AS k, low.v + high.v AS v FROM low JOIN high ON low.k = high.k",
            "allowUnboundedState": True,
        },
    ]
    sinks = [{"name": "out", "from": "both", "kafka": {"topic": "out", "key": ["k"]}}]
    driver = run(
        _passing(names, checkpoint, broker.bootstrap, sources=[source(**TIMED)], views=views, sinks=sinks)
    )
    progress = driver.wait_for("no lag", lambda p: p.queries and p.queries[0].batch_id >= 0 and p.lag == 0)
    assert [each.total_input_rows for each in progress.queries[0].sources] == [len(records)]
    assert driver.stop().graceful
    found = {(m.key(), json.loads(m.value())["v"]) for m in topics.read(names["out"])}
    assert found == {(b"0", 10.0), (b"1", 10.0), (b"2", 10.0)}


def test_a_new_pipeline_starts_at_a_time(run: Any, broker: Any, topics: Any, checkpoint: Path) -> None:
    names = {name: topics.make(name) for name in ("flights", "out")}
    for hour in range(4):
        moment = START + timedelta(hours=hour)
        topics.write(
            names["flights"], [json.dumps({"k": hour})] * 5, timestamp=int(moment.timestamp() * 1000)
        )
    begin = (START + timedelta(hours=2)).isoformat()
    columns: dict[str, Any] = {"key": "id", "timestamp": "at", "partition": "part", "offset": "pos"}
    started = source(startingOffsets=begin, recordColumns=columns)
    driver = run(_passing(names, checkpoint, broker.bootstrap, sources=[started]))
    driver.wait_for_records(10)
    assert driver.stop().graceful
    found = topics.values(names["out"])
    assert sorted(r["k"] for r in found) == [2] * 5 + [3] * 5
    assert {r["at"] for r in found} == {f"2013-01-01T0{hour}:00:00.000000Z" for hour in (2, 3)}
    assert {(r["id"], r["part"] in (0, 1), r["pos"] >= 0) for r in found} == {
        (str(n), True, True) for n in range(5)
    }


def wait(flights: DataFrame) -> DataFrame:
    """Return the rows, each after two seconds."""

    def pause(key: str) -> str:
        time.sleep(2)
        return key

    return flights.select(f.udf(pause, "string")(flights.k.cast("string")).alias("k"))


def test_a_stop_at_its_timeout_interrupts_and_reports_it(
    run: Any, broker: Any, topics: Any, checkpoint: Path, spark: Any
) -> None:
    names = {name: topics.make(name) for name in ("flights", "out")}
    topics.write(names["flights"], ['{"k":1}'] * 40)
    views = [{"name": "slow", "python": {"function": "spark.test_pipeline:wait", "reads": ["flights"]}}]
    sinks = [{"name": "out", "from": "slow", "kafka": {"topic": "out"}}]
    driver = run(_passing(names, checkpoint, broker.bootstrap, views=views, sinks=sinks, stopTimeout="2s"))
    wait_for("the batch runs", spark.sparkContext.statusTracker().getActiveStageIds)
    ended = driver.stop()
    assert not ended.graceful
    assert "stopTimeout" in ended.message


def test_rows_of_a_key_keep_the_order_of_their_partition_although_there_are_more_cores(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    """Otherwise readers of a compacted topic would keep an earlier row."""
    names = {name: topics.make(name, partitions=1) for name in ("flights", "out")}
    for number in range(4000):
        topics.queue(names["flights"], None, json.dumps({"k": number % 3, "v": float(number)}))
    topics.flush()
    keyed = {
        "sources": [source()],
        "sinks": [{"name": "out", "from": "flights", "kafka": {"topic": "out", "key": ["k"]}}],
        "resources": {"driver": {"cpu": "4"}},
    }
    tuning = build_tuning(PipelineSpec.model_validate(keyed), None)
    driver = run(build_revision(keyed, checkpoint, broker.bootstrap, topics=names, tuning=tuning))
    driver.wait_for("no lag", lambda p: p.queries and p.queries[0].batch_id >= 0 and p.lag == 0)
    assert driver.stop().graceful
    found = [json.loads(message.value()) for message in topics.read(names["out"])]
    for key in range(3):
        assert [row["v"] for row in found if row["k"] == key] == [float(n) for n in range(key, 4000, 3)]
