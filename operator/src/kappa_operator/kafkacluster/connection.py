"""From a KafkaCluster that a resource names to a connection."""

from functools import partial

from kappa_operator.consent import KAFKA, KAFKA_OPERATOR
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.references import resolve_ready
from kappa_operator.kafka.config import build_access, build_purpose, find_secret_keys
from kappa_operator.kafka.model import KafkaAccess
from kappa_operator.kafkacluster.decide import KafkaClusterResource
from kappa_operator.secrets import read_secret


def resolve_cluster(cache: ResourceCache, namespace: str, name: str | None) -> KafkaClusterResource:
    """Return the ready KafkaCluster that is meant; raise ReferenceProblem."""
    return resolve_ready(cache, "KafkaCluster", namespace, name)


async def read_access(
    context: OperatorContext,
    cluster: KafkaClusterResource,
    age: float = 0.0,
    uses: tuple[str, ...] = (KAFKA, KAFKA_OPERATOR),
) -> KafkaAccess:
    """Return how to reach the Kafka cluster, its Secrets at most `age` seconds old; raise SecretProblem, also where they do not allow it."""
    wanted: dict[str, list[str]] = {}
    for name, key in find_secret_keys(cluster.spec):
        wanted.setdefault(name, []).append(key)
    purpose = build_purpose(cluster.spec, *uses)
    refs = {name: ObjectRef("v1", "Secret", cluster.metadata.namespace, name) for name in wanted}
    secrets = {
        name: await read_secret(context, refs[name], keys, purpose, age) for name, keys in wanted.items()
    }
    return build_access(cluster.spec, secrets)


async def connect(context: OperatorContext, cluster: KafkaClusterResource) -> Key:
    """Return the key of the cluster, once there is a client for it; raise SecretProblem or KafkaFailure.

    An existing client is kept: the check of the KafkaCluster replaces it when a Secret changes.
    """
    key = Key.of(cluster)
    await context.kafka.ensure(key, partial(read_access, context, cluster))
    return key
