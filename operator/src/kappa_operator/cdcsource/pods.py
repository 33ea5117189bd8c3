"""The pods of a source: each works in the database once, with its credentials as files, and reaches nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
_FOLDER, _RESULT = "/etc/kappa", "/dev/termination-log"
_REQUEST = f"{_FOLDER}/request"


def build_pod_ref(resource: CDCSourceResource, work: DatabaseWork) -> ObjectRef:
    """Return the reference of the pod with that number. There can be no two pods of one name."""
    metadata = resource.metadata
    return ObjectRef("v1", "Pod", metadata.namespace, f"{metadata.name}-database-{work.number}")


def create_pod(
    observed: CDCSourceObserved, work: DatabaseWork, request: DatabaseRequest
) -> tuple[ApplyObject | CreateObject, ...]:
    """Return the actions that create the pod, after its NetworkPolicy."""
    program = PodProgram(
        "kappa_operator.cdc.worker",
        request.model_dump_json(by_alias=True, exclude_none=True),
        SECONDS,
        secrets=(("database", mount_database(observed.resource.spec.database)),),
    )
    pod = CreateObject(build_pod(observed, build_pod_ref(observed.resource, work), program))
    if observed.network is None:
        return (pod,)
    return ApplyObject(_build_policy(observed.resource, observed.network)), pod


def find_refusal(observed: CDCSourceObserved, role: str = "database") -> Failure | None:
    """Return why the pod of a role, or its NetworkPolicy, could not be created, if it could not."""
    start = f"{observed.resource.metadata.name}-{role}"
    for each in observed.failures:
        match each.action:
            case ApplyObject(manifest) | CreateObject(manifest) if manifest["metadata"]["name"].startswith(
                start
            ):
                return each
    return None


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


@dataclass(frozen=True, slots=True)
class PodProgram:
    """The program of a pod: its module, its request as JSON, how long it may take in seconds, and what it needs.

    Its arguments are the file of the request, the folder of each of `secrets`, and the file of the result.
    """

    module: str
    request: str
    seconds: int
    cpu: str = "50m"
    memory: str = "96Mi"
    memory_limit: str = "256Mi"
    storage: str = "16Mi"
    secrets: tuple[tuple[str, Sequence[Manifest]], ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


def build_pod(observed: CDCSourceObserved, ref: ObjectRef, program: PodProgram) -> Manifest:
    """Return a pod of the source, by the restricted standard."""
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
                **program.labels,
            },
            "annotations": {REQUEST_ANNOTATION: program.request},
            "ownerReferences": [build_owner(observed.resource)],
        },
        "spec": {
            **build_restricted_spec(program.seconds, None, observed.pods),
            "containers": [_build_container(observed, program)],
            "volumes": _build_volumes(program),
        },
    }
    return apply_template(pod, observed.pods.template)


def _build_container(observed: CDCSourceObserved, program: PodProgram) -> Manifest:
    folders = {name: f"{_FOLDER}/{name}" for name, _ in program.secrets}
    mounts = {"request": _REQUEST, **folders}
    return {
        "name": "worker",
        "image": observed.image,
        "imagePullPolicy": observed.pull_policy,
        "command": ["python3", "-m", program.module],
        "args": [f"{_REQUEST}/request.json", *folders.values(), _RESULT],
        "resources": {
            "requests": {"cpu": program.cpu, "memory": program.memory},
            "limits": {"memory": program.memory_limit},
        },
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - an emptyDir of its own
            *({"name": name, "mountPath": path, "readOnly": True} for name, path in mounts.items()),
        ],
    }


def _build_volumes(program: PodProgram) -> list[Manifest]:
    field_path = {"fieldPath": f"metadata.annotations['{REQUEST_ANNOTATION}']"}
    return [
        {"name": "tmp", "emptyDir": {"sizeLimit": program.storage}},
        {"name": "request", "downwardAPI": {"items": [{"path": "request.json", "fieldRef": field_path}]}},
        *(
            {"name": name, "projected": {"sources": list(sources), "defaultMode": 0o440}}
            for name, sources in program.secrets
        ),
    ]


def mount_database(database: Database) -> list[Manifest]:
    """Return the Secrets with the log-in of a database, each with the keys that are needed."""
    login = {key: key for key in ("username", "password")}
    sources = [mount_keys(database.credentials_secret_ref.name, login)]
    if database.tls is not None:
        known = database.tls.ca_secret_ref
        sources.append(mount_keys(known.name, {known.key: CA_FILE}))
    return sources


def mount_keys(secret: str, files: Mapping[str, str]) -> Manifest:
    """Return a source of a volume: keys of a Secret as files."""
    return {"secret": {"name": secret, "items": [{"key": key, "path": file} for key, file in files.items()]}}
