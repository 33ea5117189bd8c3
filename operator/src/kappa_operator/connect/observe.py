"""Reads what a decision about Kafka Connect needs: its objects, pods and internal topics, and its answer."""

import hashlib
import json

from kappa_crds.connect import ConnectWorkers
from kappa_operator.cdcsource.peers import find_database_peers
from kappa_operator.connect.access import read_connect_access
from kappa_operator.connect.certificates import compute_fingerprint, is_due
from kappa_operator.connect.decide import find_workers
from kappa_operator.connect.model import ConnectAccess, Plugin
from kappa_operator.connect.names import (
    CONNECT_LABEL,
    KafkaClusterResource,
    list_hosts,
    name_rest_secret,
    name_workers,
)
from kappa_operator.connect.objects import CONTENT_ANNOTATION, WorkerOptions, build_objects
from kappa_operator.connect.observed import ConnectObserved, ConnectView, WorkerPod
from kappa_operator.connect.topics import CLEANUP, list_topics
from kappa_operator.consent import KAFKA_CONNECT
from kappa_operator.engine.cluster import Body
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.network import Destination, read_network
from kappa_operator.engine.ownership import find_controller
from kappa_operator.engine.recent import MINUTE, SHORT
from kappa_operator.errors import ConnectFailure, KafkaFailure, KappaError, NotAllowed, SecretProblem
from kappa_operator.kafka.config import build_access, build_purpose, find_secret_keys, name_uses
from kappa_operator.kafka.model import TopicView
from kappa_operator.pod_rules import check_template
from kappa_operator.secrets import read_secret

_MOST_PLUGINS = 64
_NO_MEMORY = 3
"""The exit code of a JVM that ends because its heap is used up (ExitOnOutOfMemoryError)."""
_CONNECTORS = ("source", "sink")


async def observe_connect(
    context: OperatorContext, resource: KafkaClusterResource, brokers: int | None
) -> ConnectObserved | None:
    """Return what is seen of Kafka Connect; None where the spec declares none, and there are no workers.

    `brokers` is the number of brokers, None while Kafka does not answer.
    """
    workers, status = find_workers(resource), resource.status.connect
    if workers is not None:
        return await _observe_workers(context, resource, workers, brokers)
    if status is not None and status.workers is not None:
        found = await _read_stateful_set(context, resource)
        return ConnectObserved(replicas=_get_replicas(found), uid=_get_uid(found))
    if resource.spec.connect is None:
        return None
    try:
        access = await read_connect_access(context, resource)
    except (SecretProblem, NotAllowed) as problem:
        return ConnectObserved(blocked=problem)
    view, unavailable = await _ask(context, access)
    return ConnectObserved(view=view, problem=unavailable)


async def _read_stateful_set(context: OperatorContext, resource: KafkaClusterResource) -> Body | None:
    """Return the StatefulSet; None where there is none, or only one of another owner."""
    ref = ObjectRef("apps/v1", "StatefulSet", resource.metadata.namespace, name_workers(resource))
    body = await context.cluster.get(ref)
    return body if _is_own(resource, body) else None


def _is_own(resource: KafkaClusterResource, body: Body | None) -> bool:
    return body is not None and find_controller(body).get("uid") == resource.metadata.uid


def _get_replicas(body: Body | None) -> int | None:
    return None if body is None else int(body["spec"].get("replicas", 1))


def _get_uid(body: Body | None) -> str:
    return "" if body is None else str(body["metadata"]["uid"])


async def _observe_workers(
    context: OperatorContext, resource: KafkaClusterResource, workers: ConnectWorkers, brokers: int | None
) -> ConnectObserved:
    secret_ref = ObjectRef("v1", "Secret", resource.metadata.namespace, name_rest_secret(resource))
    known = await context.read_recent(secret_ref, MINUTE)
    secret = known if _is_own(resource, known) else None
    blocked: KappaError | None = None
    versions = ""
    try:
        check_template(workers.template, context.settings)
        versions = await _check_log_in(context, resource)
    except (NotAllowed, SecretProblem) as problem:
        blocked = problem
    options = (
        None
        if secret is None
        else _build_options(context, resource, f"{compute_fingerprint(secret)}-{versions}")
    )
    found = await _read_stateful_set(context, resource)
    pods = await _read_pods(context, resource, _get_uid(found))
    # Without a ready worker the Service leads nowhere, and a call would only wait.
    is_up = any(each.ready for each in pods)
    view, unavailable = await _observe_answer(context, resource) if is_up else (None, None)
    topics, failure = await _observe_topics(context, resource, brokers)
    return ConnectObserved(
        view=view,
        problem=unavailable,
        blocked=blocked or failure,
        topics=topics,
        brokers=brokers or 1,
        contents={} if options is None else await _read_contents(context, resource, workers, options, found),
        replicas=_get_replicas(found),
        uid=_get_uid(found),
        pods=pods,
        secret_due=secret is None or is_due(secret, list_hosts(resource), context.now()),
        options=options,
    )


async def _check_log_in(context: OperatorContext, resource: KafkaClusterResource) -> str:
    """Return a fingerprint of the versions of the Secrets with which workers log in to Kafka; raise SecretProblem where one may not be used."""
    spec = resource.spec.of_workers
    wanted: dict[str, list[str]] = {}
    for name, key in find_secret_keys(spec):
        wanted.setdefault(name, []).append(key)
    secrets, versions = {}, []
    for name, keys in sorted(wanted.items()):
        ref = ObjectRef("v1", "Secret", resource.metadata.namespace, name)
        purpose = build_purpose(spec, *name_uses(resource.spec, name, KAFKA_CONNECT))
        secrets[name] = await read_secret(context, ref, keys, purpose, SHORT)
        body = await context.read_recent(ref, SHORT) or {}
        versions.append((name, body.get("metadata", {}).get("resourceVersion", "")))
    build_access(spec, secrets)  # a certificate that is none would end each worker
    return hashlib.sha256(json.dumps(versions).encode()).hexdigest()[:10]


def _build_options(context: OperatorContext, resource: KafkaClusterResource, secrets: str) -> WorkerOptions:
    settings, metadata = context.settings, resource.metadata
    peers = find_database_peers(context.cache, metadata.namespace, metadata.name)
    return WorkerOptions(
        image=settings.connect_image,
        pull_policy=settings.image_pull_policy,
        java_options=settings.connect_java_options,
        pods=settings.pods,
        network=read_network(settings.network_policies, settings.namespace),
        databases=tuple(Destination(host, port) for host, port in peers),
        secrets=secrets,
    )


async def _read_contents(
    context: OperatorContext,
    resource: KafkaClusterResource,
    workers: ConnectWorkers,
    options: WorkerOptions,
    stateful_set: Body | None,
) -> dict[tuple[str, str], str]:
    """Return the hashes of the objects that there are."""
    contents: dict[tuple[str, str], str] = {}
    for manifest in build_objects(resource, workers, options):
        ref = ObjectRef.of(manifest)
        body = stateful_set if ref.kind == "StatefulSet" else await context.read_recent(ref, MINUTE)
        if body is not None:
            annotations = body["metadata"].get("annotations") or {}
            contents[ref.kind, ref.name] = annotations.get(CONTENT_ANNOTATION, "")
    return contents


async def _read_pods(
    context: OperatorContext, resource: KafkaClusterResource, stateful_set: str
) -> tuple[WorkerPod, ...]:
    """Return the pods of the StatefulSet with that uid that are not being deleted. Others may have the label, too."""
    namespace, labels = resource.metadata.namespace, {CONNECT_LABEL: resource.metadata.name}
    bodies = await context.cluster.list_objects("v1", "Pod", namespace, labels)
    own = (body for body in bodies if stateful_set and find_controller(body).get("uid") == stateful_set)
    return tuple(parse_pod(body) for body in own if "deletionTimestamp" not in body["metadata"])


def parse_pod(body: Body) -> WorkerPod:
    """Return a worker from the JSON of its pod. The message of a container that ended may have text of Kafka, so it is left out."""
    status = body.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    container: Body = next(iter(status.get("containerStatuses") or ()), {})
    waiting = (container.get("state") or {}).get("waiting") or {}
    ended = (container.get("lastState") or {}).get("terminated") or {}
    trouble = None
    scheduled = conditions.get("PodScheduled") or {}
    if scheduled.get("reason") == "Unschedulable":
        trouble = f"no node takes it: {scheduled.get('message', '')}"
    elif waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
        trouble = f"{waiting['reason']}{_explain_end(ended)}"
    is_ready = (conditions.get("Ready") or {}).get("status") == "True"
    return WorkerPod(body["metadata"]["name"], is_ready, trouble)


def _explain_end(ended: Body) -> str:
    if ended.get("exitCode") == _NO_MEMORY or ended.get("reason") == "OOMKilled":
        return ", the last one used up its memory; raise spec.connect.workers.resources.memory"
    return (
        f", the last one ended with {ended['reason']} ({ended.get('exitCode')})"
        if ended.get("reason")
        else ""
    )


async def _observe_answer(
    context: OperatorContext, resource: KafkaClusterResource
) -> tuple[ConnectView | None, KappaError | None]:
    try:
        access = await read_connect_access(context, resource)
    except SecretProblem as problem:
        return None, problem
    return await _ask(context, access)


async def _ask(
    context: OperatorContext, access: ConnectAccess
) -> tuple[ConnectView | None, ConnectFailure | None]:
    try:
        info = await context.connect.get_info(access)
        plugins = await context.connect.list_plugins(access)
    except ConnectFailure as failure:
        return None, failure
    return ConnectView(_clean(info.version), describe_plugins(plugins)), None


def describe_plugins(plugins: tuple[Plugin, ...]) -> tuple[str, ...]:
    """Return the classes of connectors with their versions. The text is that of Kafka Connect, so only plain characters stay."""
    named = (each for each in plugins if each.type in ("", *_CONNECTORS))
    texts = {f"{_clean(each.name)} {_clean(each.version or '')}".strip() for each in named}
    return tuple(sorted(texts))[:_MOST_PLUGINS]


def _clean(text: str) -> str:
    return "".join(each for each in text[:200] if each.isascii() and (each.isalnum() or each in "._-$+"))


async def _observe_topics(
    context: OperatorContext, resource: KafkaClusterResource, brokers: int | None
) -> tuple[dict[str, TopicView | None] | None, KafkaFailure | None]:
    if brokers is None:
        return None, None
    key, configs = Key.of(resource), frozenset({CLEANUP})
    try:
        found = {
            each.name: await context.kafka.describe_topic(key, each.name, configs)
            for each in list_topics(resource)
        }
    except KafkaFailure as failure:
        return None, failure
    return found, None
