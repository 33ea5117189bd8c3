"""The pods that collect and measure a state store."""

from kappa_crds.savepoint_work import CollectRequest, SavepointTask, WorkRequest
from kappa_crds.statestore import CollectionStatus, Measurement
from kappa_operator.engine.actions import Manifest
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.pipeline.objects import ROLE_LABEL
from kappa_operator.savepoint.worker import Placement, build_worker_pod
from kappa_operator.statestore.objects import STORE_LABEL, StateStoreResource

COLLECTOR_ROLE = {ROLE_LABEL: "store-collection"}
MEASURER_ROLE = {ROLE_LABEL: "store-measurement"}


def build_collector_ref(resource: StateStoreResource, collection: CollectionStatus) -> ObjectRef:
    """Return the reference of the pod for one collection. There can be no two pods of one name."""
    metadata = resource.metadata
    return ObjectRef("v1", "Pod", metadata.namespace, f"{metadata.name}-collect-{collection.number}")


def build_collector(
    resource: StateStoreResource, collection: CollectionStatus, collect: CollectRequest, placement: Placement
) -> Manifest:
    """Return the pod for one collection."""
    location = placement.storage.root
    request = WorkRequest(task=SavepointTask.COLLECT, name="", location=location, collect=collect)
    labels = _build_labels(resource) | COLLECTOR_ROLE
    return build_worker_pod(resource, build_collector_ref(resource, collection), labels, request, placement)


def build_measurer_ref(resource: StateStoreResource, measurement: Measurement) -> ObjectRef:
    """Return the reference of the pod for one measurement. There can be no two pods of one name."""
    metadata = resource.metadata
    return ObjectRef("v1", "Pod", metadata.namespace, f"{metadata.name}-measure-{measurement.number}")


def build_measurer(resource: StateStoreResource, measurement: Measurement, placement: Placement) -> Manifest:
    """Return the pod for one measurement. It can only read."""
    location, namespace = placement.storage.root, resource.metadata.namespace
    request = WorkRequest(task=SavepointTask.MEASURE, name="", location=location, namespace=namespace)
    labels = _build_labels(resource) | MEASURER_ROLE
    return build_worker_pod(resource, build_measurer_ref(resource, measurement), labels, request, placement)


def _build_labels(resource: StateStoreResource) -> dict[str, str]:
    return {"app.kubernetes.io/name": "kappa-state-store", STORE_LABEL: resource.metadata.name}
