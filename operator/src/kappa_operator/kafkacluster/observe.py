"""Reads the connection to a Kafka cluster."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from kappa_crds.conditions import ConditionType, find_condition
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.pipeline_status import PipelineStatus
from kappa_crds.reasons import Reason
from kappa_crds.resource import Resource
from kappa_operator.connect.observe import observe_connect
from kappa_operator.engine.actions import Reconnect
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.disabled import is_disabled
from kappa_operator.engine.keys import Key
from kappa_operator.engine.kinds import Body
from kappa_operator.engine.plan import Failure, find_failure
from kappa_operator.errors import KafkaFailure, SecretProblem
from kappa_operator.kafka.model import KafkaAccess
from kappa_operator.kafkacluster.connection import read_access, read_version
from kappa_operator.kafkacluster.decide import KafkaClusterObserved, KafkaClusterResource

ORPHAN_PATIENCE = 600.0
"""Seconds after the deletion of a pipeline until the KafkaCluster lists users that cannot be deleted."""


async def observe_kafkacluster(
    context: OperatorContext, key: Key, failures: tuple[Failure, ...]
) -> KafkaClusterObserved | None:
    """Read the Secrets as they are now, how the cluster answers, and which users of deleted pipelines remain."""
    resource = context.cache.read(key)
    if resource is None:
        return None
    observed = await _observe_connection(context, key, resource, failures)
    orphans = tuple(_find_orphans(context, resource))
    brokers = None if observed.view is None else observed.view.brokers
    found = None if observed.waits is not None else await observe_connect(context, resource, brokers)
    return replace(observed, orphans=orphans, connect=found, failures=failures)


def _find_orphans(context: OperatorContext, resource: KafkaClusterResource) -> Iterator[str]:
    """Yield users of pipelines whose deletion has waited for some time because they cannot be deleted."""
    name, namespace = resource.metadata.name, resource.metadata.namespace
    for key in context.cache.find("Pipeline", namespace):
        pipeline: Resource[PipelineSpec, PipelineStatus] | None = (
            context.cache.get(key) if context.cache.is_deleting(key) else None
        )
        if pipeline is None or not _has_waited(context, pipeline):
            continue
        yield from (each.name for each in pipeline.status.kafka_users if each.cluster == name)


def _has_waited(context: OperatorContext, pipeline: Resource[PipelineSpec, PipelineStatus]) -> bool:
    deleted = pipeline.metadata.deletion_timestamp
    ready = find_condition(pipeline.status.conditions, ConditionType.READY)
    if deleted is None or ready is None or ready.reason != Reason.KAFKA_USER_REMAINS:
        return False
    return (context.now() - deleted).total_seconds() > ORPHAN_PATIENCE


async def _observe_connection(
    context: OperatorContext, key: Key, resource: KafkaClusterResource, failures: tuple[Failure, ...]
) -> KafkaClusterObserved:
    failure, version = find_failure(failures, Reconnect), ""
    if failure is not None:
        return KafkaClusterObserved(resource, problem=failure.error)
    try:
        access = await read_access(context, resource)
        version = await read_version(context, resource)
        refused = resource.status.refused_log_in
        if refused is not None and refused.settings == version and context.now() < refused.next_attempt:
            return KafkaClusterObserved(resource, waits=refused.next_attempt)
        await context.kafka.ensure(key, partial(_resolve, access), again=True)
        if not context.kafka.uses(key, access):
            return KafkaClusterObserved(resource, access=access)
        view = await context.kafka.describe_cluster(key)
        return KafkaClusterObserved(resource, view, context.get_lag(key))
    except (SecretProblem, KafkaFailure) as problem:
        has_client = context.kafka.has(key)
        return KafkaClusterObserved(resource, problem=problem, version=version, has_client=has_client)


async def _resolve(access: KafkaAccess) -> KafkaAccess:
    return access


def list_clusters(cache: ResourceCache) -> Iterator[KafkaClusterResource]:
    """Yield every KafkaCluster whose spec is valid, as it was last seen, of namespaces where the operator acts."""
    for key in cache.find_all("KafkaCluster"):
        resource = cache.get(key)
        if resource is not None and not is_disabled(resource):
            yield resource


def release_if_unused(context: OperatorContext, key: Key) -> None:
    """Close the client of a KafkaCluster that is gone.

    While topics or users that are to be deleted with their resources remain, the client is kept: when a whole namespace is
    deleted, the KafkaCluster often goes first.
    """
    context.kafka.forget_refusal(key)
    if not context.kafka.has(key):
        return
    bodies = (context.cache.get_body(topic) for topic in context.cache.find("Topic", key.namespace))
    pipelines = (context.cache.get_body(each) for each in context.cache.find("Pipeline", key.namespace))
    has_topics = any(body and body["spec"].get("deletionPolicy") == "Delete" for body in bodies)
    if not has_topics and not any(_has_user(body, key.name) for body in pipelines):
        context.kafka.release(key)


def _has_user(pipeline: Body | None, cluster: str) -> bool:
    users = ((pipeline or {}).get("status") or {}).get("kafkaUsers") or ()
    return any(each.get("cluster") == cluster for each in users)
