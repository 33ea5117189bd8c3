"""Reads what a decision about a source needs: its KafkaCluster, its Secrets, the pod in the database, and its connector."""

import asyncio
from dataclasses import replace

from kappa_crds.cdcsource_proof import ProofResult
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import WorkState
from kappa_crds.topic import DeletionPolicy
from kappa_operator.cdc.connector.common import MAX_MESSAGE_BYTES
from kappa_operator.cdc.connector.names import TRUSTSTORE, name_key
from kappa_operator.cdc.work import DatabaseResult
from kappa_operator.cdcsource import worker_log
from kappa_operator.cdcsource.deletion import deletes_topics
from kappa_operator.cdcsource.history import CONFIGS, has_history
from kappa_operator.cdcsource.limits import choose_limits, needs_limits
from kappa_operator.cdcsource.model import CDCSourceObserved, ConnectorView
from kappa_operator.cdcsource.objects import (
    CDCSourceResource,
    build_credentials,
    build_login,
    build_sources_ref,
)
from kappa_operator.cdcsource.peers import find_prefix_owner
from kappa_operator.cdcsource.pods import build_pod_ref
from kappa_operator.cdcsource.proof_pods import build_proof_ref
from kappa_operator.cdcsource.worker_log import find_topic, find_worker
from kappa_operator.connect.access import resolve_connect
from kappa_operator.connect.apply import read_credentials
from kappa_operator.connect.model import FAILED, ConnectAccess, ConnectorOffsets, ConnectorStatus
from kappa_operator.connect.names import KafkaClusterResource, name_history
from kappa_operator.engine.cluster import Body
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key
from kappa_operator.engine.network import read_network
from kappa_operator.engine.ownership import is_controlled
from kappa_operator.engine.plan import Failure
from kappa_operator.engine.recent import MINUTE, SHORT
from kappa_operator.engine.work_pods import WorkPod, parse_result, read_work_pod
from kappa_operator.errors import (
    ConnectorNotFound,
    KappaError,
    KubernetesError,
    ReferenceProblem,
    SecretProblem,
)
from kappa_operator.kafkacluster.connection import connect, read_reader_spec, resolve_cluster

_PATIENCE = (3.0, 3.0, 6.0, 12.0, None)
"""How long a position is waited for, in seconds, before the state of its connector is read again."""


async def observe_cdcsource(
    context: OperatorContext, key: Key, failures: tuple[Failure, ...]
) -> CDCSourceObserved | None:
    """Return what a decision about the source needs, or None where it is gone."""
    resource: CDCSourceResource | None = context.cache.read(key)
    if resource is None:
        return None
    settings = context.settings
    observed = CDCSourceObserved(
        resource,
        pod=await _find_pod(context, resource),
        proof_pod=await _find_proof_pod(context, resource),
        image=settings.operator_image,
        pull_policy=settings.image_pull_policy,
        network=read_network(settings.network_policies, settings.namespace),
        pods=settings.pods,
        failures=failures,
    )
    observed = await _observe_login(context, observed)
    try:
        cluster = resolve_cluster(context.cache, key.namespace, _find_cluster_name(resource))
    except ReferenceProblem as problem:
        gone = problem.reason is Reason.CLUSTER_NOT_FOUND
        return replace(observed, problem=problem, is_cluster_gone=gone)
    owner = find_prefix_owner(context.cache, resource, cluster.metadata.name)
    observed = await _observe_readers(
        context, replace(observed, cluster=cluster, prefix_owner=owner), cluster
    )
    return await _observe_connect(context, observed, cluster)


async def _observe_login(context: OperatorContext, observed: CDCSourceObserved) -> CDCSourceObserved:
    """Read the log-in of the database, whose Secrets must allow that. It needs no Kafka."""
    if observed.resource.metadata.deletion_timestamp is not None:
        return observed
    wanted = build_login(observed.resource)
    try:
        await read_credentials(context, wanted, MINUTE)
    except KappaError as problem:
        return replace(observed, problem=problem)
    refs = [wanted.login, *([wanted.ca[0]] if wanted.ca else [])]
    bodies = [await context.read_recent(ref, MINUTE) for ref in refs]
    versions = ".".join(str((body or {}).get("metadata", {}).get("resourceVersion", "")) for body in bodies)
    return replace(observed, credentials=versions)


def _find_cluster_name(resource: CDCSourceResource) -> str | None:
    """Return the KafkaCluster that is meant. Another one that appears later does not change what a source without a name means."""
    return resource.spec.cluster_ref or resource.status.cluster


async def _observe_connect(
    context: OperatorContext, observed: CDCSourceObserved, cluster: KafkaClusterResource
) -> CDCSourceObserved:
    try:
        access = await resolve_connect(context, cluster)
        if observed.resource.metadata.deletion_timestamp is None:
            if observed.problem is not None:
                return observed
            observed = await _observe_secrets(context, observed, cluster)
            observed = await _observe_history(context, observed, cluster)
        elif deletes_topics(observed.resource):
            await connect(context, cluster)
        view = await _read_connector(context, observed.resource, access)
        observed = await _observe_log(context, replace(observed, connector=view), cluster)
        return await _observe_limits(context, observed, cluster, access)
    except KappaError as problem:
        return replace(observed, problem=problem)


async def _observe_secrets(
    context: OperatorContext, observed: CDCSourceObserved, cluster: KafkaClusterResource
) -> CDCSourceObserved:
    """Find whether the workers have the log-in."""
    resource = observed.resource
    wanted = build_credentials(resource, cluster)
    values = await read_credentials(context, wanted, MINUTE)
    kept = await context.read_recent(build_sources_ref(cluster.metadata.namespace, cluster.metadata.name), SHORT)  # fmt: skip
    if kept is not None and not is_controlled(kept, "KafkaCluster", cluster.metadata.name):
        raise SecretProblem(
            f"Secret {kept['metadata']['name']} does not belong to KafkaCluster {cluster.metadata.name}; delete or rename it",
            reason=Reason.NAME_TAKEN,
        )
    data = (kept or {}).get("data") or {}
    has_all = all(data.get(name_key(resource.metadata.name, part)) == value for part, value in values.items())
    needs_store = wanted.truststore and wanted.ca is not None
    has_store = not needs_store or name_key(resource.metadata.name, TRUSTSTORE) in data
    return replace(observed, are_credentials_kept=has_all and has_store)


async def _observe_history(
    context: OperatorContext, observed: CDCSourceObserved, cluster: KafkaClusterResource
) -> CDCSourceObserved:
    """Read the topic with the history of the schemas, where the connector has one."""
    if not has_history(observed.resource):
        return observed
    key, topic = await connect(context, cluster), name_history(cluster, observed.resource.metadata.name)
    found = await context.kafka.describe_topic(key, topic, frozenset(CONFIGS))
    return replace(observed, schema_topic=found)


async def _read_connector(
    context: OperatorContext, resource: CDCSourceResource, access: ConnectAccess
) -> ConnectorView | None:
    """Return the connector; None where Kafka Connect does not have it. One that was just created has no status for a moment."""
    name, client = resource.metadata.name, context.connect
    try:
        config = await client.get_config(access, name)
    except ConnectorNotFound:
        return None
    view = ConnectorView(config, *await _read_position(context, access, name))
    is_deleting = resource.metadata.deletion_timestamp is not None
    if is_deleting and resource.spec.topic_deletion_policy is DeletionPolicy.DELETE:
        return replace(view, topics=await client.list_topics(access, name))
    return view


async def _read_position(
    context: OperatorContext, access: ConnectAccess, name: str
) -> tuple[ConnectorStatus, ConnectorOffsets]:
    """Return the state of a connector and its position.

    A task that fails may leave a transaction open. Until that times out, or another task begins, Kafka Connect cannot read positions and
    does not answer. A minute of waiting would delay the restart that ends it, so the position of a connector that failed counts as unknown.
    """
    for seconds in _PATIENCE:
        status = await context.connect.get_status(access, name)
        try:
            async with asyncio.timeout(seconds):
                return status, await context.connect.get_offsets(access, name)
        except TimeoutError:
            if any(each.state == FAILED for each in status.tasks):
                break
    return status, ConnectorOffsets()


async def _observe_log(
    context: OperatorContext, observed: CDCSourceObserved, cluster: KafkaClusterResource
) -> CDCSourceObserved:
    """Find the topic of a record that was too large. Without the permission to read logs, it stays unknown."""
    pod = find_worker(observed, cluster)
    if pod is None:
        return observed
    try:
        log = await context.cluster.read_log(pod, worker_log.SECONDS, worker_log.MOST_BYTES)
    except KubernetesError:
        return observed
    return replace(observed, large_topic=find_topic(observed, log))


async def _observe_limits(
    context: OperatorContext,
    observed: CDCSourceObserved,
    cluster: KafkaClusterResource,
    access: ConnectAccess,
) -> CDCSourceObserved:
    """Read the limits of the connector's topics, where one of them refused a record."""
    if not needs_limits(observed):
        return observed
    written = await context.connect.list_topics(access, observed.resource.metadata.name)
    topics = choose_limits(observed, written)
    key, wanted = await connect(context, cluster), frozenset({MAX_MESSAGE_BYTES})
    views = await asyncio.gather(*(context.kafka.describe_topic(key, each, wanted) for each in topics))
    return replace(observed, full_topics=tuple(view for view in views if view is not None))


async def _find_pod(context: OperatorContext, resource: CDCSourceResource) -> WorkPod[DatabaseResult] | None:
    """Return the pod of the last work, if it is there."""
    if resource.status.work is None or resource.status.work.state is WorkState.DONE:
        return None
    ref = build_pod_ref(resource, resource.status.work)
    pod = read_work_pod(await context.cluster.get(ref), resource.metadata.uid, ref, parse_database_result)
    return None if pod is None or pod.deleting else pod


async def _find_proof_pod(
    context: OperatorContext, resource: CDCSourceResource
) -> WorkPod[ProofResult] | None:
    """Return the pod of the last proof, if it is there, also one that is being deleted: there are never two."""
    work = resource.status.proof.work if resource.status.proof else None
    if work is None or work.state is WorkState.DONE:
        return None
    ref = build_proof_ref(resource, work)
    return read_work_pod(await context.cluster.get(ref), resource.metadata.uid, ref, parse_proof_result)


async def _observe_readers(
    context: OperatorContext, observed: CDCSourceObserved, cluster: KafkaClusterResource
) -> CDCSourceObserved:
    """Find how a proof reads topics, and whether the Secrets for that may be used."""
    if observed.resource.spec.proof is None:
        return observed
    try:
        return replace(observed, readers=await read_reader_spec(context, cluster, MINUTE))
    except KappaError as problem:
        return replace(observed, proof_problem=problem)


def parse_database_result(pod: Body) -> DatabaseResult | None:
    """Return how the work of a pod in a database ended, None while it has not."""
    return parse_result(
        pod,
        DatabaseResult.model_validate_json,
        lambda ended, _: DatabaseResult(problem=f"{ended} and without a result"),
    )


def parse_proof_result(pod: Body) -> ProofResult | None:
    """Return how a proof ended, None while it has not."""
    return parse_result(
        pod,
        ProofResult.model_validate_json,
        lambda ended, _: ProofResult(problem=f"{ended} and without a result"),
    )
