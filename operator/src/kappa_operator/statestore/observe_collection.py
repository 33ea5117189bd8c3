"""Gathers a state store with the pod that looks through it and the checkpoints of the namespace's pipelines."""

from pydantic import ValidationError

from kappa_crds.pipeline_status import PipelineStatus, UpgradePhase
from kappa_crds.savepoint_work import WorkState
from kappa_operator.engine.actions import CreateObject
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.plan import Failure
from kappa_operator.pipeline.objects import ROLE_LABEL
from kappa_operator.pipeline.revision import name_checkpoint
from kappa_operator.savepoint.observe import find_worker
from kappa_operator.statestore.collection_pods import (
    COLLECTOR_ROLE,
    MEASURER_ROLE,
    build_collector_ref,
    build_measurer_ref,
)
from kappa_operator.statestore.model import CollectedStore
from kappa_operator.statestore.mounts import find_claim_node
from kappa_operator.statestore.objects import StateStoreResource, name_claim
from kappa_operator.statestore.observe import observe_statestore

_ROLES = (COLLECTOR_ROLE[ROLE_LABEL], MEASURER_ROLE[ROLE_LABEL])


async def observe_collected_store(
    context: OperatorContext, key: Key, failures: tuple[Failure, ...]
) -> CollectedStore | None:
    """Return what there is to know of the store, or None where it is gone."""
    refused = [failure for failure in failures if _concerns_collection(failure)]
    store = await observe_statestore(context, key, tuple(each for each in failures if each not in refused))
    if store is None:
        return None
    ref = _find_errand(store.resource)
    if ref is None:
        return CollectedStore(store)
    pod = await find_worker(context, ref)
    return CollectedStore(
        store,
        pod,
        find_current(context.cache, key.namespace),
        None if pod else await _find_node(context, key, store.resource),
        context.settings.runtime_image,
        refused[-1].error.message if refused else "",
    )


def _find_errand(resource: StateStoreResource) -> ObjectRef | None:
    """Return the pod that looks through the store now, or is to be made for that."""
    collection, measurement = resource.status.collection, resource.status.measurement
    if collection is not None and collection.state is not WorkState.DONE:
        return build_collector_ref(resource, collection)
    if measurement is not None and measurement.state is not WorkState.DONE:
        return build_measurer_ref(resource, measurement)
    return None


async def _find_node(context: OperatorContext, key: Key, store: StateStoreResource) -> str | None:
    """Return the node that has the store mounted already; a bucket is mounted nowhere."""
    return (
        None if store.spec.pvc is None else await find_claim_node(context, key.namespace, name_claim(store))
    )


def _concerns_collection(failure: Failure) -> bool:
    action = failure.action
    return (
        isinstance(action, CreateObject)
        and action.manifest["metadata"].get("labels", {}).get(ROLE_LABEL) in _ROLES
    )


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
    """Return the number of the oldest checkpoint that a pipeline may still go on in."""
    change = status.upgrade
    watched = change is not None and change.phase is UpgradePhase.WATCHING
    left = [change.anew.instead_of] if change is not None and change.anew is not None and watched else []
    return min(status.checkpoint, status.running_checkpoint, *left)
