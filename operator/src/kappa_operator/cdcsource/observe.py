"""Reads what a decision about a source needs: its KafkaCluster, its Secrets, the pod in the database, and its connector."""

from dataclasses import replace
from datetime import datetime

from pydantic import ValidationError

from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import WorkState
from kappa_crds.topic import DeletionPolicy
from kappa_operator.cdc.connector.names import TRUSTSTORE, name_key
from kappa_operator.cdc.work import DatabaseResult
from kappa_operator.cdcsource.model import CDCSourceObserved, ConnectorView, DatabasePod
from kappa_operator.cdcsource.objects import CDCSourceResource, build_credentials, build_sources_ref
from kappa_operator.cdcsource.pods import build_pod_ref
from kappa_operator.connect.access import resolve_connect
from kappa_operator.connect.apply import read_credentials
from kappa_operator.connect.model import ConnectAccess
from kappa_operator.connect.names import KafkaClusterResource
from kappa_operator.engine.cluster import Body
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key
from kappa_operator.engine.network import read_network
from kappa_operator.engine.ownership import find_controller, is_controlled
from kappa_operator.engine.plan import Failure
from kappa_operator.engine.recent import MINUTE, SHORT
from kappa_operator.errors import ConnectorNotFound, KappaError, ReferenceProblem, SecretProblem
from kappa_operator.kafkacluster.connection import connect, resolve_cluster
from kappa_operator.statestore.mounts import explain_waiting


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
        image=settings.operator_image,
        pull_policy=settings.image_pull_policy,
        network=read_network(settings.network_policies, settings.namespace),
        pods=settings.pods,
        failures=failures,
    )
    try:
        cluster = resolve_cluster(context.cache, key.namespace, _find_cluster_name(resource))
    except ReferenceProblem as problem:
        gone = problem.reason is Reason.CLUSTER_NOT_FOUND
        return replace(observed, problem=problem, is_cluster_gone=gone)
    return await _observe_connect(context, replace(observed, cluster=cluster), cluster)


def _find_cluster_name(resource: CDCSourceResource) -> str | None:
    """Return the KafkaCluster that is meant. Another one that appears later does not change what a source without a name means."""
    return resource.spec.cluster_ref or resource.status.cluster


async def _observe_connect(
    context: OperatorContext, observed: CDCSourceObserved, cluster: KafkaClusterResource
) -> CDCSourceObserved:
    try:
        access = await resolve_connect(context, cluster)
        if observed.resource.metadata.deletion_timestamp is None:
            observed = await _observe_secrets(context, observed, cluster)
        elif observed.resource.spec.topic_deletion_policy is DeletionPolicy.DELETE:
            await connect(context, cluster)
        return replace(observed, connector=await _read_connector(context, observed.resource, access))
    except KappaError as problem:
        return replace(observed, problem=problem)


async def _observe_secrets(
    context: OperatorContext, observed: CDCSourceObserved, cluster: KafkaClusterResource
) -> CDCSourceObserved:
    """Read the log-in, whose Secrets must allow that, and whether the workers have it."""
    resource = observed.resource
    wanted = build_credentials(resource, cluster)
    values = await read_credentials(context, wanted, MINUTE)
    refs = [wanted.login, *([wanted.ca[0]] if wanted.ca else [])]
    bodies = [await context.read_recent(ref, MINUTE) for ref in refs]
    versions = ".".join(str((body or {}).get("metadata", {}).get("resourceVersion", "")) for body in bodies)
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
    return replace(observed, credentials=versions, are_credentials_kept=has_all and has_store)


async def _read_connector(
    context: OperatorContext, resource: CDCSourceResource, access: ConnectAccess
) -> ConnectorView | None:
    """Return the connector; None where Kafka Connect does not have it. One that was just created has no status for a moment."""
    name, client = resource.metadata.name, context.connect
    try:
        config = await client.get_config(access, name)
    except ConnectorNotFound:
        return None
    view = ConnectorView(
        config, await client.get_status(access, name), await client.get_offsets(access, name)
    )
    is_deleting = resource.metadata.deletion_timestamp is not None
    if is_deleting and resource.spec.topic_deletion_policy is DeletionPolicy.DELETE:
        return replace(view, topics=await client.list_topics(access, name))
    return view


async def _find_pod(context: OperatorContext, resource: CDCSourceResource) -> DatabasePod | None:
    """Return the pod of the last work, if it is there. A pod of that name with another owner is not."""
    if resource.status.work is None or resource.status.work.state is WorkState.DONE:
        return None
    ref = build_pod_ref(resource, resource.status.work)
    pod = await context.cluster.get(ref)
    if pod is None or find_controller(pod).get("uid") != resource.metadata.uid:
        return None
    metadata = pod["metadata"]
    if "deletionTimestamp" in metadata:
        return None
    created = datetime.fromisoformat(metadata["creationTimestamp"])
    return DatabasePod(ref, metadata["uid"], created, parse_result(pod), explain_waiting(pod))


def parse_result(pod: Body) -> DatabaseResult | None:
    """Return how the work of a pod ended, None while it has not."""
    status = pod.get("status", {})
    if status.get("phase") not in ("Succeeded", "Failed"):
        return None
    container: Body = next(iter(status.get("containerStatuses", [])), {})
    ended = container.get("state", {}).get("terminated", {})
    try:
        return DatabaseResult.model_validate_json(ended.get("message", ""))
    except ValidationError:
        why = status.get("message") or status.get("reason") or ended.get("reason") or "no reason given"
        return DatabaseResult(
            problem=f"the pod ended with exit code {ended.get('exitCode', 'unknown')} ({why}) and without a result"
        )
