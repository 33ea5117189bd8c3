"""A KafkaCluster with workers of Kafka Connect on fakes, and what Kubernetes' controllers do with its StatefulSet."""

from typing import Any

from fakes.cluster import Body
from fakes.context import Operator, build_resource
from kappa_operator.connect.names import CONNECT_LABEL
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.settings import Settings

MAIN = Key("KafkaCluster", "shop", "main")
REF = ObjectRef("kappa-platform.io/v1alpha1", *MAIN)
WORKERS = ObjectRef("apps/v1", "StatefulSet", "shop", "main-connect")
REST = ObjectRef("v1", "Secret", "shop", "main-connect-rest")
TOPICS = ("connect.shop.main.configs", "connect.shop.main.offsets", "connect.shop.main.status")


def start(settings: Settings | None = None, **spec: Any) -> Operator:
    """Return an operator with a KafkaCluster that declares two workers, unless `spec` has something else."""
    operator = Operator(KIND_TABLE, settings=settings)
    declare(operator, **({"connect": {"workers": {}}} | spec))
    return operator


def declare(operator: Operator, **spec: Any) -> None:
    """Write the KafkaCluster, as a user does."""
    operator.cluster.put(
        build_resource("KafkaCluster", "main", **({"bootstrapServers": ["kafka:9092"]} | spec))
    )


def run_pods(operator: Operator, ready: int | None = None, **status: Any) -> None:
    """Do what the controller and the kubelet do: create the pods of the StatefulSet, the first ones of them ready."""
    stateful_set = operator.cluster.read(WORKERS)
    wanted = 0 if stateful_set is None else stateful_set["spec"]["replicas"]
    for pod in operator.cluster.find("v1", "Pod", "shop", {CONNECT_LABEL: "main"}):
        operator.cluster.remove(ObjectRef.of(pod))
    for number in range(wanted):
        is_ready = number < (wanted if ready is None else ready)
        condition = {"type": "Ready", "status": "True" if is_ready else "False"}
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": WORKERS.name, "controller": True}
        metadata = {
            "name": f"main-connect-{number}", "namespace": "shop", "labels": {CONNECT_LABEL: "main"},
            "ownerReferences": [{**owner, "uid": (stateful_set or {})["metadata"]["uid"]}],
        }  # fmt: skip
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}}
        operator.cluster.put(body)
        more = {} if is_ready else status
        operator.cluster.patch(ObjectRef.of(body), status={"conditions": [condition], **more})


async def settle(operator: Operator) -> Operator:
    """Let operator and node take turns until all workers are ready; return the last life of the operator."""
    operator = await operator.settle(MAIN)
    run_pods(operator)
    return await operator.settle(MAIN)


def get_connect(operator: Operator) -> Body:
    """Return what the status has of Kafka Connect."""
    found: Body = (operator.get(MAIN) or {}).get("status", {}).get("connect", {})
    return found


def read_template(operator: Operator) -> Body:
    """Return the template of the workers."""
    template: Body = (operator.cluster.read(WORKERS) or {})["spec"]["template"]
    return template
