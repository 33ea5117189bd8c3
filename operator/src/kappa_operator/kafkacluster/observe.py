"""Checks the connection to a Kafka cluster."""

from collections.abc import Iterator

from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key
from kappa_operator.engine.plan import Failure
from kappa_operator.errors import KafkaFailure, SecretProblem
from kappa_operator.kafkacluster.connection import read_access
from kappa_operator.kafkacluster.decide import KafkaClusterObserved, KafkaClusterResource


async def observe_kafkacluster(
    context: OperatorContext, key: Key, failures: tuple[Failure, ...]
) -> KafkaClusterObserved | None:
    """Connect with the Secrets as they are now, and ask the cluster who it is."""
    resource = context.cache.read(key)
    if resource is None:
        return None
    try:
        context.kafka.connect(key, await read_access(context, resource))
        view = await context.kafka.describe_cluster(key)
        return KafkaClusterObserved(resource, view, context.lag.get(key))
    except (SecretProblem, KafkaFailure) as problem:
        return KafkaClusterObserved(resource, problem=problem)


def list_clusters(cache: ResourceCache) -> Iterator[KafkaClusterResource]:
    """Yield every KafkaCluster whose spec is valid, as it was last seen."""
    for key in cache.find_all("KafkaCluster"):
        resource = cache.get(key)
        if resource is not None:
            yield resource


def release_if_unused(context: OperatorContext, key: Key) -> None:
    """Close the client of a KafkaCluster that is gone.

    While topics that are to be deleted with their resources remain, the client is kept: when a whole namespace is
    deleted, the KafkaCluster often goes first.
    """
    bodies = (context.cache.get_body(topic) for topic in context.cache.find("Topic", key.namespace))
    if not any(body and body["spec"].get("deletionPolicy") == "Delete" for body in bodies):
        context.kafka.release(key)
