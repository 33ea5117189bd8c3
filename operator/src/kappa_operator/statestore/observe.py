"""Reads what a decision about a state store needs: its PVC, the pod of its check, and the pod that collects or measures."""

import json
from datetime import datetime
from typing import Any

from kappa_crds.quantities import parse_size
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import WorkState
from kappa_operator.engine.actions import CreateObject
from kappa_operator.engine.cluster import Body
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.plan import Failure
from kappa_operator.savepoint.observe import find_worker
from kappa_operator.statestore.checkpoints import find_current
from kappa_operator.statestore.collection_pods import (
    COLLECTOR_ROLE,
    MEASURER_ROLE,
    build_collector_ref,
    build_measurer_ref,
)
from kappa_operator.statestore.model import Claim, Probe, ProbeResult, StateStoreObserved, get_wait
from kappa_operator.statestore.mounts import explain_waiting, find_claim_node
from kappa_operator.statestore.objects import (
    StateStoreResource,
    build_claim_ref,
    build_probe_ref,
    name_claim,
)
from kappa_operator.statestore.probe import FULL
from kappa_operator.statestore.pvc import PATIENCE
from kappa_operator.statestore.users import find_store_savepoints, find_store_users

_REASONS: dict[str, Reason] = {FULL: Reason.STORE_FULL}


async def observe_statestore(
    context: OperatorContext, key: Key, failures: tuple[Failure, ...]
) -> StateStoreObserved | None:
    """Return what a decision about the store needs, or None where it is gone."""
    resource: StateStoreResource | None = context.cache.read(key)
    if resource is None:
        return None
    refused = [failure for failure in failures if _concerns_worker(failure)]
    claim, probe = await _observe_claim(context, resource)
    ref = _find_worker_ref(resource)
    worker = None if ref is None else await find_worker(context, ref)
    is_due = claim is not None and probe is None and get_wait(resource, context.now()) == 0
    return StateStoreObserved(
        resource,
        users=find_store_users(context.cache, key),
        savepoints=_find_savepoints(context, resource),
        claim=claim,
        probe=probe,
        node=await _find_node(context, resource) if is_due or (ref and not worker) else None,
        image=context.settings.operator_image,
        worker_image=context.settings.runtime_image,
        pull_policy=context.settings.image_pull_policy,
        worker=worker,
        current=None if ref is None else find_current(context.cache, key.namespace),
        refused=refused[-1].error.message if refused else "",
        failures=tuple(each for each in failures if each not in refused),
    )


async def _observe_claim(
    context: OperatorContext, resource: StateStoreResource
) -> tuple[Claim | None, Probe | None]:
    """Return the PVC and the pod that checks it; a bucket, or a folder in HDFS, has neither."""
    if resource.spec.pvc is None:
        return None, None
    body = await context.cluster.get(build_claim_ref(resource))
    claim = None if body is None else _parse_claim(body)
    return claim, await _find_probe(context, resource, claim)


async def _find_node(context: OperatorContext, resource: StateStoreResource) -> str | None:
    """Return the node where the PVC is mounted already; a bucket is not mounted."""
    if resource.spec.pvc is None:
        return None
    return await find_claim_node(context, resource.metadata.namespace, name_claim(resource))


def _find_worker_ref(resource: StateStoreResource) -> ObjectRef | None:
    """Return the pod that collects or measures now, or is to be created for that."""
    collection, measurement = resource.status.collection, resource.status.measurement
    if collection is not None and collection.state is not WorkState.DONE:
        return build_collector_ref(resource, collection)
    if measurement is not None and measurement.state is not WorkState.DONE:
        return build_measurer_ref(resource, measurement)
    return None


def _concerns_worker(failure: Failure) -> bool:
    if not isinstance(failure.action, CreateObject):
        return False
    labels = failure.action.manifest["metadata"].get("labels", {})
    return any(role.items() <= labels.items() for role in (COLLECTOR_ROLE, MEASURER_ROLE))


def _find_savepoints(context: OperatorContext, resource: StateStoreResource) -> tuple[str, ...]:
    """Return the Savepoints on the PVC, where it may be deleted."""
    if resource.metadata.deletion_timestamp is None:
        return ()
    key = Key("StateStore", resource.metadata.namespace, resource.metadata.name)
    return find_store_savepoints(context.cache, key, name_claim(resource))


def _parse_claim(body: Body) -> Claim:
    metadata = body["metadata"]
    return Claim(
        uid=metadata["uid"],
        phase=body.get("status", {}).get("phase", "Pending"),
        size=parse_size(body["spec"]["resources"]["requests"]["storage"]),
        deleting="deletionTimestamp" in metadata,
    )


async def _find_probe(
    context: OperatorContext, resource: StateStoreResource, claim: Claim | None
) -> Probe | None:
    if resource.status.check is None:
        return None
    ref = build_probe_ref(resource, resource.status.check)
    pod = await context.cluster.get(ref)
    if pod is None or "deletionTimestamp" in pod["metadata"]:
        return None
    created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    result = parse_result(pod)
    waits = explain_waiting(pod)
    patient = (context.now() - created).total_seconds() < PATIENCE
    if result is None and not patient and claim is not None and claim.phase == "Pending":
        waits = await _explain_claim(context, build_claim_ref(resource)) or waits
    return Probe(ref, pod["metadata"]["uid"], created, result, waits)


def parse_result(pod: Body) -> ProbeResult | None:
    """Return the result of the pod, None while it has not ended."""
    status = pod.get("status", {})
    if status.get("phase") not in ("Succeeded", "Failed"):
        return None
    container: Body = next(iter(status.get("containerStatuses", [])), {})
    ended = container.get("state", {}).get("terminated", {})
    try:
        found: dict[str, Any] = json.loads(ended.get("message", ""))
        if found["ok"]:
            return ProbeResult(ok=True, free_bytes=found.get("freeBytes"))
        reason = _REASONS.get(found["reason"], Reason.STORE_CHECK_FAILED)
        return ProbeResult(ok=False, reason=reason, message=found["message"])
    except (ValueError, KeyError, TypeError):
        why = status.get("message") or status.get("reason") or ended.get("message") or ended.get("reason")
        code = ended.get("exitCode", "unknown")
        return ProbeResult(ok=False, message=f"the check ended with exit code {code}: {why or 'no message'}")


async def _explain_claim(context: OperatorContext, claim: ObjectRef) -> str | None:
    """Return the last Event of a PVC that stays Pending: the provisioner's own message."""
    fields = f"regarding.kind={claim.kind},regarding.name={claim.name}"
    about = await context.cluster.list_objects("events.k8s.io/v1", "Event", claim.namespace, fields=fields)
    if not about:
        return f"PVC {claim.name} is Pending; nothing provisions it yet"
    last = max(about, key=lambda event: event["metadata"].get("creationTimestamp", ""))
    return f"PVC {claim.name} is Pending: {last.get('reason')}: {last.get('note')}"
