"""Reads a savepoint's pipeline, its driver and what that reports, the pod that works on it, and what needs it."""

from collections.abc import Iterator
from typing import Any

from kappa_crds.pipeline_status import NEEDS_SAVEPOINT
from kappa_crds.progress import DriverExit, DriverState
from kappa_crds.reasons import Reason
from kappa_crds.resource import Resource
from kappa_crds.savepoint_work import WorkResult, WorkState
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.cluster import Body
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.network import read_network
from kappa_operator.engine.plan import Failure
from kappa_operator.engine.references import find_users, read_referred
from kappa_operator.engine.work_pods import parse_result, read_work_pod
from kappa_operator.errors import KappaError, ReferenceProblem
from kappa_operator.pipeline.objects import PipelineResource
from kappa_operator.pipeline.observe import observe_driver
from kappa_operator.pipeline.revision import build_checkpoint
from kappa_operator.savepoint.export import is_exported
from kappa_operator.savepoint.model import SavepointObserved, WorkerPod
from kappa_operator.savepoint.objects import SavepointResource, build_worker_ref, name_savepoint
from kappa_operator.savepoint.stores import find_copies, find_nodes, find_source, find_storage
from kappa_operator.statestore.keys import require_consent
from kappa_operator.statestore.storage import Storage
from kappa_operator.statestore.users import find_deleting_stores


async def observe_savepoint(
    context: OperatorContext, key: Key, failures: tuple[Failure, ...]
) -> SavepointObserved | None:
    """Return what there is to know of the savepoint, or None where it is gone."""
    resource: SavepointResource | None = context.cache.read(key)
    if resource is None:
        return None
    if _is_at_rest(resource):
        return SavepointObserved(resource)
    pipeline, problem = _find_pipeline(
        context.cache, Key("Pipeline", key.namespace, resource.spec.pipeline_ref)
    )
    pods, progress = ((), None) if pipeline is None else await observe_driver(context, pipeline)
    runs = progress is not None and progress.state is DriverState.RUNNING
    driver = next((pod for pod in pods if progress and runs and pod.generation == progress.generation), None)
    storage = await require_consent(context, key.namespace, find_storage(context.cache, resource, pipeline))
    source = find_source(context.cache, resource, pipeline)
    if source is not None:
        source = await require_consent(context, key.namespace, source)
    copies = {
        store: await require_consent(context, key.namespace, each)
        for store, each in find_copies(context.cache, resource).items()
    }
    worker = await _find_own_worker(context, resource)
    users = list(find_pipelines(context.cache, resource))
    unreadable = tuple(_find_unreadable(context.cache, resource))
    return SavepointObserved(
        resource, pipeline, driver, progress, failures, pods, pipeline_problem=problem, unreadable=unreadable,
        storage=storage, source=source, copies=copies, lost=await _is_lost(context, resource, storage),
        worker=worker, nodes=() if worker else await find_nodes(context, resource, storage, source, copies),
        image=context.settings.runtime_image, pull_policy=context.settings.image_pull_policy,
        network=read_network(context.settings.network_policies, context.settings.namespace),
        pods=context.settings.pods,
        awaited_by=tuple(user.metadata.name for user in users if _awaits(user, resource)),
        needed_by=() if isinstance(storage, KappaError) else tuple(_find_checkpoints(storage, users, resource)),
    )  # fmt: skip


def _find_pipeline(cache: ResourceCache, key: Key) -> tuple[PipelineResource | None, str]:
    """Return the savepoint's pipeline, or None and why there is none."""
    try:
        return read_referred(cache, key), ""
    except ReferenceProblem as problem:
        return None, problem.message


def _is_at_rest(resource: SavepointResource) -> bool:
    """Return whether all that is to be done can be seen from the resource alone."""
    work = resource.status.work
    busy = work is not None and work.state is not WorkState.DONE
    verified = resource.spec.verify in (None, resource.status.verified)
    is_there = resource.status.taken is not None and resource.metadata.deletion_timestamp is None
    return is_there and verified and not busy and is_exported(resource)


async def _is_lost(
    context: OperatorContext, resource: SavepointResource, storage: Storage | KappaError
) -> bool:
    """Return whether the PVC or the StateStore is gone, where something is to be deleted."""
    namespace, store = resource.metadata.namespace, resource.status.store_name
    if resource.metadata.deletion_timestamp is None:
        return False
    if store is not None:
        return context.cache.get_version(Key("StateStore", namespace, store)) < 0
    if isinstance(storage, KappaError) or storage.claim is None:
        return False
    ref = ObjectRef("v1", "PersistentVolumeClaim", namespace, storage.claim)
    return await context.cluster.get(ref) is None


async def _find_own_worker(context: OperatorContext, resource: SavepointResource) -> WorkerPod | None:
    work = resource.status.work
    if work is None or work.state is WorkState.DONE:
        return None
    return await find_worker(context, resource, build_worker_ref(resource, work))


async def find_worker(
    context: OperatorContext, owner: Resource[Any, Any], ref: ObjectRef
) -> WorkerPod | None:
    """Return the pod of a piece of work, if it is there. A pod of that name with another owner is not."""
    return read_work_pod(await context.cluster.get(ref), owner.metadata.uid, ref, parse_work)


def parse_work(pod: Body) -> WorkResult | None:
    """Return how a pod's work ended, None while it has not."""
    return parse_result(pod, WorkResult.model_validate_json, _fail_work)


def _fail_work(ended: str, text: str) -> WorkResult:
    message = f"{ended}: {text[-1500:] or 'it left no message'}"
    return WorkResult(failure=DriverExit(reason=Reason.SAVEPOINT_WORK_FAILED, message=message))


def find_waiting_for_savepoint(cache: ResourceCache, savepoint: Key) -> Iterator[Key]:
    """Yield the pipelines that the savepoint names, and the stores whose deletion may wait for it."""
    yield from (each for each in cache.find_named(savepoint) if each.kind == "Pipeline")
    yield from find_deleting_stores(cache, savepoint)


def find_pipelines(cache: ResourceCache, resource: SavepointResource) -> Iterator[PipelineResource]:
    """Yield the pipelines of the namespace that name the savepoint, in their spec or in what their checkpoint is made of."""
    for key in _find_naming(cache, resource):
        user: PipelineResource | None = cache.get(key)
        if user is not None and (_awaits(user, resource) or _is_made_of(user, resource)):
            yield user


def _find_naming(cache: ResourceCache, resource: SavepointResource) -> list[Key]:
    """Return the pipelines that name the savepoint, or the folder of its files."""
    names = (resource.metadata.name, name_savepoint(resource.metadata))
    keys = (Key("Savepoint", resource.metadata.namespace, name) for name in names)
    return sorted({user for key in keys for user in find_users(cache, key, "Pipeline")})


def _find_unreadable(cache: ResourceCache, resource: SavepointResource) -> Iterator[str]:
    """Yield the names of invalid pipelines that may need the savepoint, or may be taking it."""
    own = Key("Pipeline", resource.metadata.namespace, resource.spec.pipeline_ref)
    for key in sorted({own, *_find_naming(cache, resource)}):
        if cache.get_version(key) >= 0 and cache.get(key) is None:
            yield key.name


def _awaits(pipeline: PipelineResource, resource: SavepointResource) -> bool:
    restore = pipeline.spec.restore
    if pipeline.metadata.deletion_timestamp is not None:
        return False
    change, name = pipeline.status.upgrade, resource.metadata.name
    if change is not None and change.savepoint == name and change.phase in NEEDS_SAVEPOINT:
        return True
    return restore is not None and restore.savepoint == name and restore != pipeline.status.restored


def _is_made_of(pipeline: PipelineResource, resource: SavepointResource) -> bool:
    made_of = pipeline.status.restoration
    return made_of is not None and made_of.savepoint == name_savepoint(resource.metadata)


def _find_checkpoints(
    storage: Storage, users: list[PipelineResource], resource: SavepointResource
) -> Iterator[str]:
    for user in users:
        if _is_made_of(user, resource):
            yield build_checkpoint(storage.root, user.metadata, user.status.checkpoint)
