"""Where the savepoints of pipelines are, what they are called there, and the pod that works on one where no driver does."""

from dataclasses import dataclass

from kappa_crds import API_VERSION
from kappa_crds.resource import Metadata, Resource
from kappa_crds.savepoint import Cause, Export, SavepointSpec, SavepointStatus
from kappa_crds.savepoint_work import Work, WorkRequest
from kappa_operator.engine.actions import Manifest
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.pipeline.objects import PIPELINE_LABEL, ROLE_LABEL
from kappa_operator.savepoint.worker import Placement, build_worker_pod
from kappa_operator.statestore.storage import Storage

SavepointResource = Resource[SavepointSpec, SavepointStatus]

SAVEPOINT_LABEL = "kappa-platform.io/savepoint"
CAUSE_LABEL = "kappa-platform.io/cause"
WORKER_ROLE = {ROLE_LABEL: "savepoint"}


def build_location(root: str, namespace: str, pipeline: str) -> str:
    """Return the folder of a pipeline's savepoints in a store, beside the checkpoints and not in them: they outlive a checkpoint."""
    return f"{root}/savepoints/{namespace}/{pipeline}"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The savepoints of a pipeline in a second store, which a pod reaches besides the one that it works on."""

    storage: Storage
    namespace: str
    pipeline: str

    def locate(self, root: str) -> str:
        """Return their folder, where the store is below `root`."""
        return build_location(root, self.namespace, self.pipeline)


def name_savepoint(metadata: Metadata) -> str:
    """Return the name of a savepoint in its folder: a resource that is made again under the same name is another one."""
    return f"{metadata.name[:200]}-{metadata.uid[:8]}"


def build_savepoint(
    namespace: str, pipeline: str, name: str, cause: Cause, exports: tuple[Export, ...] = ()
) -> Manifest:
    """Return a Savepoint that the operator creates. It has no owner: savepoints outlive their pipeline."""
    spec = SavepointSpec(pipeline_ref=pipeline, cause=cause, exports=exports)
    return {
        "apiVersion": API_VERSION,
        "kind": "Savepoint",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {
                "app.kubernetes.io/managed-by": "kappa-operator",
                PIPELINE_LABEL: pipeline,
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
    placement: Placement,
    *,
    revision: str | None = None,
) -> Manifest:
    """Return the pod for a piece of work. `revision` names the ConfigMap of the pipeline as it ran, where that is needed."""
    labels = {
        "app.kubernetes.io/name": "kappa-savepoint",
        PIPELINE_LABEL: resource.spec.pipeline_ref,
        SAVEPOINT_LABEL: resource.metadata.name,
        CAUSE_LABEL: resource.spec.cause,
        **WORKER_ROLE,
    }
    ref = build_worker_ref(resource, work)
    return build_worker_pod(resource, ref, labels, request, placement, revision=revision)
