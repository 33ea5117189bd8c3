"""The checkpoints of a namespace that pipelines still need."""

from pydantic import ValidationError

from kappa_crds.pipeline_status import PipelineStatus, UpgradePhase
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.pipeline.revision import name_checkpoint


def find_current(cache: ResourceCache, namespace: str) -> dict[str, str] | None:
    """Return the folder of the checkpoint of each pipeline, by uid; None where one of them cannot be read.

    While a pipeline is on its way from one checkpoint to the next, or may still go back, it is the one before.
    """
    try:
        found = [cache.read(key) for key in cache.find("Pipeline", namespace)]
    except ValidationError:
        return None
    return {
        each.metadata.uid: name_checkpoint(each.metadata, _find_oldest(each.status))
        for each in found
        if each is not None
    }


def _find_oldest(status: PipelineStatus) -> int:
    """Return the number of the oldest checkpoint that a pipeline may still continue in."""
    change = status.upgrade
    new = change.new_checkpoint if change is not None and change.phase is UpgradePhase.WATCHING else None
    replaced = () if new is None else (new.instead_of,)
    return min(status.checkpoint, *(run.checkpoint for run in status.runs), *replaced)
