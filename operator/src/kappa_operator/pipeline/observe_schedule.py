"""Gathers a pipeline with the savepoints that there are of it."""

from collections.abc import Iterator

from pydantic import ValidationError

from kappa_crds.upgrade import NEEDS_SAVEPOINT
from kappa_operator.engine.cache import Mirror
from kappa_operator.engine.context import World
from kappa_operator.engine.keys import Key
from kappa_operator.engine.plan import Failure
from kappa_operator.pipeline.observe import observe_pipeline
from kappa_operator.pipeline.schedule import KeptPipeline, concerns_savepoint
from kappa_operator.savepoint.objects import SavepointResource


async def observe_kept_pipeline(world: World, key: Key, failures: tuple[Failure, ...]) -> KeptPipeline | None:
    """Return what there is to know of the pipeline, or None where it is gone."""
    others = tuple(failure for failure in failures if not concerns_savepoint(failure))
    pipeline = await observe_pipeline(world, key, others)
    if pipeline is None:
        return None
    if pipeline.resource.spec.savepoints is None:
        return KeptPipeline(pipeline)
    return KeptPipeline(
        pipeline,
        savepoints=tuple(_find_savepoints(world.mirror, key)),
        restored=frozenset(_find_restored(world.mirror, key)),
        refused=len(others) < len(failures),
    )


def _find_savepoints(mirror: Mirror, pipeline: Key) -> Iterator[SavepointResource]:
    for key in mirror.find("Savepoint", pipeline.namespace):
        try:
            savepoint: SavepointResource | None = mirror.get(key)
        except ValidationError:  # its own look says so
            continue
        if savepoint is not None and savepoint.spec.pipeline_ref == pipeline.name:
            yield savepoint


def _find_restored(mirror: Mirror, pipeline: Key) -> Iterator[str]:
    """Yield the names of savepoints that a pipeline of the namespace wants to go on from, went on from last, or may go back to."""
    for key in mirror.find("Pipeline", pipeline.namespace):
        body = mirror.get_body(key) or {}
        restore = body.get("spec", {}).get("restore")
        if restore:
            yield restore["savepoint"]
        change = body.get("status", {}).get("upgrade") or {}
        if change.get("savepoint") and change["phase"] in NEEDS_SAVEPOINT:
            yield change["savepoint"]
