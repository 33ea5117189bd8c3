"""Checks the connection to a Kafka cluster."""

from kappa_operator.errors import KafkaFailure, SecretProblem
from kappa_operator.keys import Key
from kappa_operator.observe.references import read_access
from kappa_operator.plan.kafkacluster import KafkaClusterObserved
from kappa_operator.plan.model import Failure
from kappa_operator.world import World


async def observe_kafkacluster(
    world: World, key: Key, failures: tuple[Failure, ...]
) -> KafkaClusterObserved | None:
    """Connect with the Secrets as they are now, and ask the cluster who it is."""
    resource = world.mirror.get(key)
    if resource is None:
        release_if_unused(world, key)
        return None
    try:
        world.kafka.connect(key, await read_access(world, resource))
        return KafkaClusterObserved(resource, view=await world.kafka.describe_cluster(key))
    except (SecretProblem, KafkaFailure) as problem:
        return KafkaClusterObserved(resource, problem=problem)


def release_if_unused(world: World, key: Key) -> None:
    """Close the client of a KafkaCluster that is gone.

    While topics that are to be deleted with their resources remain, the client is kept: when a whole namespace is
    deleted, the KafkaCluster often goes first.
    """
    bodies = (world.mirror.get_body(topic) for topic in world.mirror.find("Topic", key.namespace))
    if not any(body and body["spec"].get("deletionPolicy") == "Delete" for body in bodies):
        world.kafka.release(key)
