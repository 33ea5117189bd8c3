"""Looks at a topic in Kafka, and at who else claims it."""

from typing import NamedTuple

from kappa_crds.topic import TOPIC_FINALIZER
from kappa_operator.engine.cache import Mirror
from kappa_operator.engine.context import World
from kappa_operator.engine.keys import Key
from kappa_operator.engine.plan import Failure
from kappa_operator.engine.references import connect, find_referred, resolve_cluster
from kappa_operator.errors import KafkaFailure, ReferenceProblem, SecretProblem
from kappa_operator.topic.checks import TopicObserved, TopicResource
from kappa_operator.topic.configs import name_configs
from kappa_operator.topic.retention import hold_retention


class Claims(NamedTuple):
    """Other resources that claim a topic: for certain in the same Kafka cluster, or possibly."""

    certain: tuple[Key, ...] = ()
    possible: tuple[Key, ...] = ()


async def observe_topic(world: World, key: Key, failures: tuple[Failure, ...]) -> TopicObserved | None:
    """Gather the resource, its cluster, its rivals and the topic as Kafka shows it."""
    resource: TopicResource | None = world.mirror.read(key)
    if resource is None or _is_leaving(resource):
        return None
    resource = hold_retention(resource, world.now())
    topic = resource.spec.topic_name or resource.metadata.name
    claims, cluster = Claims(), None
    try:
        cluster = await _find_cluster(world, resource)
        claims = find_claims(world.mirror, key, topic, cluster)
        winner = find_winner(world.mirror, key, claims)
        configs = name_configs(resource.spec, resource.status.managed_configs)
        view = None if winner else await world.kafka.describe_topic(cluster, topic, configs)
    except (ReferenceProblem, SecretProblem, KafkaFailure) as problem:
        return TopicObserved(
            resource, topic, cluster, problem=problem, rivals=claims.possible, failures=failures
        )
    return TopicObserved(resource, topic, cluster, view, None, winner, claims.possible, failures)


def _is_leaving(resource: TopicResource) -> bool:
    """Return whether the resource is about to vanish without our help."""
    metadata = resource.metadata
    return metadata.deletion_timestamp is not None and TOPIC_FINALIZER not in metadata.finalizers


async def _find_cluster(world: World, resource: TopicResource) -> Key:
    """Return the cluster, connected. A deletion may still use the connection to a KafkaCluster that is gone."""
    namespace, status = resource.metadata.namespace, resource.status
    if resource.metadata.deletion_timestamp is not None and status.cluster is not None:
        known = Key("KafkaCluster", namespace, status.cluster)
        if world.mirror.get_version(known) < 0 and world.kafka.has(known):
            return known
    return await connect(world, resolve_cluster(world.mirror, namespace, resource.spec.cluster_ref))


def find_claims(mirror: Mirror, key: Key, topic: str, cluster: Key) -> Claims:
    """Return the other resources that claim this name in this Kafka cluster, whatever namespace they are in."""
    others = [claim for claim in mirror.find_claims(topic) if claim != key]
    if not others:
        return Claims()
    own = _get_cluster_id(mirror, cluster)
    theirs = {claim: _find_identity(mirror, claim, cluster, own) for claim in others}
    certain = tuple(claim for claim in others if own is not None and theirs[claim] == own)
    possible = tuple(claim for claim in others if own is None or theirs[claim] in (None, own))
    return Claims(certain, possible)


def _find_identity(mirror: Mirror, claim: Key, cluster: Key, own: str | None) -> str | None:
    body = mirror.get_body(claim)
    named = (body or {}).get("spec", {}).get("clusterRef")
    try:
        theirs = find_referred(mirror, "KafkaCluster", claim.namespace, named)
    except ReferenceProblem:
        return None
    return own if theirs == cluster else _get_cluster_id(mirror, theirs)


def _get_cluster_id(mirror: Mirror, cluster: Key) -> str | None:
    body = mirror.get_body(cluster)
    found: str | None = (body or {}).get("status", {}).get("clusterId")
    return found


def find_winner(mirror: Mirror, key: Key, claims: Claims) -> Key | None:
    """Return the oldest of all that claim the topic, or None where that is the resource itself."""
    if not claims.certain:
        return None

    def age(claim: Key) -> tuple[str, str, str]:
        body = mirror.get_body(claim)
        created = body["metadata"].get("creationTimestamp", "") if body else "~"
        return created, claim.namespace, claim.name

    oldest = min((key, *claims.certain), key=age)
    return None if oldest == key else oldest
