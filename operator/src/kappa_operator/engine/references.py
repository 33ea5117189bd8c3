"""From the names in a spec to the resources and Secrets they mean, and back: who waits for a resource.

Custom resources come from the cache, Secrets from the API server. What is missing is a `ReferenceProblem` or a
`SecretProblem`, whose message names it and says what to do.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from pydantic import ValidationError

from kappa_crds.conditions import ConditionType, find_condition
from kappa_crds.reasons import Reason
from kappa_crds.resource import Resource
from kappa_crds.statestore import StateStoreSpec, StateStoreStatus
from kappa_operator.engine.cache import ResourceCache, get_topic_name
from kappa_operator.engine.cluster import Body
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.errors import ReferenceProblem, SecretProblem
from kappa_operator.kafka.config import build_access, find_secret_keys
from kappa_operator.kafka.model import KafkaAccess
from kappa_operator.kafkacluster.decide import KafkaClusterResource

StateStoreResource = Resource[StateStoreSpec, StateStoreStatus]

_MISSING = {
    "KafkaCluster": Reason.CLUSTER_NOT_FOUND, "StateStore": Reason.STATE_STORE_NOT_FOUND, "Pipeline": Reason.PIPELINE_NOT_FOUND,
    "Savepoint": Reason.SAVEPOINT_NOT_READY, "Topic": Reason.TOPIC_NOT_READY,
}  # fmt: skip
_AMBIGUOUS = {"KafkaCluster": Reason.CLUSTER_AMBIGUOUS, "StateStore": Reason.STATE_STORE_AMBIGUOUS}
_NOT_READY = {
    **_MISSING, "KafkaCluster": Reason.CLUSTER_NOT_READY, "StateStore": Reason.STATE_STORE_NOT_READY,
}  # fmt: skip
_FIELD = {"KafkaCluster": "clusterRef", "StateStore": "stateStoreRef"}


def find_referred(cache: ResourceCache, kind: str, namespace: str, name: str | None) -> Key:
    """Return the resource of that name, or the only one of the namespace; raise ReferenceProblem for none or many."""
    if name is not None:
        key = Key(kind, namespace, name)
        if cache.get_version(key) >= 0:
            return key
        raise ReferenceProblem(
            f"there is no {kind} {name} in namespace {namespace}; create it", reason=_MISSING[kind]
        )
    present = cache.find(kind, namespace)
    if len(present) == 1:
        return present[0]
    if not present:
        raise ReferenceProblem(
            f"there is no {kind} in namespace {namespace}; create one", reason=_MISSING[kind]
        )
    names = ", ".join(key.name for key in present)
    raise ReferenceProblem(
        f"namespace {namespace} has several of kind {kind} ({names}); name one in spec.{_FIELD[kind]}",
        reason=_AMBIGUOUS[kind],
    )


def resolve_cluster(cache: ResourceCache, namespace: str, name: str | None) -> KafkaClusterResource:
    """Return the ready KafkaCluster that is meant; raise ReferenceProblem."""
    return _require_ready(cache, find_referred(cache, "KafkaCluster", namespace, name))


def resolve_store(cache: ResourceCache, namespace: str, name: str | None) -> StateStoreResource:
    """Return the ready StateStore that is meant; raise ReferenceProblem."""
    return _require_ready(cache, find_referred(cache, "StateStore", namespace, name))


def _require_ready(cache: ResourceCache, key: Key) -> Resource[Any, Any]:
    resource = read_referred(cache, key)
    condition = find_condition(resource.status.conditions, ConditionType.READY)
    if condition is not None and condition.status == "True":
        return resource
    said = "it was not checked yet" if condition is None else f"{condition.reason}: {condition.message}"
    raise ReferenceProblem(
        f"{key.kind} {key.name} is not ready: {said}", reason=_NOT_READY[key.kind], retryable=True
    )


def read_referred(cache: ResourceCache, key: Key) -> Resource[Any, Any]:
    """Return the resource; raise ReferenceProblem where it is not there, and where it is invalid."""
    try:
        resource = cache.read(key)
    except ValidationError as error:
        invalid = error.errors(include_input=False, include_url=False)[0]
        message = f"{key.kind} {key.name} is invalid: {'.'.join(map(str, invalid['loc']))}: {invalid['msg']}; correct it"
        raise ReferenceProblem(message, reason=_NOT_READY[key.kind], retryable=True) from None
    if resource is None:
        raise ReferenceProblem(
            f'{key.kind} "{key.name}" not found in namespace "{key.namespace}"; create it',
            reason=_MISSING[key.kind],
            retryable=True,
        )
    return resource


async def read_secret(
    context: OperatorContext, namespace: str, name: str, keys: Iterable[str]
) -> dict[str, str]:
    """Return these keys of a Secret as text; raise SecretProblem that names the Secret and the key."""
    body = await context.cluster.get(ObjectRef("v1", "Secret", namespace, name))
    if body is None:
        raise SecretProblem(f"there is no Secret {name} in namespace {namespace}; create it")
    data = body.get("data") or {}
    return {key: _decode(name, key, data) for key in keys}


def _decode(name: str, key: str, data: Mapping[str, str]) -> str:
    if not data.get(key):
        raise SecretProblem.incomplete(name, key, "is missing or empty")
    try:
        return base64.b64decode(data[key], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise SecretProblem.incomplete(name, key, "is no UTF-8 text") from None


async def read_access(context: OperatorContext, cluster: KafkaClusterResource) -> KafkaAccess:
    """Return how to reach the Kafka cluster, its Secrets read anew; raise SecretProblem."""
    wanted: dict[str, list[str]] = {}
    for name, key in find_secret_keys(cluster.spec):
        wanted.setdefault(name, []).append(key)
    namespace = cluster.metadata.namespace
    secrets = {name: await read_secret(context, namespace, name, keys) for name, keys in wanted.items()}
    return build_access(cluster.spec, secrets)


async def connect(context: OperatorContext, cluster: KafkaClusterResource) -> Key:
    """Return the key of the cluster, for which there is a client from now on; raise SecretProblem or KafkaFailure.

    A client that is there is kept: the check of the KafkaCluster makes it anew when a Secret changes.
    """
    key = Key("KafkaCluster", cluster.metadata.namespace, cluster.metadata.name)
    await context.kafka.ensure(key, partial(read_access, context, cluster))
    return key


def find_store_users(cache: ResourceCache, store: Key) -> tuple[str, ...]:
    """Return the names of the pipelines that keep their state in the store."""
    alone = cache.find("StateStore", store.namespace) == [store]

    def uses(body: Body | None) -> bool:
        named = (body or {}).get("spec", {}).get("stateStoreRef")
        return bool(body) and (named == store.name or (named is None and alone))

    return tuple(key.name for key in find_users(cache, store, "Pipeline") if uses(cache.get_body(key)))


def find_store_savepoints(cache: ResourceCache, store: Key, claim: str) -> tuple[str, ...]:
    """Return the names of the Savepoints whose files, or a copy of them, are on the claim of the store."""

    def is_there(body: Body | None) -> bool:
        status, spec = (body or {}).get("status", {}), (body or {}).get("spec", {})
        wanted = {export["storeRef"] for export in spec.get("exports", [])}
        copied = {
            copy["storeRef"] for copy in status.get("exports", []) if copy["state"] in ("Copying", "Exported")
        }
        return status.get("claimName") == claim or store.name in wanted & copied

    savepoints = cache.find("Savepoint", store.namespace)
    return tuple(key.name for key in savepoints if is_there(cache.get_body(key)))


def find_users(cache: ResourceCache, key: Key, kind: str) -> list[Key]:
    """Return the resources of a kind that name this one, or mean it as the only one, sorted by name."""
    return sorted(each for each in cache.find_naming(key) if each.kind == kind)


def find_dependents(cache: ResourceCache, key: Key, *, renewed: bool = False) -> list[Key]:
    """Return the resources that are to be looked at now that this one changed.

    Those that name it, unless they are ready: a check that found everything as before must not wake ten thousand topics. A spec
    that was `renewed`, or is gone, concerns all of them. And those whose deletion waits for this one.
    """
    naming = {each for each in cache.find_naming(key) if renewed or cache.is_waiting(each)}
    peers = {each for each in _find_peers(cache, key) if cache.is_waiting(each)}
    held = {each for each in _find_held(cache, key) if cache.is_deleting(each)}
    return sorted((naming | peers | held) - {key})


def _find_peers(cache: ResourceCache, key: Key) -> Iterable[Key]:
    """Return what may wait for the resource and does not name it: rivals for a topic, and the pipeline of a savepoint."""
    if key.kind == "Savepoint":
        return (each for each in cache.find_named(key) if each.kind == "Pipeline")
    body = cache.get_body(key) if key.kind == "Topic" else None
    return () if body is None else cache.find_claims(get_topic_name(body))


def _find_held(cache: ResourceCache, key: Key) -> Iterable[Key]:
    """Return what may be kept from being deleted by the resource. A store need not be named by the savepoints in it."""
    if key.kind == "Savepoint":
        return cache.find("StateStore", key.namespace)
    if key.kind != "Pipeline":
        return ()
    savepoints = (each for each in cache.find_named(key) if each.kind == "Savepoint")
    return (*cache.find("StateStore", key.namespace), *savepoints)
