"""Sources of several topics: named ones, and those that fit a pattern."""

import json
import uuid
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from pyspark.sql import SparkSession

from kappa_crds.reasons import Reason
from kappa_pipelines.sources.kafka import read_range
from spark.revisions import build_revision, source

_COLUMNS = {"topic": "which"}


def _letters(topics: Any, dead: str) -> set[str]:
    return {(message.key() or b"").decode() for message in topics.read(dead)}


def _source(**fields: Any) -> dict[str, Any]:
    read = {**source(recordColumns=_COLUMNS), **fields}
    return {name: value for name, value in read.items() if name != "topic"}


def _spec(**fields: Any) -> dict[str, Any]:
    return {
        "sources": [_source(**fields)],
        "sinks": [{"name": "out", "from": "flights", "kafka": {"topic": "out"}}],
        "deadLetter": "dead",
    }


def test_several_topics_are_one_source_with_correct_offsets_dead_letters_and_lag(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name, partitions=1) for name in ("one", "two", "out", "dead")}
    for name in ("one", "two"):
        topics.write(names[name], [f"not JSON in {name}", json.dumps({"k": 1})])
    revision = build_revision(_spec(topics=["one", "two"]), checkpoint, broker.bootstrap, topics=names)
    driver = run(revision)
    driver.wait_for("dead letters", lambda p: p.dead_lettered == 2)
    progress = driver.wait_for("no lag", lambda p: p.lag == 0 and p.queries[0].batch_id >= 0)
    read = progress.queries[0].sources[0]
    assert read.topic == f"{names['one']}, {names['two']}"
    assert read.end_offsets == {names[name]: {0: 2} for name in ("one", "two")}
    assert driver.stop().graceful
    topics.write(names["two"], ["wrong while nobody looks", json.dumps({"k": 2})])
    again = run(revision, 2)
    again.wait_for("dead letters", lambda p: p.dead_lettered == 1)
    assert again.stop().graceful
    rows = sorted((row["k"], row["which"]) for row in topics.values(names["out"]))
    assert rows == sorted([(1, names["one"]), (1, names["two"]), (2, names["two"])])
    assert _letters(topics, names["dead"]) == {
        f"{names['one']}/0/0",
        f"{names['two']}/0/0",
        f"{names['two']}/0/2",
    }
    for name, end in (("one", 2), ("two", 4)):
        assert topics.committed("kappa.test.delays", names[name]) == {0: end}


def test_a_topic_that_fits_the_pattern_is_read_from_its_beginning_when_it_comes(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    family = f"family{uuid.uuid4().hex[:6]}"
    names = {name: topics.make(name) for name in ("out", "dead")}
    first = topics.make(f"{family}-a", partitions=1)
    topics.make(f"other-{family}", partitions=1)  # fits only in part
    topics.write(first, [json.dumps({"k": 1}), "{"])
    revision = build_revision(_spec(topicPattern=f"{family}-.*"), checkpoint, broker.bootstrap, topics=names)
    driver = run(revision)
    driver.wait_for("dead letters", lambda p: p.dead_lettered == 1)
    second = topics.make(f"{family}-b", partitions=2)
    topics.write(second, [json.dumps({"k": 2}), "[", json.dumps({"k": 3})])
    driver.wait_for("dead letters", lambda p: p.dead_lettered == 2)
    progress = driver.wait_for("all rows", lambda p: p.queries[0].total_input_rows == 5 and p.lag == 0)
    assert progress.queries[0].sources[0].end_offsets.keys() == {first, second}
    assert driver.stop().graceful
    assert sorted((row["k"], row["which"]) for row in topics.values(names["out"])) == [
        (1, first),
        (2, second),
        (3, second),
    ]
    assert sorted(key.rpartition("/")[0] for key in _letters(topics, names["dead"]))[0] == f"{first}/0"
    assert len(_letters(topics, names["dead"])) == 2
    for topic in (first, second):
        assert topics.committed("kappa.test.delays", topic) == topics.ends(topic)


def test_a_pattern_that_fits_what_the_pipeline_writes_is_refused(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {name: topics.make(name) for name in ("out", "dead")}
    failure = run(
        build_revision(_spec(topicPattern=".*"), checkpoint, broker.bootstrap, topics=names)
    ).failure()
    assert failure.reason is Reason.INVALID_SPEC
    assert f"sink 'out' writes to topic {names['out']}, which source 'flights' reads" in failure.message


def test_a_range_has_each_topics_records_and_begins_at_the_first_one_there_where_no_start_is_known(
    spark: SparkSession, broker: Any, topics: Any, checkpoint: Path
) -> None:
    known, new = (topics.make(name, partitions=1) for name in ("known", "new"))
    for topic in (known, new):
        topics.write(topic, ["0", "1", "2", "3"])
    first = TopicPartition(new, 0, 1)
    topics.admin.delete_records([first])[first].result(30)
    revision = build_revision(_spec(topics=[known, new]), checkpoint, broker.bootstrap)
    records = read_range(
        spark, revision, revision.spec.sources[0], {(known, 0): 2}, {(known, 0): 3, (new, 0): 3}
    )
    read = {(row.topic, row.offset) for row in records.select("topic", "offset").collect()}
    assert read == {(known, 2), (new, 1), (new, 2)}
