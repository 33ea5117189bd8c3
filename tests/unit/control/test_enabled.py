"""The operator acts only in namespaces that grant it permissions; elsewhere each resource reports how to grant them."""

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from structlog.testing import capture_logs

from fakes.cluster import Body
from fakes.context import FakeDrivers, Operator, build_resource
from fakes.permissions import PermittedCluster
from kappa_crds import API_VERSION
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.watch_thread import Step
from kappa_operator.engine.watches import PodWatches
from kappa_operator.errors import KappaError, Refused
from kappa_operator.kafkacluster.observe import list_clusters
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.settings import Settings
from unit.control.lives import PIPELINE, SPEC, Life, write

OPTED = Settings(namespace_role="kappa-namespace")
CLUSTER, ORDERS = Key("KafkaCluster", "shop", "main"), Key("Topic", "shop", "orders")
GRANT = (
    "kubectl create rolebinding kappa-operator --clusterrole=kappa-namespace"
    " --serviceaccount=kappa-system:kappa-operator --namespace=shop"
)


def start(*, disabled: bool, settings: Settings = OPTED) -> tuple[Operator, PermittedCluster]:
    operator = Operator(KIND_TABLE, settings=settings, remembers=True)
    assert isinstance(operator.cluster, PermittedCluster)
    operator.cluster.disabled = {"shop"} if disabled else set()
    operator.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"]))
    return operator, operator.cluster


def delete(operator: Operator, key: Key) -> None:
    operator.cluster.remove(ObjectRef(API_VERSION, *key))


def end_namespace(operator: Operator, *, terminating: bool) -> None:
    metadata: dict[str, Any] = {"name": "shop", "namespace": ""}
    if terminating:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    operator.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


async def create_topic() -> tuple[Operator, PermittedCluster]:
    """Return a Topic that deletes its data, in a namespace that was enabled and is not any more."""
    operator, cluster = start(disabled=False)
    operator.cluster.put(build_resource("Topic", "orders", deletionPolicy="Delete"))
    await operator.settle(CLUSTER, ORDERS)
    assert "orders" in operator.brokers["kafka:9092"].topics
    cluster.disabled = {"shop"}
    operator.clock.advance(61)
    return operator, cluster


async def test_without_permissions_a_resource_reports_the_command_that_grants_them() -> None:
    operator, _ = start(disabled=True)
    await operator.settle(CLUSTER)
    status, reason, message = operator.get_condition(CLUSTER)
    assert (status, reason) == ("False", "NamespaceNotEnabled")
    assert GRANT in message
    assert operator.get_condition(CLUSTER, "Stalled")[0] == "True"
    assert operator.list_events("NamespaceNotEnabled") == [message]


async def test_a_rolebinding_takes_effect_without_a_restart() -> None:
    operator, cluster = start(disabled=True)
    outcome = await operator.reconcile(CLUSTER)
    cluster.disabled = set()
    assert outcome.requeue_after is not None
    operator.clock.advance(outcome.requeue_after)
    await operator.settle(CLUSTER)
    assert operator.get_condition(CLUSTER)[:2] == ("True", "Connected")


async def test_lag_is_sampled_only_where_the_operator_acts() -> None:
    operator, cluster = start(disabled=True)
    await operator.settle(CLUSTER)
    assert list(list_clusters(operator.cache)) == []
    cluster.disabled = set()
    operator.clock.advance(61)
    await operator.settle(CLUSTER)
    assert [each.metadata.name for each in list_clusters(operator.cache)] == ["main"]


async def test_many_resources_of_a_namespace_cost_one_request() -> None:
    operator, cluster = start(disabled=True)
    keys = [Key("Topic", "shop", f"t{number}") for number in range(50)]
    for key in keys:
        cluster.put(build_resource("Topic", key.name))
        await operator.reconcile(key)
    assert cluster.reviews == ["shop"]


@pytest.mark.parametrize("settings", [Settings(), Settings(watch_namespaces=("shop",))])
async def test_an_installation_with_all_permissions_checks_none(settings: Settings) -> None:
    operator, cluster = start(disabled=False, settings=settings)
    await operator.settle(CLUSTER)
    assert operator.get_condition(CLUSTER)[1] == "Connected"
    assert cluster.reviews == []


async def test_a_driver_continues_where_the_permissions_are_taken_away() -> None:
    life = Life(settings=OPTED)
    await life.prepare()
    write(SPEC)(life)
    await life.settle()
    operator, cluster = life.operator, life.operator.cluster
    before, pods = operator.get(PIPELINE), cluster.find("v1", "Pod", "shop")
    assert isinstance(cluster, PermittedCluster)
    assert isinstance(operator.drivers, FakeDrivers)
    cluster.disabled = {"shop"}
    operator.clock.advance(61)
    await operator.reconcile(PIPELINE)
    after = operator.get(PIPELINE)
    assert before is not None
    assert after is not None
    assert operator.get_condition(PIPELINE)[:2] == ("False", "NamespaceNotEnabled")
    assert after["status"]["runs"] == before["status"]["runs"], "the write-ahead log stays"
    assert after["status"]["state"] == before["status"]["state"]
    assert cluster.find("v1", "Pod", "shop") == pods
    assert operator.drivers.stopped == []
    cluster.disabled = set()
    operator.clock.advance(61)
    await operator.reconcile(PIPELINE)
    assert operator.get_condition(PIPELINE)[:2] == ("True", "Running")


async def test_a_deletion_waits_for_the_permissions_while_the_namespace_stays() -> None:
    operator, cluster = await create_topic()
    end_namespace(operator, terminating=False)
    delete(operator, ORDERS)
    await operator.reconcile(ORDERS)
    assert operator.get_condition(ORDERS)[1] == "NamespaceNotEnabled"
    assert "orders" in operator.brokers["kafka:9092"].topics
    cluster.disabled = set()
    operator.clock.advance(61)
    await operator.settle(ORDERS)
    assert operator.get(ORDERS) is None
    assert "orders" not in operator.brokers["kafka:9092"].topics


async def test_a_namespace_can_be_deleted_after_its_rolebinding_and_topics_still_go() -> None:
    operator, _ = await create_topic()
    end_namespace(operator, terminating=True)
    delete(operator, ORDERS)
    delete(operator, CLUSTER)
    await operator.reconcile(ORDERS)
    assert operator.get(ORDERS) is None
    assert "orders" not in operator.brokers["kafka:9092"].topics


async def test_no_pipeline_holds_a_namespace_that_is_deleted() -> None:
    life = Life(settings=OPTED)
    await life.prepare()
    write(SPEC)(life)
    await life.settle()
    assert isinstance(life.operator.cluster, PermittedCluster)
    life.operator.cluster.disabled = {"shop"}
    life.operator.clock.advance(61)
    end_namespace(life.operator, terminating=True)
    delete(life.operator, PIPELINE)
    await life.operator.reconcile(PIPELINE)
    assert life.operator.get(PIPELINE) is None


async def test_a_refused_request_has_the_permissions_checked_again() -> None:
    operator, cluster = start(disabled=False)
    await operator.settle(CLUSTER)
    cluster.disabled = {"shop"}
    cluster.put(build_resource("StateStore", "state", pvc={"size": "1Gi"}))
    store = Key("StateStore", "shop", "state")
    for _ in range(3):
        try:
            await operator.reconcile(store)
        except KappaError:
            operator.clock.advance(5)
    assert operator.get_condition(store)[1] == "NamespaceNotEnabled"


async def call(step: Step) -> None:
    await step()


async def test_pods_are_watched_in_enabled_namespaces_with_resources_only() -> None:
    operator, cluster = start(disabled=False)
    watches = PodWatches(call)
    operator.context = replace(operator.context, watch_pods=watches.set)
    await operator.settle(CLUSTER)
    assert watches.insights.namespaces == {"shop"}
    cluster.disabled = {"shop"}
    operator.clock.advance(61)
    await operator.reconcile(CLUSTER)
    assert watches.insights.namespaces == set()
    cluster.disabled = set()
    operator.clock.advance(61)
    await operator.settle(CLUSTER)
    assert watches.insights.namespaces == {"shop"}
    delete(operator, CLUSTER)
    await operator.reconcile(CLUSTER)
    assert watches.insights.namespaces == set()


async def test_an_event_that_the_api_server_refuses_is_logged_and_the_status_is_written() -> None:
    """A namespace that is being deleted admits no new objects, Events among them."""
    operator, cluster = start(disabled=True)
    create = cluster.create

    async def refuse_events(manifest: Body) -> Body:
        if manifest["kind"] == "Event":
            raise Refused("the namespace is being terminated")
        return await create(manifest)

    with patch.object(cluster, "create", refuse_events), capture_logs() as logs:
        await operator.reconcile(CLUSTER)
    assert operator.get_condition(CLUSTER)[1] == "NamespaceNotEnabled"
    (entry,) = (each for each in logs if each["event"] == "event not written")
    assert (entry["reason"], entry["error"]) == ("NamespaceNotEnabled", "the namespace is being terminated")
