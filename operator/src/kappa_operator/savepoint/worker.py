"""The pod of the pipeline image that works on a state store's files: it sees its request, the store, and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kappa_crds.resource import Resource
from kappa_crds.revision import REVISION_DIR
from kappa_crds.savepoint_work import (
    REQUEST_ANNOTATION,
    REQUEST_DIR,
    REQUEST_FILE,
    SavepointTask,
    VerifyBy,
    WorkRequest,
)
from kappa_operator.engine.actions import Manifest
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.pod_template import apply_template
from kappa_operator.engine.restricted import (
    CONTAINER_SECURITY,
    DEFAULT_PODS,
    PodOptions,
    build_owner,
    build_restricted_spec,
)
from kappa_operator.statestore.storage import Mounts, Storage, build_storage_mounts

WORK_SECONDS, CHECK_SECONDS = 4 * 3600, 240


@dataclass(frozen=True, slots=True)
class Placement:
    """What a worker pod is made with: where the state is, the node that has it mounted already, if any, and the image.

    `other` is a second store that it reaches. Of the two it may only read what nothing is to be written to.
    """

    storage: Storage
    other: Storage | None = None
    node: str | None = None
    image: str = ""
    pull_policy: str = "IfNotPresent"
    options: PodOptions = DEFAULT_PODS


def build_worker_pod(
    owner: Resource[Any, Any],
    ref: ObjectRef,
    labels: Mapping[str, str],
    request: WorkRequest,
    placement: Placement,
    *,
    revision: str | None = None,
) -> Manifest:
    """Return the pod; it goes with its owner. `revision` names the ConfigMap of a pipeline's revision."""
    mounts = build_scratch() + _build_stores(request, placement) + _build_revision_mount(revision)
    reached = {"bucket": placement.storage.bucket, "hdfs": placement.storage.hdfs}
    request = request.model_copy(update=reached)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": ref.name,
            "namespace": ref.namespace,
            "labels": {"app.kubernetes.io/managed-by": "kappa-operator", **labels},
            "annotations": {REQUEST_ANNOTATION: request.model_dump_json(by_alias=True, exclude_none=True)},
            "ownerReferences": [build_owner(owner)],
        },
        "spec": {
            **build_restricted_spec(_limit_seconds(request), placement.node, placement.options),
            "containers": [_build_container(request, placement, mounts)],
            "volumes": list(mounts.volumes),
        },
    }
    return apply_template(pod, placement.options.template)


def _limit_seconds(request: WorkRequest) -> int:
    return CHECK_SECONDS if request.task is SavepointTask.CHECK else WORK_SECONDS


def _build_container(request: WorkRequest, placement: Placement, mounts: Mounts) -> Manifest:
    has_jvm = request.verify_by is VerifyBy.STATE_READER
    least, most = ("1Gi", "1536Mi") if has_jvm else ("128Mi", "512Mi")
    return {
        "name": "worker",
        "image": placement.image,
        "imagePullPolicy": placement.pull_policy,
        "args": ["savepoint", REQUEST_FILE],
        **({"env": list(mounts.variables)} if mounts.variables else {}),
        "resources": {"requests": {"cpu": "50m", "memory": least}, "limits": {"memory": most}},
        "securityContext": CONTAINER_SECURITY,
        # The log of a check may have a text of the server, which belongs into no status.
        **(
            {}
            if request.task is SavepointTask.CHECK
            else {"terminationMessagePolicy": "FallbackToLogsOnError"}
        ),
        "volumeMounts": list(mounts.volume_mounts),
    }


def _build_stores(request: WorkRequest, placement: Placement) -> Mounts:
    reads_own = request.task in (SavepointTask.EXPORT, SavepointTask.MEASURE)
    mounts = build_storage_mounts(placement.storage, read_only=reads_own)
    if (
        placement.other is None or placement.other.hdfs is not None
    ):  # the user is in the request, and no JVM asks for it
        return mounts
    return mounts + build_storage_mounts(placement.other, read_only=not reads_own)


def build_scratch() -> Mounts:
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
