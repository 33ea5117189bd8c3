"""Topics of more partitions than tasks, on real Spark and Kafka: a task reads several partitions, one after the other."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kappa_crds.batches import NATIVE_KAFKA
from kappa_pipelines.analysis.catalyst import children_of, get_plan, kind_of
from kappa_pipelines.driver.session import create_session
from kappa_pipelines.kafka.consumers import TASKS_PER_CORE
from kappa_pipelines.plan.compile import compile_revision
from kappa_pipelines.plan.endpoints import KafkaEndpoints
from spark.revisions import build_revision, source

TASKS = 2 * TASKS_PER_CORE
PARTITIONS = TASKS + 3
SPEC: dict[str, Any] = {
    "sources": [source()],
    "sinks": [{"name": "out", "from": "flights", "kafka": {"topic": "out", "key": ["k"]}}],
}
COUNTED: dict[str, Any] = {
    **SPEC,
    "views": [
        {
            "name": "counts",
            "sql": "SELECT k % 3 AS part, count(*) AS n FROM flights GROUP BY k % 3",
            "allowUnboundedState": True,
        }
    ],
    "sinks": [
        *SPEC["sinks"],
        {
            "name": "counted",
            "from": "counts",
            "kafka": {"topic": "counted", "key": ["part"]},
            "mode": "update",
        },
    ],
}


def _walk(plan: Any) -> Iterator[Any]:
    yield plan
    for child in children_of(plan):
        yield from _walk(child)


@pytest.mark.parametrize(("partitions", "tasks"), [(TASKS, []), (PARTITIONS, [TASKS])])
def test_a_plan_bounds_the_tasks_of_sparks_reader_only_where_partitions_are_more(
    checkpoint: Path, partitions: int, tasks: list[int]
) -> None:
    revision = build_revision(SPEC, checkpoint, "nowhere:9092")
    revision = revision.model_copy(update={"spark_conf": {**revision.spark_conf, NATIVE_KAFKA: "false"}})
    spark = create_session(revision)
    ends = KafkaEndpoints(spark, revision, topics={"flights": partitions, "another": 1000})
    plan = get_plan(compile_revision(spark, revision, ends).sinks[0].rows)
    assert [each.numPartitions() for each in _walk(plan) if kind_of(each) == "Repartition"] == tasks


@pytest.mark.parametrize("natives", [("true", "true"), ("false", "true"), ("true", "false")])
def test_all_records_come_once_and_in_the_order_of_their_partition_over_a_restart(
    run: Any, broker: Any, topics: Any, checkpoint: Path, natives: tuple[str, str]
) -> None:
    names = {"flights": topics.make("flights", PARTITIONS)}
    names |= {name: topics.make(name, 1) for name in ("out", "counted")}
    revision = build_revision(COUNTED, checkpoint, broker.bootstrap, topics=names)
    count = 40 * PARTITIONS
    for generation, native in enumerate(natives, start=1):
        conf = {**revision.spark_conf, NATIVE_KAFKA: native}
        for number in range(PARTITIONS):
            written = range(number + (generation - 1) * count, generation * count, PARTITIONS)
            topics.write(names["flights"], [json.dumps({"k": k}) for k in written], partition=number)
        driver = run(revision.model_copy(update={"spark_conf": conf}), generation)
        driver.wait_for_records(count)
        assert driver.stop().graceful
    found = [row["k"] for row in topics.values(names["out"])]
    assert sorted(found) == list(range(2 * count))
    for number in range(PARTITIONS):
        assert [k for k in found if k % PARTITIONS == number] == list(range(number, 2 * count, PARTITIONS))
    counts = {row["part"]: row["n"] for row in topics.values(names["counted"])}
    assert counts == {part: len(range(part, 2 * count, 3)) for part in range(3)}
