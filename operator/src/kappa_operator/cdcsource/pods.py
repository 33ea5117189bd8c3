"""The pods of a source: each works in the database once, with its credentials as files, and reaches nothing else."""

from typing import Any

from kappa_crds.cdcsource_status import DatabaseWork
from kappa_crds.databases import Database
from kappa_operator.cdc.work import CA_FILE, DatabaseRequest
from kappa_operator.cdcsource.model import CDCSourceObserved
from kappa_operator.cdcsource.objects import SOURCE_LABEL, CDCSourceResource
from kappa_operator.engine.actions import ApplyObject, CreateObject, Manifest
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.network import Destination, Network, admit_destinations, admit_dns, build_policy
from kappa_operator.engine.plan import Failure
from kappa_operator.engine.pod_template import apply_template
from kappa_operator.engine.restricted import CONTAINER_SECURITY, build_owner, build_restricted_spec
from kappa_operator.pipeline.objects import ROLE_LABEL

REQUEST_ANNOTATION = "kappa-platform.io/request"
SECONDS = 240
_REQUEST, _LOGIN, _RESULT = "/etc/kappa/request", "/etc/kappa/database", "/dev/termination-log"


def build_pod_ref(resource: CDCSourceResource, work: DatabaseWork) -> ObjectRef:
    """Return the reference of the pod with that number. There can be no two pods of one name."""
    metadata = resource.metadata
    return ObjectRef("v1", "Pod", metadata.namespace, f"{metadata.name}-database-{work.number}")


def create_pod(
    observed: CDCSourceObserved, work: DatabaseWork, request: DatabaseRequest
) -> tuple[ApplyObject | CreateObject, ...]:
    """Return the actions that create the pod, after its NetworkPolicy."""
    pod = CreateObject(_build_pod(observed, build_pod_ref(observed.resource, work), request))
    if observed.network is None:
        return (pod,)
    return ApplyObject(_build_policy(observed.resource, observed.network)), pod


def find_refusal(observed: CDCSourceObserved) -> Failure | None:
    """Return why the pod, or its NetworkPolicy, could not be created, if it could not."""
    return next(
        (each for each in observed.failures if isinstance(each.action, ApplyObject | CreateObject)), None
    )


def _build_policy(resource: CDCSourceResource, network: Network) -> Manifest:
    """Return the policy of pods that reach the database and nothing else, and that nothing connects to."""
    database, metadata = resource.spec.database, resource.metadata
    reached = admit_destinations(network, metadata.namespace, [Destination(database.host, database.port)])
    return build_policy(
        resource,
        f"{metadata.name}-database",
        {SOURCE_LABEL: metadata.name},
        ingress=(),
        egress=[admit_dns(network), *reached],
    )


def _build_pod(observed: CDCSourceObserved, ref: ObjectRef, request: DatabaseRequest) -> Manifest:
    name = observed.resource.metadata.name
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": ref.name,
            "namespace": ref.namespace,
            "labels": {
                "app.kubernetes.io/managed-by": "kappa-operator",
                "app.kubernetes.io/name": "kappa-cdc-source",
                SOURCE_LABEL: name,
                ROLE_LABEL: "cdc-source",
            },
            "annotations": {REQUEST_ANNOTATION: request.model_dump_json(by_alias=True, exclude_none=True)},
            "ownerReferences": [build_owner(observed.resource)],
        },
        "spec": {
            **build_restricted_spec(SECONDS, None, observed.pods),
            "containers": [_build_container(observed)],
            "volumes": _build_volumes(observed.resource.spec.database),
        },
    }
    return apply_template(pod, observed.pods.template)


def _build_container(observed: CDCSourceObserved) -> Manifest:
    return {
        "name": "worker",
        "image": observed.image,
        "imagePullPolicy": observed.pull_policy,
        "command": ["python3", "-m", "kappa_operator.cdc.worker"],
        "args": [f"{_REQUEST}/request.json", _LOGIN, _RESULT],
        "resources": {"requests": {"cpu": "50m", "memory": "96Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - an emptyDir of its own
            {"name": "request", "mountPath": _REQUEST, "readOnly": True},
            {"name": "login", "mountPath": _LOGIN, "readOnly": True},
        ],
    }


def _build_volumes(database: Database) -> list[dict[str, Any]]:
    field = {"fieldPath": f"metadata.annotations['{REQUEST_ANNOTATION}']"}
    login = [{"key": key, "path": key} for key in ("username", "password")]
    sources: list[Manifest] = [{"secret": {"name": database.credentials_secret_ref.name, "items": login}}]
    if database.tls is not None:
        known = database.tls.ca_secret_ref
        sources.append({"secret": {"name": known.name, "items": [{"key": known.key, "path": CA_FILE}]}})
    return [
        {"name": "tmp", "emptyDir": {"sizeLimit": "16Mi"}},
        {"name": "request", "downwardAPI": {"items": [{"path": "request.json", "fieldRef": field}]}},
        {"name": "login", "projected": {"sources": sources, "defaultMode": 0o440}},
    ]
