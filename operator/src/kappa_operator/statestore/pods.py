"""The pods of a state store: each checks, collects or measures it once, and reaches nothing but the store."""

from typing import Any

from kappa_crds.savepoint_work import SavepointTask, WorkRequest
from kappa_operator.engine.actions import ApplyObject, CreateObject
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.plan import Failure
from kappa_operator.pipeline.objects import ROLE_LABEL
from kappa_operator.savepoint.worker import Placement, build_worker_pod
from kappa_operator.statestore.model import StateStoreObserved
from kappa_operator.statestore.network import build_worker_policy
from kappa_operator.statestore.objects import STORE_LABEL, StateStoreResource, build_storage

ROLES = {
    SavepointTask.CHECK: {ROLE_LABEL: "store-check"},
    SavepointTask.COLLECT: {ROLE_LABEL: "store-collection"},
    SavepointTask.MEASURE: {ROLE_LABEL: "store-measurement"},
}


def build_pod_ref(resource: StateStoreResource, task: SavepointTask, number: int) -> ObjectRef:
    """Return the reference of the pod with that number. There can be no two pods of one name."""
    metadata = resource.metadata
    return ObjectRef("v1", "Pod", metadata.namespace, f"{metadata.name}-{task.lower()}-{number}")


def create_pod(
    observed: StateStoreObserved, task: SavepointTask, number: int, **fields: Any
) -> tuple[ApplyObject | CreateObject, ...]:
    """Return the actions that create the pod, after its NetworkPolicy; `fields` are more of its request."""
    resource, storage = observed.resource, build_storage(observed.resource)
    request = WorkRequest(task=task, location=storage.root, **{"name": "", **fields})
    own = {"app.kubernetes.io/name": "kappa-state-store", STORE_LABEL: resource.metadata.name}
    placement = Placement(storage, None, observed.node, observed.image, observed.pull_policy, observed.pods)
    ref = build_pod_ref(resource, task, number)
    pod = build_worker_pod(resource, ref, own | ROLES[task], request, placement)
    if observed.network is None:
        return (CreateObject(pod),)
    name, selector = f"{resource.metadata.name}-store", {STORE_LABEL: resource.metadata.name}
    policy = build_worker_policy(resource, name, selector, (storage,), observed.network)
    return ApplyObject(policy), CreateObject(pod)


def find_refusal(observed: StateStoreObserved, task: SavepointTask, number: int) -> Failure | None:
    """Return why that pod, or its NetworkPolicy, could not be created, if it could not."""
    ref = build_pod_ref(observed.resource, task, number)
    for failure in observed.failures:
        if isinstance(failure.action, ApplyObject):
            return failure
        if isinstance(failure.action, CreateObject) and ObjectRef.of(failure.action.manifest) == ref:
            return failure
    return None
