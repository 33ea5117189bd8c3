"""Where the savepoints of pipelines are, and what they are called there."""

from kappa_crds.resource import Metadata, Resource
from kappa_crds.revision import CHECKPOINT_DIR
from kappa_crds.savepoint import SavepointSpec, SavepointStatus

SavepointResource = Resource[SavepointSpec, SavepointStatus]


def build_location(namespace: str, pipeline: str) -> str:
    """Return the folder of a pipeline's savepoints, beside the checkpoints and not in them: they outlive a checkpoint."""
    return f"file://{CHECKPOINT_DIR}/savepoints/{namespace}/{pipeline}"


def name_savepoint(metadata: Metadata) -> str:
    """Return the name of a savepoint in its folder: a resource that is made again under the same name is another one."""
    return f"{metadata.name[:200]}-{metadata.uid[:8]}"
