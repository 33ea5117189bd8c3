"""Where a state store is, and the PVC that the operator creates for it."""

from kappa_crds.resource import Resource
from kappa_crds.statestore import PersistentVolume, StateStoreSpec, StateStoreStatus
from kappa_operator.engine.actions import Manifest
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.statestore.storage import (
    Storage,
    build_bucket_storage,
    build_claim_storage,
    build_hdfs_storage,
)

StateStoreResource = Resource[StateStoreSpec, StateStoreStatus]

STORE_LABEL = "kappa-platform.io/state-store"


def name_claim(resource: StateStoreResource) -> str:
    """Return the claim's name: the one given, or one made of the store's name."""
    pvc = resource.spec.pvc
    return pvc.claim_name if pvc and pvc.claim_name else f"{resource.metadata.name}-state"


def build_storage(resource: StateStoreResource) -> Storage:
    """Return where the store keeps state, as pods find it."""
    s3, hdfs = resource.spec.s3, resource.spec.hdfs
    if s3 is not None:
        return build_bucket_storage(resource.metadata.name, s3)
    if hdfs is not None:
        return build_hdfs_storage(resource.metadata.name, hdfs)
    pvc = resource.spec.pvc
    is_known = pvc is not None and (pvc.size is not None or pvc.access_mode == "ReadWriteMany")
    return build_claim_storage(name_claim(resource), pvc.access_mode if pvc and is_known else None)


def build_claim_ref(resource: StateStoreResource) -> ObjectRef:
    """Return the reference of the store's claim."""
    return ObjectRef("v1", "PersistentVolumeClaim", resource.metadata.namespace, name_claim(resource))


def build_claim_labels(resource: StateStoreResource) -> dict[str, str]:
    """Return the labels by which a PVC is known as created for the store."""
    return {STORE_LABEL: resource.metadata.name}


def build_claim(resource: StateStoreResource, pvc: PersistentVolume) -> Manifest:
    """Return the claim to be made.

    It has no owner: a claim with one would vanish with the StateStore, and the state with it.
    """
    spec: Manifest = {"accessModes": [pvc.access_mode], "resources": {"requests": {"storage": pvc.size}}}
    if pvc.storage_class_name:
        spec["storageClassName"] = pvc.storage_class_name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name_claim(resource),
            "namespace": resource.metadata.namespace,
            "labels": build_claim_labels(resource),
        },
        "spec": spec,
    }
