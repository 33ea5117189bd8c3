"""What bounds a batch: its time, or the number of records in the spec."""

from typing import Any, cast

import pytest

from kappa_crds.batches import NATIVE_KAFKA
from kappa_crds.replay import ReplayProfile
from kappa_crds.revision import Revision
from kappa_pipelines.kafka.subscription import build_subscription
from kappa_pipelines.sources.kafka import KafkaSource, build_read_options
from kappa_pipelines.sources.values import Values
from spark.revisions import build_revision

LOCAL = {"spark.master": "local[2]"}
FIXED = {"maxOffsetsPerTrigger": "4000000"}
TIMED = {"kappaTargetMillis": "20000", "kappaFirstRecords": "1000000", "kappaMostRecords": "4000000"}
PYTHON = {"pythonFrom": {"configMapRef": {"name": "code"}}}


def build(conf: dict[str, str], *sources: dict[str, Any], **spec: Any) -> Revision:
    written = {
        "sources": [
            {"name": f"s{number}", "topic": "t", "format": {"json": {"schema": "k BIGINT"}}, **source}
            for number, source in enumerate(sources or ({},))
        ],
        "sinks": [{"name": "out", "from": "s0", "kafka": {"topic": "out"}}],
        **spec,
    }
    return build_revision(written, "/ck", "kafka:9092", spark_conf=conf)


def find_limit(revision: Revision, replay: ReplayProfile | None = None) -> dict[str, str]:
    """Return the options that bound a batch."""
    source = revision.spec.sources[0]
    built = KafkaSource(source, build_subscription(revision, source), cast("Values", None))
    options = build_read_options(revision, built, replay)
    return {name: value for name, value in options.items() if name.startswith(("kappa", "max"))}


@pytest.mark.parametrize(
    ("conf", "trigger", "limit"),
    [
        (LOCAL, {}, TIMED),
        (
            {"spark.master": "k8s://a", "spark.executor.instances": "50", "spark.executor.cores": "2"},
            {},
            TIMED | {"kappaFirstRecords": "2500000", "kappaMostRecords": "10000000"},
        ),
        (LOCAL, {"interval": "5s"}, TIMED),
        (LOCAL, {"interval": "1m"}, TIMED | {"kappaTargetMillis": "60000", "kappaFirstRecords": "4000000"}),
        ({**LOCAL, NATIVE_KAFKA: "false"}, {}, FIXED),
        (LOCAL, {"maxRecords": 10}, {"maxOffsetsPerTrigger": "10"}),
        (LOCAL, {"realTime": {}}, {}),
    ],
)
def test_its_time_bounds_a_batch_unless_the_spec_or_the_mode_does(
    conf: dict[str, str], trigger: dict[str, Any], limit: dict[str, str]
) -> None:
    assert find_limit(build(conf, trigger=trigger)) == limit


def test_the_sources_share_the_records_of_a_batch() -> None:
    limit = find_limit(build(LOCAL, {}, {"topic": "u"}))
    assert limit == TIMED | {"kappaFirstRecords": "500000", "kappaMostRecords": "2000000"}


def test_the_first_batch_is_small_where_python_processes_it_at_once() -> None:
    assert find_limit(build(LOCAL, **PYTHON)) == TIMED | {"kappaFirstRecords": "400000"}
    three = {"spark.master": "k8s://a", "spark.executor.instances": "3"}
    assert find_limit(build(three, **PYTHON)) == TIMED | {"kappaFirstRecords": "600000"}
    many = {"spark.master": "k8s://a", "spark.executor.instances": "9"}
    assert find_limit(build(many, **PYTHON)) == TIMED
    assert find_limit(build(LOCAL, trigger={"interval": "5s"}, **PYTHON))["kappaFirstRecords"] == "400000"


def test_the_first_batch_has_the_most_records_where_its_rest_would_wait_for_a_long_interval() -> None:
    for spec in ({}, PYTHON):
        limit = find_limit(build(LOCAL, trigger={"interval": "21s"}, **spec))
        assert limit["kappaFirstRecords"] == limit["kappaMostRecords"]


def test_beside_whole_transactions_a_batch_has_so_many_records() -> None:
    transactions = {"columns": {"op": "op"}, "transactions": {"topic": "c.transaction"}}
    whole = {"topic": "c.u", "isolationLevel": "ReadCommitted", "envelope": {"debezium": transactions}}
    assert find_limit(build(LOCAL, {}, whole)) == {"maxOffsetsPerTrigger": "2000000"}


def test_a_replay_begins_without_records() -> None:
    assert find_limit(build(LOCAL), ReplayProfile()) == TIMED | {"maxOffsetsPerTrigger": "0"}
