"""Real-time mode: records pass while their batch runs, a stop waits for its end, and what it cannot do is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kappa_crds.reasons import Reason
from kappa_pipelines.driver.session import create_session
from kappa_pipelines.errors import SpecError, UnavailableError
from kappa_pipelines.laptop.explanation import explain
from kappa_pipelines.plan.compile import Compiled, compile_revision
from kappa_pipelines.plan.realtime import build_real_time_settings, check_growth
from spark.conftest import wait_for
from spark.processes import TOKEN
from spark.revisions import build_revision, source

PARTITIONS = 4
"""More than the cores, and than the tasks that Spark would run at once by itself."""


def _real_time(every: str = "6s", **changes: Any) -> dict[str, Any]:
    sink = {"name": "out", "from": "good", "kafka": {"topic": "out", "key": ["k"]}}
    spec = {
        "sources": [source(eventTime={"column": "ts", "watermark": "1m"})],
        "views": [{"name": "good", "sql": "SELECT k, v FROM flights WHERE k >= 0"}],
        "sinks": [sink],
        "trigger": {"realTime": {"checkpointInterval": every}},
    }
    return {**spec, **changes}


def _compile(checkpoint: Path, **changes: Any) -> Compiled:
    revision = build_revision(_real_time(**changes), checkpoint, "nowhere:9092")
    return compile_revision(create_session(revision), revision)


def _numbers(topics: Any, topic: str) -> list[int]:
    return sorted(row["k"] for row in topics.values(topic))


def test_records_pass_within_a_batch_and_nothing_is_lost_or_written_twice_over_stops(
    start: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name, PARTITIONS) for name in ("flights", "out", "dead")}
    revision = build_revision(_real_time(deadLetter="dead"), checkpoint, broker.bootstrap, topics=names)
    driver = start(revision, 1)
    driver.wait_for("running", lambda p: p.state == "Running")
    topics.write(names["flights"], [json.dumps({"k": k}) for k in range(40)] + ["{"])
    wait_for("the rows", lambda: len(topics.read(names["out"])) == 40)
    driver.wait_for("a dead letter beside a batch that runs", lambda p: p.dead_lettered == 1)
    topics.write(names["flights"], [json.dumps({"k": k}) for k in range(40, 60)])
    assert driver.get("/stop", token=TOKEN, method="POST")[0] == 202
    assert driver.wait().graceful
    found = _numbers(topics, names["out"])  # those that came as the batch ended are left to the next driver
    assert found == sorted(set(found)), "none comes twice"
    assert set(range(40)) <= set(found)
    latest = max(message.timestamp()[1] for message in topics.read(names["out"]))
    assert latest / 1000 < _last(checkpoint / "out" / "offsets").stat().st_mtime, "rows come before offsets"
    _last(checkpoint / "out" / "commits").unlink()  # as a crash leaves it between the two
    topics.write(names["flights"], [json.dumps({"k": k}) for k in range(60, 80)])
    driver = start(revision, 2)
    driver.wait_for("running again", lambda p: p.state == "Running")
    wait_for("the rows of both", lambda: set(_numbers(topics, names["out"])) == set(range(80)))
    driver.kill()


def test_parts_of_a_source_in_a_union_read_it_once(
    start: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name, PARTITIONS) for name in ("flights", "out")}
    sql = "SELECT k FROM flights WHERE k < 20 UNION ALL SELECT 100 + k AS k FROM flights WHERE k >= 10"
    revision = build_revision(
        _real_time(views=[{"name": "good", "sql": sql}]), checkpoint, broker.bootstrap, topics=names
    )
    driver = start(revision, 1)
    driver.wait_for("running", lambda p: p.state == "Running")
    topics.write(names["flights"], [json.dumps({"k": k}) for k in range(40)])
    wait_for("the rows", lambda: len(topics.read(names["out"])) == 50)
    assert _numbers(topics, names["out"]) == [*range(20), *range(110, 140)]
    driver.kill()


def test_a_timestamp_that_spark_cannot_read_names_the_topic_and_the_way_out(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name, PARTITIONS) for name in ("flights", "out")}
    topics.write(names["flights"], [json.dumps({"k": 1})], timestamp=-(2**62))
    revision = build_revision(_real_time(), checkpoint, broker.bootstrap, topics=names)
    failure = run(revision, 1).failure()
    assert (failure.reason, failure.retryable) == (Reason.QUERY_FAILED, False)
    assert "a record has a timestamp that Spark cannot read" in failure.message
    assert f"topic {names['flights']} partition" in failure.message
    assert "message.timestamp.before.max.ms" in failure.message


def _last(folder: Path) -> Path:
    """The log's entry of the newest batch."""
    return max((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))


REFUSED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "an aggregation": (
        {
            "views": [
                {
                    "name": "good",
                    "sql": "SELECT k, count(*) AS v FROM flights GROUP BY k",
                    "allowUnboundedState": True,
                }
            ]
        },
        ("view 'good' for sink 'out' aggregates rows", "trigger.realTime"),
    ),
    "distinct rows": (
        {
            "views": [
                {"name": "seen", "sql": "SELECT DISTINCT k FROM flights", "allowUnboundedState": True},
                {"name": "good", "sql": "SELECT k FROM seen"},
            ]
        },
        ("view 'seen' for sink 'out' removes duplicates", "another pipeline"),
    ),
    "a join of streams": (
        {
            "sources": [source(), source("planes")],
            "views": [
                {
                    "name": "good",
                    "sql": "SELECT f.k FROM flights f JOIN planes p ON f.k = p.k",
                    "allowUnboundedState": True,
                }
            ],
        },
        ("view 'good' for sink 'out' joins rows",),
    ),
    "a source that is read twice": (
        {
            "views": [
                {
                    "name": "good",
                    "sql": "SELECT k FROM flights UNION ALL SELECT explode(array(k, k + 1)) FROM flights",
                }
            ]
        },
        ("sink 'out': source 'flights' is read more than once", "in a UNION"),
    ),
    "a shuffle": (
        {"views": [{"name": "good", "sql": "SELECT /*+ REPARTITION(3) */ k FROM flights"}]},
        ("view 'good' for sink 'out' has a step (Repartition",),
    ),
    "a limit": (
        {"views": [{"name": "good", "sql": "SELECT k FROM flights LIMIT 3"}]},
        ("view 'good' for sink 'out' counts rows for a LIMIT",),
    ),
    "batches that are too short": (
        {"trigger": {"realTime": {"checkpointInterval": "1s"}}},
        ("trigger.realTime.checkpointInterval 1s", "5s or more"),
    ),
    "batches whose end a stop cannot await": (
        {"trigger": {"realTime": {"checkpointInterval": "5m"}}},
        ("checkpointInterval 5m", "stopTimeout is only 2m"),
    ),
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_what_real_time_mode_cannot_do_is_refused_before_it_starts(
    spark: Any, checkpoint: Path, wrong: str
) -> None:
    changes, words = REFUSED[wrong]
    with pytest.raises(SpecError) as refused:
        _compile(checkpoint, **changes)
    assert refused.value.reason in (Reason.UNSUPPORTED_QUERY, Reason.INVALID_SPEC)
    assert all(word in refused.value.message for word in words), refused.value.message


def shout(flights: DataFrame) -> DataFrame:
    upper = f.udf(lambda text: text.upper(), "string")
    return flights.select(upper(flights.k.cast("string")).alias("k"))


def test_a_function_in_python_is_refused_in_real_time(spark: Any, checkpoint: Path) -> None:
    views = [{"name": "good", "python": {"function": "spark.test_real_time:shout", "reads": ["flights"]}}]
    with pytest.raises(SpecError, match="view 'good' for sink 'out' calls a function in Python"):
        _compile(checkpoint, views=views)


def test_two_sources_and_a_table_in_the_view_are_not_refused(spark: Any, checkpoint: Path) -> None:
    sql = "SELECT k FROM (SELECT k FROM flights UNION ALL SELECT k FROM planes) JOIN (VALUES (1), (2)) AS t(n) ON k = n"
    changes = {"sources": [source(), source("planes")], "views": [{"name": "good", "sql": sql}]}
    compiled = _compile(checkpoint, **changes)
    assert compiled.sinks[0].sources == ("flights", "planes")


def test_explain_shows_the_effects_of_real_time_mode(spark: Any, checkpoint: Path) -> None:
    revision = build_revision(_real_time(), checkpoint, "nowhere:9092")
    lines = list(explain("delays", spark, revision, _compile(checkpoint)))
    assert (
        "real-time mode: no record waits for a batch; offsets are kept every 6s, and a stop waits as long"
        in lines
    )
    again = "at least once: after a crash the rows of up to 6s may be there twice, with the same keys"
    assert f"    {again}" in lines


def test_every_partition_of_every_query_has_a_task_and_more_partitions_call_for_a_new_driver(
    checkpoint: Path,
) -> None:
    revision = build_revision(_real_time(), checkpoint, "nowhere:9092")
    topics = {"flights": 7, "other": 50}
    assert build_real_time_settings(revision, topics) == {"spark.master": "local[9]"}
    conf = {"spark.master": "k8s://x", "spark.executor.instances": "2"}
    pods = revision.model_copy(update={"spark_conf": conf})
    assert build_real_time_settings(pods, topics) == {"spark.executor.cores": "5"}
    plain = build_revision(_real_time(trigger={}), checkpoint, "nowhere:9092")
    assert build_real_time_settings(plain, topics) == {}
    check_growth(revision, topics, {("flights", 6): 0})
    check_growth(plain, topics, {("flights", 7): 0})
    with pytest.raises(UnavailableError, match="flights/7") as grown:
        check_growth(revision, topics, {("flights", 6): 0, ("flights", 7): 0})
    assert grown.value.reason is Reason.PARTITIONS_ADDED
