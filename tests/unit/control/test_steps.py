"""The order of a decision's steps: where two steps have a plan, the earlier one decides."""

from datetime import timedelta
from typing import Any

import pytest

from fakes.context import START
from kappa_crds.kinds import find_kind
from kappa_crds.reasons import Reason
from kappa_operator.cdcsource import connector as cdc_connector
from kappa_operator.cdcsource import decide as cdcsource
from kappa_operator.cdcsource.check import check_database
from kappa_operator.cdcsource.deletion import delete_source
from kappa_operator.cdcsource.model import CDCSourceObserved, ConnectorView
from kappa_operator.connect.model import ConnectorStatus
from kappa_operator.engine.keys import Key
from kappa_operator.engine.kinds import KindEntry, Step
from kappa_operator.errors import BrokerUnreachable
from kappa_operator.kafka.model import ClusterView, KafkaAccess, TopicView
from kappa_operator.kafkacluster import decide as kafkacluster
from kappa_operator.kafkacluster.decide import KafkaClusterObserved
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.lagpolicy import decide as lagpolicy
from kappa_operator.lagpolicy import deletion as lagpolicy_deletion
from kappa_operator.lagpolicy.model import LagPolicyObserved
from kappa_operator.reprocessing import ending, phases
from kappa_operator.reprocessing.model import ReprocessingObserved
from kappa_operator.reprocessing.requests import refuse_request
from kappa_operator.savepoint import decide as savepoint
from kappa_operator.savepoint.deletion import delete_savepoint
from kappa_operator.savepoint.model import SavepointObserved
from kappa_operator.savepoint.work import sweep_work
from kappa_operator.statestore import decide as statestore
from kappa_operator.statestore.model import StateStoreObserved
from kappa_operator.statestore.upkeep import FIELDS, begin_upkeep, measure_task_wait
from kappa_operator.topic import decide as topic
from kappa_operator.topic.checks import TopicObserved
from kappa_operator.topic.deletion import delete_topic

NOW = START + timedelta(days=1)
MAIN = Key("KafkaCluster", "shop", "main")


def parse(kind: str, spec: dict[str, Any], status: Any = None, **metadata: Any) -> Any:
    known = {"name": "it", "namespace": "shop", "uid": "u", "generation": 1, **metadata}
    return find_kind(kind).parse({"metadata": known, "spec": spec, "status": status or {}})


DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
TAKEN = {"taken": "2026-01-01T00:00:00Z", "state": "Ready"}
READY = [
    {"type": kind, "status": status, "reason": "SavepointReady", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    for kind, status in (("Ready", "True"), ("Stalled", "False"))
]  # fmt: skip
WORK = {"number": 1, "task": "Take", "since": "2026-01-01T00:00:00Z", "state": "Ended"}
BUCKET = {
    "s3": {"bucket": "bucket", "region": "eu-central-1"},
    "collection": {"request": "now"},
    "measureInterval": "1h",
}
VERIFIED = {"lastCheck": "2026-01-02T00:00:00Z", "observedGeneration": 1, "conditions": READY}
BROKER = ["kafka:9092"]

CONFLICT = TopicObserved(
    parse("Topic", {"suspend": True, "deletionPolicy": "Delete"}, **DELETED),
    "orders", MAIN, TopicView("orders", "id", 1, 1), BrokerUnreachable("none"), Key("Topic", "lab", "orders"),
)  # fmt: skip
POLICY = {"clusterRef": "main", "selector": {"groups": ["g"]}, "warning": {"lag": "1m"}, "remediation": {"throttleProducers": {"producers": [{"clientId": "c"}]}}}  # fmt: skip
CDC = {
    "postgresql": {"host": "db", "database": "d", "credentialsSecretRef": {"name": "s"}},
    "tables": {"include": ["t"]},
}
CDC_STATUS = {
    "lost": "the slot",
    "snapshotRequest": "",
    "lastCheck": NOW.isoformat(),
    "work": {"number": 1, "state": "Ended", "at": NOW.isoformat(), "fingerprint": "x"},
}
VIEW = ConnectorView({"kappa.uid": "u"}, ConnectorStatus.model_validate({"connector": {"state": "PAUSED"}}))
FAILED = ConnectorView({"kappa.uid": "u"}, ConnectorStatus.model_validate({"connector": {"state": "FAILED"}}))
MAIN_CLUSTER = parse("KafkaCluster", {"bootstrapServers": BROKER})


def observe_source(
    view: ConnectorView | None = VIEW, request: str = "", **metadata: Any
) -> CDCSourceObserved:
    resource = parse("CDCSource", {**CDC, "snapshot": {"request": request}}, CDC_STATUS, **metadata)
    return CDCSourceObserved(resource, MAIN_CLUSTER, connector=view)


ORDERS: list[tuple[str, Step[Any], Step[Any], Any]] = [
    ("Topic", delete_topic, topic.hold_topic, CONFLICT),
    ("Topic", topic.hold_topic, topic.report_conflict, CONFLICT),
    ("Topic", topic.report_conflict, topic.report_problem, CONFLICT),
    ("Topic", topic.report_problem, topic.report_suspended, CONFLICT),
    ("Topic", topic.report_suspended, topic.change_topic, TopicObserved(parse("Topic", {"suspend": True, "partitions": 3}), "t", MAIN, TopicView("t", "id", 1, 1))),
    ("Topic", topic.report_suspended, topic.create_topic, TopicObserved(parse("Topic", {"suspend": True}), "t", MAIN)),
    ("Topic", topic.change_topic, topic.report_topic, TopicObserved(parse("Topic", {"partitions": 3}), "t", MAIN, TopicView("t", "id", 1, 1))),
    ("KafkaCluster", kafkacluster.reconnect, kafkacluster.report_connection, KafkaClusterObserved(parse("KafkaCluster", {"bootstrapServers": BROKER}), ClusterView("id", 1, 1, 0), access=KafkaAccess.of({}))),
    ("StateStore", statestore.delete_store, statestore.hold_store, StateStoreObserved(parse("StateStore", {"pvc": {"size": "1Gi"}, "deletionPolicy": "Delete"}, **DELETED))),
    ("StateStore", statestore.hold_store, statestore.check_store, StateStoreObserved(parse("StateStore", {"pvc": {"size": "1Gi"}, "deletionPolicy": "Delete"}))),
    ("StateStore", statestore.check_store, begin_upkeep, StateStoreObserved(parse("StateStore", BUCKET, VERIFIED, generation=2))),
    ("StateStore", begin_upkeep, statestore.wait_for_next, StateStoreObserved(parse("StateStore", BUCKET, VERIFIED))),
    ("Savepoint", sweep_work, delete_savepoint, SavepointObserved(parse("Savepoint", {"pipelineRef": "p"}, {"work": WORK}, **DELETED))),
    ("Savepoint", delete_savepoint, savepoint.hold_files, SavepointObserved(parse("Savepoint", {"pipelineRef": "p", "deletionPolicy": "Delete"}, **DELETED))),
    ("Savepoint", savepoint.hold_files, savepoint.wait_for_pipeline, SavepointObserved(parse("Savepoint", {"pipelineRef": "p", "deletionPolicy": "Delete"}))),
    ("Savepoint", savepoint.verify_kept, savepoint.export_kept, SavepointObserved(parse("Savepoint", {"pipelineRef": "p", "verify": {}, "exports": [{"storeRef": "s"}]}, TAKEN | {"conditions": READY}), copies={"s": BrokerUnreachable("none")})),
    ("Savepoint", savepoint.rest_failed, savepoint.wait_for_pipeline, SavepointObserved(parse("Savepoint", {"pipelineRef": "p"}, {"state": "Failed"}))),
    ("Savepoint", savepoint.import_savepoint, savepoint.wait_for_pipeline, SavepointObserved(parse("Savepoint", {"pipelineRef": "p", "import": {"name": "s"}}))),
    ("LagPolicy", lagpolicy_deletion.delete_policy, lagpolicy_deletion.hold_policy, LagPolicyObserved(parse("LagPolicy", POLICY, **DELETED))),
    ("LagPolicy", lagpolicy_deletion.hold_policy, lagpolicy.evaluate, LagPolicyObserved(parse("LagPolicy", POLICY), "main")),
    ("CDCSource", delete_source, cdcsource.hold_source, observe_source(VIEW, deletionTimestamp=DELETED["deletionTimestamp"])),
    ("CDCSource", cdcsource.hold_source, cdcsource.report_problem, CDCSourceObserved(parse("CDCSource", CDC), problem=BrokerUnreachable("none"))),
    ("CDCSource", cdcsource.report_problem, check_database, CDCSourceObserved(parse("CDCSource", CDC), problem=BrokerUnreachable("none"))),
    ("CDCSource", cdc_connector.report_foreign, check_database, observe_source(ConnectorView({}, VIEW.status))),
    ("CDCSource", check_database, cdc_connector.keep_credentials, observe_source()),
    ("CDCSource", cdc_connector.keep_credentials, cdc_connector.take_snapshot, observe_source(request="again")),
    ("CDCSource", cdc_connector.stop_lost, cdc_connector.change_connector, observe_source()),
    ("CDCSource", cdc_connector.take_snapshot, cdc_connector.change_connector, observe_source(request="again")),
    ("CDCSource", cdc_connector.change_connector, cdc_connector.set_state, observe_source()),
    ("CDCSource", cdc_connector.restart_failed, cdc_connector.report_source, observe_source(FAILED)),
    ("Reprocessing", ending.release_reprocessing, ending.report_uncontrolled, ReprocessingObserved(parse("Reprocessing", {"pipelineRef": "p"}, **DELETED))),
    ("Reprocessing", refuse_request, ending.report_end, ReprocessingObserved(parse("Reprocessing", {"pipelineRef": "p", "request": {"action": "Cut"}}, {"phase": "Done"}))),
    ("Reprocessing", ending.end_early, phases.catch_up, ReprocessingObserved(parse("Reprocessing", {"pipelineRef": "p", "request": {"action": "Abort"}}, {"phase": "CatchingUp"}))),
    ("LagPolicy", lagpolicy.wait_for_sample, lagpolicy.evaluate, LagPolicyObserved(parse("LagPolicy", POLICY, {"lastSampled": NOW.isoformat(), "observedGeneration": 1}), "main")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "first", "second", "observed"),
    ORDERS,
    ids=[f"{a.__name__}-{b.__name__}" for _, a, b, _ in ORDERS],
)
def test_of_two_steps_with_a_plan_the_earlier_one_decides(
    kind: str, first: Step[Any], second: Step[Any], observed: Any
) -> None:
    entry: KindEntry[Any] = KIND_TABLE[kind]
    earlier, later = first(observed, NOW), second(observed, NOW)
    assert earlier is not None
    assert later is not None
    assert earlier != later, "the order does not matter here"
    assert entry.steps.index(first) < entry.steps.index(second)


def test_a_store_is_collected_before_it_is_measured() -> None:
    store = parse("StateStore", BUCKET, VERIFIED)
    assert [(field, measure_task_wait(store, task, NOW)) for task, field in FIELDS.items()] == [
        ("collection", 0),
        ("measurement", 0),
    ]


@pytest.mark.parametrize("entry", KIND_TABLE.values(), ids=KIND_TABLE)
def test_a_step_is_in_the_decision_once(entry: KindEntry[Any]) -> None:
    assert len({*entry.steps}) == len(entry.steps)


def test_the_first_step_with_a_plan_decides() -> None:
    plan = KIND_TABLE["Topic"].decide(TopicObserved(parse("Topic", {"suspend": True}), "t", MAIN), NOW)
    assert plan.status is not None
    assert plan.status.conditions[0].reason == Reason.SUSPENDED
