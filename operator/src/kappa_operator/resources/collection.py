"""The pod that looks through a state store for what nothing needs any more."""

from kappa_crds.collection import CollectionStatus
from kappa_crds.savepoint_work import CollectRequest, SavepointTask, WorkRequest
from kappa_operator.actions import Manifest
from kappa_operator.keys import ObjectRef
from kappa_operator.resources.pipeline import ROLE_LABEL
from kappa_operator.resources.statestore import STORE_LABEL, StateStoreResource
from kappa_operator.resources.worker import Placement, build_worker_pod

COLLECTOR_ROLE = {ROLE_LABEL: "store-collection"}


def build_collector_ref(resource: StateStoreResource, collection: CollectionStatus) -> ObjectRef:
    """Return the reference of the pod for one collection. There can be no two pods of one name."""
    metadata = resource.metadata
    return ObjectRef("v1", "Pod", metadata.namespace, f"{metadata.name}-collect-{collection.number}")


def build_collector(
    resource: StateStoreResource, collection: CollectionStatus, collect: CollectRequest, placement: Placement
) -> Manifest:
    """Return the pod for one collection."""
    labels = {
        "app.kubernetes.io/name": "kappa-state-store",
        STORE_LABEL: resource.metadata.name,
        **COLLECTOR_ROLE,
    }
    location = placement.storage.root
    request = WorkRequest(task=SavepointTask.COLLECT, name="", location=location, collect=collect)
    return build_worker_pod(resource, build_collector_ref(resource, collection), labels, request, placement)
