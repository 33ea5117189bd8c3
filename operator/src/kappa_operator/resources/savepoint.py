"""Where the savepoints of pipelines are, what they are called there, and the pod that works on one where no driver does."""

from datetime import UTC, datetime

from kappa_crds import API_VERSION
from kappa_crds.resource import Metadata, Resource
from kappa_crds.revision import CHECKPOINT_DIR, REVISION_DIR
from kappa_crds.savepoint import Cause, SavepointSpec, SavepointStatus
from kappa_crds.savepoint_work import (
    REQUEST_ANNOTATION,
    REQUEST_DIR,
    REQUEST_FILE,
    VerifyBy,
    Work,
    WorkRequest,
)
from kappa_operator.actions import Manifest
from kappa_operator.keys import ObjectRef
from kappa_operator.resources.pipeline import PIPELINE_LABEL, ROLE_LABEL
from kappa_operator.resources.restricted import CONTAINER_SECURITY, build_owner, build_restricted_spec
from kappa_operator.resources.storage import Mounts, build_claim_mount

SavepointResource = Resource[SavepointSpec, SavepointStatus]

SAVEPOINT_LABEL = "kappa-platform.io/savepoint"
CAUSE_LABEL = "kappa-platform.io/cause"
WORKER_ROLE = {ROLE_LABEL: "savepoint"}
WORK_SECONDS = 4 * 3600


def build_location(namespace: str, pipeline: str) -> str:
    """Return the folder of a pipeline's savepoints, beside the checkpoints and not in them: they outlive a checkpoint."""
    return f"file://{CHECKPOINT_DIR}/savepoints/{namespace}/{pipeline}"


def name_savepoint(metadata: Metadata) -> str:
    """Return the name of a savepoint in its folder: a resource that is made again under the same name is another one."""
    return f"{metadata.name[:200]}-{metadata.uid[:8]}"


def build_scheduled(pipeline: Metadata, at: datetime) -> Manifest:
    """Return the Savepoint for a moment of a pipeline's schedule. It has no owner: savepoints outlive their pipeline."""
    spec = SavepointSpec(pipeline_ref=pipeline.name, cause=Cause.SCHEDULE)
    return {
        "apiVersion": API_VERSION,
        "kind": "Savepoint",
        "metadata": {
            "name": f"{pipeline.name}-{at.astimezone(UTC):%Y%m%d%H%M}",
            "namespace": pipeline.namespace,
            "labels": {
                "app.kubernetes.io/managed-by": "kappa-operator",
                PIPELINE_LABEL: pipeline.name,
                CAUSE_LABEL: spec.cause,
            },
        },
        "spec": spec.to_manifest(),
    }


def build_worker_ref(resource: SavepointResource, work: Work) -> ObjectRef:
    """Return the reference of the pod for a piece of work. There can be no two pods of one name."""
    metadata = resource.metadata
    return ObjectRef("v1", "Pod", metadata.namespace, f"{name_savepoint(metadata)}-{work.number}")


def build_worker(
    resource: SavepointResource,
    work: Work,
    request: WorkRequest,
    *,
    claim: str,
    image: str,
    pull_policy: str,
    node: str | None = None,
    revision: str | None = None,
) -> Manifest:
    """Return the pod for a piece of work. `revision` names the ConfigMap of the pipeline as it ran, where that is needed."""
    ref = build_worker_ref(resource, work)
    mounts = _build_scratch() + build_claim_mount(claim) + _build_revision_mount(revision)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": ref.name,
            "namespace": ref.namespace,
            "labels": {
                "app.kubernetes.io/name": "kappa-savepoint",
                "app.kubernetes.io/managed-by": "kappa-operator",
                PIPELINE_LABEL: resource.spec.pipeline_ref,
                SAVEPOINT_LABEL: resource.metadata.name,
                CAUSE_LABEL: resource.spec.cause,
                **WORKER_ROLE,
            },
            "annotations": {REQUEST_ANNOTATION: request.model_dump_json(by_alias=True, exclude_none=True)},
            "ownerReferences": [build_owner(resource)],
        },
        "spec": {
            **build_restricted_spec(WORK_SECONDS, node),
            "containers": [
                _build_container(image, pull_policy, mounts, jvm=request.verify_by is VerifyBy.STATE_READER)
            ],
            "volumes": list(mounts.volumes),
        },
    }


def _build_container(image: str, pull_policy: str, mounts: Mounts, *, jvm: bool) -> Manifest:
    memory = ("1Gi", "1536Mi") if jvm else ("128Mi", "512Mi")
    return {
        "name": "savepoint",
        "image": image,
        "imagePullPolicy": pull_policy,
        "command": ["tini", "--", "python3", "-m", "kappa_pipelines.savepoint", REQUEST_FILE],
        "resources": {"requests": {"cpu": "50m", "memory": memory[0]}, "limits": {"memory": memory[1]}},
        "securityContext": CONTAINER_SECURITY,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": list(mounts.volume_mounts),
    }


def _build_scratch() -> Mounts:
    """Return the mounts of scratch space and of the request, which is the pod's own annotation."""
    field = {"fieldPath": f"metadata.annotations['{REQUEST_ANNOTATION}']"}
    items = [{"path": REQUEST_FILE.rsplit("/", 1)[1], "fieldRef": field}]
    return Mounts(
        ({"name": "tmp", "emptyDir": {}}, {"name": "request", "downwardAPI": {"items": items}}),
        (
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - an emptyDir of its own
            {"name": "request", "mountPath": REQUEST_DIR, "readOnly": True},
        ),
    )


def _build_revision_mount(revision: str | None) -> Mounts:
    if revision is None:
        return Mounts()
    return Mounts(
        ({"name": "revision", "configMap": {"name": revision}},),
        ({"name": "revision", "mountPath": REVISION_DIR, "readOnly": True},),
    )
