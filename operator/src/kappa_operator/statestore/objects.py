"""The objects of a state store: the claim that the operator makes, and the pod that checks it."""

from kappa_crds.resource import Resource
from kappa_crds.statestore import PersistentVolume, StateStoreSpec, StateStoreStatus
from kappa_operator.engine.actions import Manifest
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.restricted import CONTAINER_SECURITY, build_owner, build_restricted_spec
from kappa_operator.statestore.storage import (
    Storage,
    build_bucket_storage,
    build_claim_storage,
    build_hdfs_storage,
)

StateStoreResource = Resource[StateStoreSpec, StateStoreStatus]

STORE_LABEL = "kappa-platform.io/state-store"
PROBE_ROLE = {"kappa-platform.io/role": "store-check"}
PROBE_SECONDS = 120


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
            "labels": {STORE_LABEL: resource.metadata.name},
        },
        "spec": spec,
    }


def build_probe_ref(resource: StateStoreResource, number: int) -> ObjectRef:
    """Return the reference of the pod of the check with that number."""
    return ObjectRef("v1", "Pod", resource.metadata.namespace, f"{resource.metadata.name}-check-{number}")


def build_probe(
    resource: StateStoreResource, number: int, image: str, pull_policy: str, node: str | None
) -> Manifest:
    """Return the pod that writes and reads the claim, on the node that has it mounted already, if any."""
    ref = build_probe_ref(resource, number)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": ref.name,
            "namespace": ref.namespace,
            "labels": {STORE_LABEL: resource.metadata.name, **PROBE_ROLE},
            "ownerReferences": [build_owner(resource)],
        },
        "spec": {
            **build_restricted_spec(PROBE_SECONDS, node),
            "containers": [_build_container(image, pull_policy)],
            "volumes": [{"name": "store", "persistentVolumeClaim": {"claimName": name_claim(resource)}}],
        },
    }


def _build_container(image: str, pull_policy: str) -> Manifest:
    return {
        "name": "check",
        "image": image,
        "imagePullPolicy": pull_policy,
        "command": ["python3", "-m", "kappa_operator.statestore.probe", "/store"],
        "volumeMounts": [{"name": "store", "mountPath": "/store"}],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
        "securityContext": CONTAINER_SECURITY,
    }
