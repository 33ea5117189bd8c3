"""Reads what a decision about a state store needs: its PVC, its Secret, the pod of its check, and the pod that collects or measures."""

from dataclasses import replace

from kappa_crds.quantities import parse_size
from kappa_crds.savepoint_work import SavepointTask
from kappa_operator.engine.cluster import Body
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.network import read_network
from kappa_operator.engine.ownership import has_our_labels
from kappa_operator.engine.plan import Failure
from kappa_operator.engine.recent import MINUTE
from kappa_operator.errors import SecretProblem
from kappa_operator.savepoint.model import WorkerPod
from kappa_operator.savepoint.observe import find_worker
from kappa_operator.statestore.check import PATIENCE
from kappa_operator.statestore.checkpoints import find_current
from kappa_operator.statestore.keys import check_store_secret
from kappa_operator.statestore.model import Claim, StateStoreObserved, compute_fingerprint, get_wait
from kappa_operator.statestore.mounts import find_claim_node
from kappa_operator.statestore.objects import (
    StateStoreResource,
    build_claim_labels,
    build_claim_ref,
    build_storage,
    name_claim,
)
from kappa_operator.statestore.pods import build_pod_ref
from kappa_operator.statestore.upkeep import find_open
from kappa_operator.statestore.users import find_store_archives, find_store_savepoints, find_store_users


async def observe_statestore(
    context: OperatorContext, key: Key, failures: tuple[Failure, ...]
) -> StateStoreObserved | None:
    """Return what a decision about the store needs, or None where it is gone."""
    resource: StateStoreResource | None = context.cache.read(key)
    if resource is None:
        return None
    claim = await _observe_claim(context, resource)
    version, problem = await _observe_secret(context, resource)
    fingerprint = compute_fingerprint(build_storage(resource), version)
    checker, open_ = await _find_checker(context, resource, claim), find_open(resource)
    ref = build_pod_ref(resource, open_[0], open_[1].number) if open_ else None
    worker = None if ref is None else await find_worker(context, resource, ref)
    is_due = checker is None and get_wait(resource, fingerprint, context.now()) == 0
    needs_node = claim is not None and (is_due or (ref is not None and worker is None))
    return StateStoreObserved(
        resource,
        users=find_store_users(context.cache, key),
        savepoints=_find_savepoints(context, resource),
        archives=_find_archives(context, resource),
        claim=claim,
        checker=checker,
        worker=worker,
        node=await find_claim_node(context, key.namespace, name_claim(resource)) if needs_node else None,
        image=context.settings.runtime_image,
        pull_policy=context.settings.image_pull_policy,
        network=read_network(context.settings.network_policies, context.settings.namespace),
        pods=context.settings.pods,
        fingerprint=fingerprint,
        problem=problem,
        current=None if ref is None else find_current(context.cache, key.namespace),
        failures=failures,
    )


async def _observe_claim(context: OperatorContext, resource: StateStoreResource) -> Claim | None:
    """Return the PVC, if there is one; a bucket, or a folder in HDFS, has none."""
    if resource.spec.pvc is None:
        return None
    body = await context.cluster.get(build_claim_ref(resource))
    return None if body is None else _parse_claim(body, build_claim_labels(resource))


async def _observe_secret(
    context: OperatorContext, resource: StateStoreResource
) -> tuple[str, SecretProblem | None]:
    """Return the version of the Secret with the store's keys, empty where it needs none, and what is wrong with it."""
    storage, namespace = build_storage(resource), resource.metadata.namespace
    try:
        await check_store_secret(context, namespace, storage)
    except SecretProblem as problem:
        return "", problem
    if storage.secret is None:
        return "", None
    body = await context.read_recent(ObjectRef("v1", "Secret", namespace, storage.secret), MINUTE)
    return (body or {}).get("metadata", {}).get("resourceVersion", ""), None


def _find_savepoints(context: OperatorContext, resource: StateStoreResource) -> tuple[str, ...]:
    """Return the Savepoints on the PVC, where it may be deleted."""
    if resource.metadata.deletion_timestamp is None:
        return ()
    key = Key("StateStore", resource.metadata.namespace, resource.metadata.name)
    return find_store_savepoints(context.cache, key, name_claim(resource))


def _find_archives(context: OperatorContext, resource: StateStoreResource) -> tuple[str, ...]:
    """Return the Topics whose archive is in the store, where it may be deleted."""
    if resource.metadata.deletion_timestamp is None:
        return ()
    return find_store_archives(context.cache, Key.of(resource))


def _parse_claim(body: Body, labels: dict[str, str]) -> Claim:
    metadata = body["metadata"]
    return Claim(
        uid=metadata["uid"],
        phase=body.get("status", {}).get("phase", "Pending"),
        size=parse_size(body["spec"]["resources"]["requests"]["storage"]),
        deleting="deletionTimestamp" in metadata,
        own=has_our_labels(body, labels),
    )


async def _find_checker(
    context: OperatorContext, resource: StateStoreResource, claim: Claim | None
) -> WorkerPod | None:
    if resource.status.check is None:
        return None
    ref = build_pod_ref(resource, SavepointTask.CHECK, resource.status.check)
    pod = await find_worker(context, resource, ref)
    if pod is None or pod.deleting:
        return None
    patient = (context.now() - pod.created).total_seconds() < PATIENCE
    if pod.result is None and not patient and claim is not None and claim.phase == "Pending":
        return replace(pod, waits=await _explain_claim(context, build_claim_ref(resource)))
    return pod


async def _explain_claim(context: OperatorContext, claim: ObjectRef) -> str:
    """Return the last Event of a PVC that stays Pending: the provisioner's own message."""
    fields = f"regarding.kind={claim.kind},regarding.name={claim.name}"
    about = await context.cluster.list_objects("events.k8s.io/v1", "Event", claim.namespace, fields=fields)
    if not about:
        return f"PVC {claim.name} is Pending; nothing provisions it yet"
    last = max(about, key=lambda event: event["metadata"].get("creationTimestamp", ""))
    return f"PVC {claim.name} is Pending: {last.get('reason')}: {last.get('note')}"
