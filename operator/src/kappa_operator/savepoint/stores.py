"""Finds the StateStores that a savepoint has to do with: where it is, where it comes from, and where copies of it are wanted."""

from collections.abc import Callable, Mapping

from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import SavepointTask, WorkState
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.references import find_referred, read_referred
from kappa_operator.errors import KappaError, ReferenceProblem
from kappa_operator.pipeline.objects import PipelineResource
from kappa_operator.savepoint.objects import SavepointResource
from kappa_operator.statestore.mounts import find_claim_node
from kappa_operator.statestore.objects import StateStoreResource, build_storage
from kappa_operator.statestore.storage import Storage, build_claim_storage
from kappa_operator.statestore.users import resolve_store

_SHARED = ("ReadWriteMany", "ReadOnlyMany")


def find_copies(cache: ResourceCache, resource: SavepointResource) -> dict[str, Storage | KappaError]:
    """Return where copies are wanted, by StateStore."""
    # To delete a copy its store need not have been found to work; a pod tries.
    find = _find_store if resource.metadata.deletion_timestamp is not None else resolve_store
    stores = (export.store_ref for export in resource.spec.exports)
    return {store: _locate(find, cache, resource.metadata.namespace, store) for store in stores}


def find_storage(
    cache: ResourceCache, resource: SavepointResource, pipeline: PipelineResource | None
) -> Storage | KappaError:
    """Return where the savepoint is, or is to be, or why that is not known."""
    status, namespace = resource.status, resource.metadata.namespace
    if status.claim_name is not None:
        return build_claim_storage(status.claim_name)
    named = status.store_name or _name_store(resource, pipeline)
    found = _locate(_find_store, cache, namespace, named)
    if isinstance(found, KappaError) and resource.spec.import_ is not None and pipeline is None:
        hint = f"create Pipeline {resource.spec.pipeline_ref}, or name a StateStore in spec.import.targetStoreRef"
        return ReferenceProblem(f"{found.message.partition(';')[0]}; {hint}", reason=found.reason)
    return found


def _name_store(resource: SavepointResource, pipeline: PipelineResource | None) -> str | None:
    imported = resource.spec.import_
    if imported is not None and imported.target_store_ref is not None:
        return imported.target_store_ref
    return pipeline.spec.state_store_ref if pipeline else None


def find_source(
    cache: ResourceCache, resource: SavepointResource, pipeline: PipelineResource | None
) -> Storage | KappaError | None:
    """Return the store that the savepoint is brought in from; None where it comes from nowhere else."""
    imported, own = resource.spec.import_, resource.metadata.namespace
    if imported is None or not (imported.store_ref or imported.pipeline or imported.namespace):
        return None
    name = imported.store_ref or resource.status.store_name or _name_store(resource, pipeline)
    try:
        store = _find_store(cache, own, name)
    except KappaError as error:
        return error
    if imported.namespace not in (None, own, *store.spec.import_namespaces):
        message = f"StateStore {store.metadata.name} does not name namespace {imported.namespace} in spec.importNamespaces; add it there, if its savepoints may be read here"
        return ReferenceProblem(message, reason=Reason.IMPORT_REFUSED)
    return build_storage(store)


def _find_store(cache: ResourceCache, namespace: str, name: str | None) -> StateStoreResource:
    """Return a StateStore, ready or not; raise ReferenceProblem where there is none."""
    key = find_referred(cache, "StateStore", namespace, name)
    return read_referred(cache, key)


def _locate(
    find: Callable[[ResourceCache, str, str | None], StateStoreResource],
    cache: ResourceCache,
    namespace: str,
    name: str | None,
) -> Storage | KappaError:
    try:
        return build_storage(find(cache, namespace, name))
    except KappaError as error:
        return error


async def find_nodes(
    context: OperatorContext,
    resource: SavepointResource,
    own: Storage | KappaError,
    source: Storage | KappaError | None,
    copies: Mapping[str, Storage | KappaError],
) -> tuple[str, ...]:
    """Return the nodes that a pod which is to be made has to be on: those where its claims are mounted already."""
    work = resource.status.work
    if work is None or work.state is not WorkState.RUNNING:
        return ()
    other = copies.get(work.store) if work.store else None
    involved = [other] if work.task is SavepointTask.DELETE and work.store else [own, other]
    if work.task is SavepointTask.IMPORT:
        involved.append(source)
    claims = {each.claim for each in involved if isinstance(each, Storage) and each.claim is not None}
    found = [await _find_node(context, resource.metadata.namespace, claim) for claim in sorted(claims)]
    return tuple(sorted({node for node in found if node is not None}))


async def _find_node(context: OperatorContext, namespace: str, claim: str) -> str | None:
    """Return the node of a claim that can be mounted on one node only."""
    node = await find_claim_node(context, namespace, claim)
    if node is None:
        return None
    body = await context.cluster.get(ObjectRef("v1", "PersistentVolumeClaim", namespace, claim))
    modes = (body or {}).get("spec", {}).get("accessModes", [])
    return None if any(mode in _SHARED for mode in modes) else node
