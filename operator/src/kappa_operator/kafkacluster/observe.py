"""Reads the connection to a Kafka cluster."""

from collections.abc import Iterator
from functools import partial

from kappa_operator.engine.actions import Reconnect
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.disabled import is_disabled
from kappa_operator.engine.keys import Key
from kappa_operator.engine.plan import Failure, find_failure
from kappa_operator.errors import KafkaFailure, SecretProblem
from kappa_operator.kafka.model import KafkaAccess
from kappa_operator.kafkacluster.connection import read_access, read_version
from kappa_operator.kafkacluster.decide import KafkaClusterObserved, KafkaClusterResource


async def observe_kafkacluster(
    context: OperatorContext, key: Key, failures: tuple[Failure, ...]
) -> KafkaClusterObserved | None:
    """Read the Secrets as they are now, and how the cluster answers."""
    resource = context.cache.read(key)
    if resource is None:
        return None
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

    While topics that are to be deleted with their resources remain, the client is kept: when a whole namespace is
    deleted, the KafkaCluster often goes first.
    """
    bodies = (context.cache.get_body(topic) for topic in context.cache.find("Topic", key.namespace))
    if not any(body and body["spec"].get("deletionPolicy") == "Delete" for body in bodies):
        context.kafka.forget_refusal(key)
        context.kafka.release(key)
