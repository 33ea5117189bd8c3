"""A new kind is one folder and one entry in the table: here a kind of the tests, from a manifest to its deletion."""

import asyncio
import contextlib
import time
from dataclasses import dataclass
from datetime import datetime

import pytest

from fakes.cluster import FakeCluster
from fakes.context import Clock, Operator, build_resource
from fakes.queue import count_due
from kappa_crds import API_VERSION
from kappa_crds.kafkacluster import KAFKA_CLUSTER
from kappa_crds.kinds import KINDS
from kappa_crds.model import Model
from kappa_crds.reasons import Reason
from kappa_crds.resource import Kind, Resource, ResourceStatus
from kappa_operator.engine.actions import CreateObject, DeleteObject, RemoveFinalizer
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.controller import Controller
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.kinds import KindEntry, OwnedPods, Step, build_table
from kappa_operator.engine.plan import (
    Failure,
    Plan,
    block_deletion,
    hold_deletion,
    ready,
    update_status,
    working,
)
from kappa_operator.engine.queue import WorkQueue
from kappa_operator.engine.references import resolve_ready
from kappa_operator.errors import ReferenceProblem
from kappa_operator.kinds import KIND_TABLE

FINALIZER = "kappa-platform.io/greeting"
HELLO, MAIN = Key("Greeting", "shop", "hello"), Key("KafkaCluster", "shop", "main")
NOTE = ObjectRef("v1", "ConfigMap", "shop", "hello")


class GreetingSpec(Model):
    """What to greet, by way of a KafkaCluster."""

    text: str = "hello"
    cluster_ref: str | None = None


GREETING = Kind("Greeting", "greetings", ("gr",), "A greeting.", GreetingSpec, ResourceStatus, ())


@dataclass(frozen=True, slots=True)
class GreetingObserved:
    """A greeting, its ConfigMap, and what keeps it from its cluster."""

    resource: Resource[GreetingSpec, ResourceStatus]
    uid: str | None
    problem: ReferenceProblem | None = None


async def observe_greeting(
    context: OperatorContext, key: Key, failures: tuple[Failure, ...]
) -> GreetingObserved | None:
    resource = context.cache.read(key)
    if resource is None:
        return None
    body = await context.cluster.get(NOTE)
    uid = None if body is None else body["metadata"]["uid"]
    try:
        resolve_ready(context.cache, "KafkaCluster", key.namespace, resource.spec.cluster_ref)
    except ReferenceProblem as problem:
        return GreetingObserved(resource, uid, problem)
    return GreetingObserved(resource, uid)


def delete_greeting(observed: GreetingObserved, now: datetime) -> Plan | None:
    if observed.resource.metadata.deletion_timestamp is None:
        return None
    if observed.resource.spec.text == "stay":
        return block_deletion(observed.resource, Reason.DELETION_BLOCKED, "it stays", now, 15.0)
    delete = () if observed.uid is None else (DeleteObject(NOTE, observed.uid, "it goes"),)
    return Plan((*delete, RemoveFinalizer(FINALIZER)))


def hold_greeting(observed: GreetingObserved, now: datetime) -> Plan | None:
    return hold_deletion(observed.resource, FINALIZER, wanted=True)


def wait_for_cluster(observed: GreetingObserved, now: datetime) -> Plan | None:
    if observed.problem is None:
        return None
    verdict = working("Waiting", observed.problem.reason, observed.problem.message)
    return Plan(status=update_status(observed.resource, verdict, now))


def write_greeting(observed: GreetingObserved, now: datetime) -> Plan | None:
    if observed.uid is not None:
        return None
    metadata = {"name": "hello", "namespace": "shop"}
    data = {"text": observed.resource.spec.text}
    return Plan(
        (CreateObject({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}),),
        requeue=True,
    )


def report_greeting(observed: GreetingObserved, now: datetime) -> Plan:
    return Plan(
        status=update_status(observed.resource, ready("Ready", Reason.RECONCILED, "it is there"), now)
    )


GREETING_STEPS: tuple[Step[GreetingObserved], ...] = (
    delete_greeting,
    hold_greeting,
    wait_for_cluster,
    write_greeting,
    report_greeting,
)
FORGOTTEN: list[Key] = []
ENTRY = KindEntry(
    GREETING,
    observe_greeting,
    GREETING_STEPS,
    finalizer=FINALIZER,
    defaults=("clusterRef",),
    pods=OwnedPods("kappa-platform.io/greeting"),
    on_deleted=lambda _, key: FORGOTTEN.append(key),
)
TABLE = build_table((*KIND_TABLE.values(), ENTRY), (*KINDS, GREETING))


def build_operator() -> Operator:
    """The chart grants nothing for a kind of the tests, so its permissions are left out."""
    return Operator(TABLE, cluster=FakeCluster(now=Clock()))


async def start() -> Operator:
    operator = build_operator()
    operator.cluster.put(build_resource("Greeting", "hello"))
    await operator.settle(HELLO)
    return operator


async def work(operator: Operator, *keys: Key) -> None:
    """Have the controller work these keys, and those that they wake."""
    queue = WorkQueue(time.monotonic)
    task = asyncio.create_task(Controller(operator.context, queue).run())
    for key in keys:
        queue.add(key)
    for _ in range(200):
        await asyncio.sleep(0.01)
        if queue.working == 0 and count_due(queue, 0.5) == 0:
            break
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_it_waits_for_what_it_names_and_is_woken_when_that_is_ready() -> None:
    operator = await start()
    assert operator.get_condition(HELLO)[:2] == ("False", "ClusterNotFound")
    operator.cluster.put(build_resource(KAFKA_CLUSTER.name, "main", bootstrapServers=["kafka:9092"]))
    await work(operator, MAIN)
    assert operator.get_condition(HELLO)[:2] == ("True", "Reconciled")
    assert (operator.cluster.read(NOTE) or {})["data"] == {"text": "hello"}


async def test_its_deletion_takes_its_object_along_and_what_is_remembered() -> None:
    operator = await start()
    operator.cluster.put(build_resource(KAFKA_CLUSTER.name, "main", bootstrapServers=["kafka:9092"]))
    await operator.settle(MAIN, HELLO)
    operator.cluster.remove(ObjectRef(API_VERSION, *HELLO))
    await operator.settle(HELLO)
    assert operator.get(HELLO) is None
    assert operator.cluster.read(NOTE) is None
    assert FORGOTTEN[-1] == HELLO


async def test_one_that_this_version_cannot_read_is_reported_as_invalid() -> None:
    operator = build_operator()
    operator.cluster.put(build_resource("Greeting", "hello", text={"not": "a text"}))
    await operator.settle(HELLO)
    assert operator.get_condition(HELLO)[:2] == ("False", "InvalidSpec")


def test_a_kind_without_an_entry_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"lacks .*Greeting"):
        build_table(KIND_TABLE.values(), (*KINDS, GREETING))
    with pytest.raises(ValueError, match=r"unknown .*Greeting"):
        build_table((*KIND_TABLE.values(), ENTRY), KINDS)
    with pytest.raises(ValueError, match="two entries"):
        build_table((*KIND_TABLE.values(), *KIND_TABLE.values()), KINDS)
