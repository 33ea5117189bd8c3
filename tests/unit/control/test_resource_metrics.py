"""What Prometheus is told of pipelines, savepoints, Kafka clusters and topics: what is known, of what is there, by who acts."""

from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from fakes.context import build_resource
from kappa_crds.kinds import KINDS
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.telemetry.metrics import OUTCOMES
from kappa_operator.telemetry.resource_metrics import METRICS, PIPELINE_METRICS, ResourceCollector
from kappa_pipelines.reporting.metrics import METRICS as OF_DRIVERS
from kappa_pipelines.reporting.metrics import PREFIX
from unit.control.pipelines import SPEC

ORDERS = {"namespace": "shop", "pipeline": "orders"}
NOON, ONE = "2026-01-01T12:00:00Z", "2026-01-01T13:00:00Z"
Found = dict[str, list[tuple[dict[str, str], float]]]


def say_ready(status: str, reason: str, since: str = NOON) -> list[dict[str, str]]:
    return [{"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": since}]


class Cluster:
    """Resources as the watches showed them."""

    def __init__(self) -> None:
        self.cache = ResourceCache(KIND_TABLE)
        self.leading = True
        self._collector = ResourceCollector(self.cache, lambda: self.leading)
        self._version = 0

    def show(self, kind: str, name: str, status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
        self._version += 1
        body = {**build_resource(kind, name, **spec), "status": status or {}}
        body["metadata"] |= {"resourceVersion": str(self._version), "generation": 1, "uid": name}
        self.cache.put(body)
        return body

    def read(self) -> Found:
        registry = CollectorRegistry()
        registry.register(self._collector)
        families = text_string_to_metric_families(generate_latest(registry).decode())
        return {
            family.name: [(each.labels, each.value) for each in family.samples if each.name.endswith(_END)]
            for family in families
        }


_END = tuple(metric.name + ("_total" if metric.kind == "counter" else "") for metric in METRICS)


def find_seconds(text: str) -> float:
    return datetime.fromisoformat(text).astimezone(UTC).timestamp()


def test_a_pipeline_has_one_series_of_each_metric() -> None:
    cluster = Cluster()
    status = {
        "state": "Running",
        "guarantee": "at least once",
        "conditions": say_ready("True", "Running"),
        "restarts": {"total": 7, "crashes": 2},
    }
    cluster.show("Pipeline", "orders", status, **SPEC, trigger={"interval": "30s"})
    found = cluster.read()
    info = {"state": "Running", "reason": "Running", "guarantee": "at least once"}
    assert found["kappa_pipeline_info"] == [(ORDERS | info, 1.0)]
    single = {
        name: samples[0][1] for name, samples in found.items() if [each for each, _ in samples] == [ORDERS]
    }
    assert single == {
        "kappa_pipeline_ready": 1.0,
        "kappa_pipeline_suspended": 0.0,
        "kappa_pipeline_restarts": 7.0,
        "kappa_pipeline_crashes": 2.0,
        "kappa_pipeline_trigger_interval_seconds": 30.0,
        "kappa_pipeline_savepoint_scheduled": 0.0,
    }


def test_the_last_change_of_a_pipeline_exports_its_progress() -> None:
    cluster = Cluster()
    new = {"checkpoint": 2, "insteadOf": 1, "fromBeginning": ["orders", "rates"]}
    verdict = {"kind": "Reprocess", "reasons": ["another key"]}
    upgrade = {
        "phase": "Watching", "revision": "r", "mode": "Auto", "handover": "Cold", "verdict": verdict, "newCheckpoint": new, "since": NOON,
    }  # fmt: skip
    cluster.show("Pipeline", "orders", {"upgrade": upgrade}, **SPEC)
    found = cluster.read()
    labels = {"phase": "Watching", "mode": "Auto", "handover": "Cold", "verdict": "Reprocess"}
    assert found["kappa_pipeline_upgrade_info"] == [(ORDERS | labels, 1.0)]
    assert found["kappa_pipeline_upgrade_phase_timestamp_seconds"] == [(ORDERS, find_seconds(NOON))]
    assert found["kappa_pipeline_upgrade_sources_from_beginning"] == [(ORDERS, 2.0)]


def test_a_change_in_its_dry_run_has_no_verdict_and_no_new_checkpoint() -> None:
    cluster = Cluster()
    cluster.show("Pipeline", "orders", {"upgrade": {"phase": "DryRun", "revision": "r"}}, **SPEC)
    found = cluster.read()
    labels = {"phase": "DryRun", "mode": "LastState", "handover": "Warm", "verdict": ""}
    assert found["kappa_pipeline_upgrade_info"] == [(ORDERS | labels, 1.0)]
    assert found["kappa_pipeline_upgrade_phase_timestamp_seconds"] == []
    assert found["kappa_pipeline_upgrade_sources_from_beginning"] == [(ORDERS, 0.0)]


def test_savepoints_are_counted_for_their_pipeline_and_the_newest_good_one_has_its_time() -> None:
    cluster = Cluster()
    cluster.show("Pipeline", "orders", {}, **SPEC, savepoints={"schedule": "0 3 * * *"})
    good = {"state": "Ready", "taken": NOON, "conditions": say_ready("True", "SavepointTaken")}
    damaged = {"state": "Damaged", "taken": ONE, "conditions": say_ready("False", "SavepointDamaged", ONE)}
    cluster.show("Savepoint", "a", good, pipelineRef="orders")
    cluster.show("Savepoint", "b", damaged, pipelineRef="orders")
    cluster.show("Savepoint", "c", {}, pipelineRef="another")
    found = cluster.read()
    counts = {labels["state"]: value for labels, value in found["kappa_pipeline_savepoints"]}
    assert {state: count for state, count in counts.items() if count} == {"Ready": 1.0, "Damaged": 1.0}
    assert found["kappa_pipeline_savepoint_scheduled"] == [(ORDERS, 1.0)]
    assert found["kappa_pipeline_savepoint_taken_timestamp_seconds"] == [(ORDERS, find_seconds(NOON))]
    assert found["kappa_pipeline_savepoint_failed_timestamp_seconds"] == [(ORDERS, find_seconds(ONE))]


def test_a_changed_savepoint_is_read_again() -> None:
    cluster = Cluster()
    cluster.show("Pipeline", "orders", {}, **SPEC)
    cluster.show("Savepoint", "a", {"state": "Taking"}, pipelineRef="orders")
    name = "kappa_pipeline_savepoint_taken_timestamp_seconds"
    assert cluster.read()[name] == []
    cluster.show("Savepoint", "a", {"state": "Ready", "taken": NOON}, pipelineRef="orders")
    assert cluster.read()[name] == [(ORDERS, find_seconds(NOON))]


def test_a_change_of_the_pipeline_or_of_its_savepoints_alone_is_in_the_next_scrape() -> None:
    cluster = Cluster()
    cluster.show("Pipeline", "orders", {"restarts": {"total": 1, "crashes": 0}}, **SPEC)
    cluster.show("Pipeline", "carts", {"restarts": {"total": 5, "crashes": 0}}, **SPEC)
    first = cluster.read()["kappa_pipeline_restarts"]
    assert cluster.read()["kappa_pipeline_restarts"] == first
    cluster.show("Pipeline", "orders", {"restarts": {"total": 2, "crashes": 0}}, **SPEC)
    found = cluster.read()
    assert [value for _, value in found["kappa_pipeline_restarts"]] == [5.0, 2.0], "sorted by name"
    assert found["kappa_pipeline_savepoint_taken_timestamp_seconds"] == []
    cluster.show("Savepoint", "s1", {"state": "Ready", "taken": NOON}, pipelineRef="orders")
    taken = cluster.read()["kappa_pipeline_savepoint_taken_timestamp_seconds"]
    assert taken == [(ORDERS, find_seconds(NOON))]


def test_a_kafka_cluster_exports_its_last_check() -> None:
    cluster = Cluster()
    status = {
        "conditions": say_ready("False", "ConnectionFailed"),
        "brokers": 3,
        "topics": 40,
        "lastSeen": NOON,
    }
    cluster.show("KafkaCluster", "main", status, bootstrapServers=["kafka:9092"])
    found, main = cluster.read(), {"namespace": "shop", "kafkacluster": "main"}
    assert {name: samples for name, samples in found.items() if name.startswith("kappa_kafkacluster")} == {
        "kappa_kafkacluster_ready": [(main, 0.0)],
        "kappa_kafkacluster_seen_timestamp_seconds": [(main, find_seconds(NOON))],
        "kappa_kafkacluster_brokers": [(main, 3.0)],
        "kappa_kafkacluster_topics": [(main, 40.0)],
    }


def test_resources_are_counted_by_kind_and_state_so_that_many_topics_are_few_series() -> None:
    cluster = Cluster()
    for number in range(5):
        cluster.show("Topic", f"t{number}", {"state": "Synced" if number else "Failed"})
    found = cluster.read()["kappa_operator_resources"]
    assert sorted(found, key=lambda sample: sample[1]) == [
        ({"kind": "Topic", "state": "Failed"}, 1.0),
        ({"kind": "Topic", "state": "Synced"}, 4.0),
    ]


def test_deleted_and_unreadable_resources_have_no_metrics() -> None:
    cluster = Cluster()
    gone = cluster.show("Pipeline", "orders", {}, **SPEC)
    cluster.show("Savepoint", "broken", {"state": "Ready"}, pipelineRef=7)
    cluster.show("Pipeline", "broken", {}, sources="none")
    cluster.cache.drop(gone)
    found = cluster.read()
    assert {name for name, samples in found.items() if samples} == {"kappa_operator_resources"}


def test_a_replica_that_is_not_the_leader_exports_nothing() -> None:
    cluster = Cluster()
    cluster.show("Pipeline", "orders", {}, **SPEC)
    cluster.leading = False
    assert [samples for samples in cluster.read().values() if samples] == []


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_is_named_by_the_conventions_of_prometheus(metric: Any) -> None:
    assert metric.name.startswith("kappa_")
    assert metric.name.endswith("_timestamp_seconds") == ("Unix time" in metric.help)
    assert not metric.name.endswith(("_total", "_count", "_sum")), "the suffix is the exporter's"


def test_no_metric_of_a_pipeline_has_a_name_that_its_driver_uses_too() -> None:
    of_drivers = {PREFIX + metric.name for metric in OF_DRIVERS}
    assert of_drivers.isdisjoint(metric.name for metric in PIPELINE_METRICS)


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS])
def test_counters_exist_before_the_first_event(kind: str) -> None:
    found = {
        outcome: REGISTRY.get_sample_value(
            "kappa_operator_reconciles_total", {"kind": kind, "outcome": outcome}
        )
        for outcome in OUTCOMES
    }
    assert None not in found.values(), "a rate cannot tell of the first failure otherwise"
