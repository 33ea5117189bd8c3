"""Gathers a pipeline with the savepoints that there are of it."""

from collections.abc import Iterator

from kappa_crds.pipeline_status import NEEDS_SAVEPOINT
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key
from kappa_operator.engine.plan import Failure
from kappa_operator.engine.references import find_users
from kappa_operator.pipeline.observe import observe_pipeline
from kappa_operator.pipeline.schedule import KeptPipeline, concerns_savepoint
from kappa_operator.savepoint.objects import SavepointResource
from kappa_operator.statestore.users import find_deleting_stores


async def observe_kept_pipeline(
    context: OperatorContext, key: Key, failures: tuple[Failure, ...]
) -> KeptPipeline | None:
    """Return what there is to know of the pipeline, or None where it is gone."""
    others = tuple(failure for failure in failures if not concerns_savepoint(failure))
    pipeline = await observe_pipeline(context, key, others)
    if pipeline is None:
        return None
    if pipeline.resource.spec.savepoints is None:
        return KeptPipeline(pipeline)
    savepoints = tuple(_find_savepoints(context.cache, key))
    return KeptPipeline(
        pipeline,
        savepoints=savepoints,
        restored=frozenset(name for each in savepoints for name in _find_restored(context.cache, each)),
        refused=len(others) < len(failures),
    )


def find_held_by_pipeline(cache: ResourceCache, pipeline: Key) -> Iterator[Key]:
    """Yield the stores and savepoints whose deletion may wait for a pipeline."""
    yield from find_deleting_stores(cache, pipeline)
    named = cache.find_named(pipeline)
    yield from (each for each in named if each.kind == "Savepoint" and cache.is_deleting(each))


def _find_savepoints(cache: ResourceCache, pipeline: Key) -> Iterator[SavepointResource]:
    for key in find_users(cache, pipeline, "Savepoint"):
        savepoint: SavepointResource | None = cache.get(key)
        if savepoint is not None and savepoint.spec.pipeline_ref == pipeline.name:
            yield savepoint


def _find_restored(cache: ResourceCache, savepoint: SavepointResource) -> Iterator[str]:
    """Yield the savepoint's name where a pipeline is restored from it, was last, or may be again."""
    name = savepoint.metadata.name
    for key in find_users(cache, Key("Savepoint", savepoint.metadata.namespace, name), "Pipeline"):
        body = cache.get_body(key) or {}
        change = body.get("status", {}).get("upgrade") or {}
        restores = (body.get("spec", {}).get("restore") or {}).get("savepoint") == name
        if restores or (change.get("savepoint") == name and change["phase"] in NEEDS_SAVEPOINT):
            yield name
