"""Who writes a sink exactly once: names, the number of writers, what Kafka's errors mean."""

from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from pyspark.sql import SparkSession

from kappa_crds.reasons import Reason
from kappa_crds.revision import Tuning
from kappa_pipelines.errors import SpecError
from kappa_pipelines.failures.classify import classify
from kappa_pipelines.failures.exceptions import Cause, Failure
from kappa_pipelines.plan.endpoints import KafkaEndpoints
from kappa_pipelines.plan.realtime import check_spec
from kappa_pipelines.sinks.client import explain_error
from kappa_pipelines.sinks.publisher import build_publishers
from spark.revisions import build_revision, source

SINK: dict[str, Any] = {
    "name": "out",
    "from": "flights",
    "kafka": {"topic": "out", "key": ["k"], "delivery": "ExactlyOnce"},
}
SPEC: dict[str, Any] = {"sources": [source()], "sinks": [SINK]}


def build(sink: dict[str, Any], tasks: int = 4) -> Any:
    spec = {**SPEC, "sinks": [{**SINK, "kafka": {**SINK["kafka"], **sink}}]}
    tuning = Tuning(shuffle_partitions=tasks, producer={"linger.ms": "100", "batch.size": "262144"})
    return build_revision(
        spec, "file:///store/the-uid-3", "kafka:9092", tuning=tuning, topics={"out": "x.out"}
    )


@pytest.mark.parametrize(
    ("sink", "tasks", "partitions", "writers"),
    [
        ({}, 4, 8, 4),
        ({}, 4, 3, 3),
        ({}, 4096, 4096, 256),
        ({"key": None}, 4, 8, 1),
    ],
)
def test_there_is_a_writer_for_each_core_but_no_more_than_partitions_and_one_without_a_key(
    sink: dict[str, Any], tasks: int, partitions: int, writers: int
) -> None:
    publisher = build_publishers(build(sink, tasks), 2, {"x.out": partitions})["out"]
    assert publisher.writers == writers


def test_names_are_the_same_in_each_generation_and_another_pipeline_of_the_name_has_others() -> None:
    old, new = (build_publishers(build({}), generation, {"x.out": 4})["out"] for generation in (1, 2))
    assert old.name_writer(3) == new.name_writer(3)
    assert old.name_writer(3) == "kappa.test.delays.00000000-0000-0000-0000-000000000000.out.3"
    assert (new.topic, new.generation, new.checkpoint) == ("x.out", 2, "the-uid-3")


def test_a_sink_that_writes_at_least_once_has_no_writers() -> None:
    assert build_publishers(build({"delivery": "AtLeastOnce"}), 1, {}) == {}


def test_a_plan_that_is_not_started_has_writers_without_permission_to_write() -> None:
    publisher = KafkaEndpoints(cast(SparkSession, None), build({})).targets.publishers["out"]
    assert publisher.generation == 0, "no marker has so old a generation"


def test_real_time_mode_is_refused_without_an_api_server_too() -> None:
    spec = build({}).spec
    real_time = spec.model_copy(update={"trigger": type(spec.trigger).model_validate({"realTime": {}})})
    with pytest.raises(SpecError, match="ExactlyOnce, which writes batch by batch"):
        check_spec(real_time)


@pytest.mark.parametrize(
    ("code", "reason", "words"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, Reason.SOURCE_TOPIC_DELETED, "topic x.out"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Reason.AUTHORIZATION_FAILED, "READ on its topic and group"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Reason.AUTHORIZATION_FAILED, "transactional ids"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, Reason.AUTHORIZATION_FAILED, "group"),
        (KafkaError._MSG_TIMED_OUT, Reason.KAFKA_UNAVAILABLE, "does not respond"),
        (KafkaError._TIMED_OUT, Reason.KAFKA_UNAVAILABLE, "does not respond"),
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, Reason.QUERY_FAILED, "transaction.max.timeout.ms"),
        (KafkaError._FENCED, Reason.QUERY_FAILED, "another process aborted a transaction"),
    ],
)  # fmt: skip
def test_an_error_of_a_takeover_becomes_the_reason_of_that_of_sparks_own_producer(
    code: int, reason: Reason, words: str
) -> None:
    publisher = build_publishers(build({}), 1, {"x.out": 4})["out"]
    told = explain_error(publisher, KafkaException(KafkaError(code)))
    error = classify(Failure((Cause("PublishError", str(told)),)), "sink 'out'")
    assert (error.reason, error.retryable) == (reason, True)
    assert words in error.message
