"""Looks at a state store: checks a bucket or a folder in HDFS when that is due, or reads the claim and the pod that checks it."""

import json
from datetime import datetime
from typing import Any

from kappa_crds.quantities import parse_size
from kappa_crds.reasons import Reason
from kappa_operator.engine.cluster import Body
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.plan import Failure
from kappa_operator.errors import KappaError, SecretProblem, StoreFailure
from kappa_operator.secrets import read_secret
from kappa_operator.statestore.buckets import ACCESS_KEY, SECRET_KEY
from kappa_operator.statestore.model import (
    Claim,
    Probe,
    ProbeResult,
    StateStoreObserved,
    get_wait,
    is_unseen,
)
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
    """Gather what a decision about the store needs."""
    resource: StateStoreResource | None = context.cache.read(key)
    if resource is None:
        return None
    if resource.spec.pvc is None:
        return await _observe_remote(context, resource, failures)
    return await _observe_claim(context, key, resource, failures)


async def _observe_remote(
    context: OperatorContext, resource: StateStoreResource, failures: tuple[Failure, ...]
) -> StateStoreObserved:
    metadata, now = resource.metadata, context.now()
    is_due = is_unseen(resource) or get_wait(resource, now) == 0
    if metadata.deletion_timestamp is not None or not is_due:
        return StateStoreObserved(resource, failures=failures)
    problem = await _check_remote(context, resource)
    return StateStoreObserved(resource, checked=True, problem=problem, failures=failures)


async def _check_remote(context: OperatorContext, resource: StateStoreResource) -> KappaError | None:
    s3 = resource.spec.s3
    reference = s3.credentials_secret_ref if s3 else None
    credentials: dict[str, str] = {}
    try:
        if reference is not None:
            keys = (ACCESS_KEY, SECRET_KEY)
            credentials = await read_secret(context, resource.metadata.namespace, reference.name, keys)
        await context.buckets.check(resource, credentials)
    except (SecretProblem, StoreFailure) as problem:
        return problem
    return None


async def _observe_claim(
    context: OperatorContext, key: Key, resource: StateStoreResource, failures: tuple[Failure, ...]
) -> StateStoreObserved:
    body = await context.cluster.get(build_claim_ref(resource))
    claim = None if body is None else _parse_claim(body)
    probe = await _find_probe(context, resource, claim)
    due = probe is None and get_wait(resource, context.now()) == 0
    return StateStoreObserved(
        resource,
        users=find_store_users(context.cache, key),
        savepoints=_find_savepoints(context, resource),
        claim=claim,
        probe=probe,
        node=await find_claim_node(context, resource.metadata.namespace, name_claim(resource))
        if due
        else None,
        image=context.settings.operator_image,
        pull_policy=context.settings.image_pull_policy,
        failures=failures,
    )


def _find_savepoints(context: OperatorContext, resource: StateStoreResource) -> tuple[str, ...]:
    """Return the Savepoints on the claim; that matters where it may go."""
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
    """Return what the pod found, None while it has not ended."""
    status = pod.get("status", {})
    if status.get("phase") not in ("Succeeded", "Failed"):
        return None
    container: Body = next(iter(status.get("containerStatuses", [])), {})
    ended = container.get("state", {}).get("terminated", {})
    try:
        said: dict[str, Any] = json.loads(ended.get("message", ""))
        if said["ok"]:
            return ProbeResult(ok=True, free_bytes=said.get("freeBytes"))
        reason = _REASONS.get(said["reason"], Reason.STORE_CHECK_FAILED)
        return ProbeResult(ok=False, reason=reason, message=said["message"])
    except (ValueError, KeyError, TypeError):
        why = status.get("message") or status.get("reason") or ended.get("message") or ended.get("reason")
        code = ended.get("exitCode", "unknown")
        return ProbeResult(ok=False, message=f"the check ended with exit code {code}: {why or 'no word'}")


async def _explain_claim(context: OperatorContext, claim: ObjectRef) -> str | None:
    """Return the last Event on a claim that stays Pending: the provisioner's own words."""
    fields = f"regarding.kind={claim.kind},regarding.name={claim.name}"
    about = await context.cluster.list_objects("events.k8s.io/v1", "Event", claim.namespace, fields=fields)
    if not about:
        return f"claim {claim.name} is Pending; nothing provisions it so far"
    last = max(about, key=lambda event: event["metadata"].get("creationTimestamp", ""))
    return f"claim {claim.name} is Pending: {last.get('reason')}: {last.get('note')}"
