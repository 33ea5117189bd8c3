"""Looks at a topic in Kafka, and at who else claims it."""

from typing import NamedTuple

from kappa_crds.topic import TOPIC_FINALIZER
from kappa_operator.archive.observe import observe_archive
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key
from kappa_operator.engine.plan import Failure
from kappa_operator.engine.references import find_referred
from kappa_operator.errors import KafkaFailure, ReferenceProblem, SecretProblem
from kappa_operator.kafkacluster.connection import connect, resolve_cluster
from kappa_operator.topic.checks import TopicObserved, TopicResource
from kappa_operator.topic.configs import name_configs
from kappa_operator.topic.retention import hold_for_archive, hold_retention


class Claims(NamedTuple):
    """Other resources that claim a topic: for certain in the same Kafka cluster, or possibly."""

    certain: tuple[Key, ...] = ()
    possible: tuple[Key, ...] = ()


async def observe_topic(
    context: OperatorContext, key: Key, failures: tuple[Failure, ...]
) -> TopicObserved | None:
    """Gather the resource, its cluster, its rivals and the topic as Kafka shows it."""
    resource: TopicResource | None = context.cache.read(key)
    if resource is None or _is_leaving(resource):
        return None
    archive = await observe_archive(context, resource)
    resource = hold_for_archive(hold_retention(resource, context.now()), archive, context.now())
    topic = resource.spec.topic_name or resource.metadata.name
    claims, cluster = Claims(), None
    try:
        cluster = await _find_cluster(context, resource)
        claims = find_claims(context.cache, key, cluster)
        winner = find_winner(context.cache, key, claims)
        configs = name_configs(resource.spec, resource.status.managed_configs)
        view = None if winner else await context.kafka.describe_topic(cluster, topic, configs)
    except (ReferenceProblem, SecretProblem, KafkaFailure) as problem:
        return TopicObserved(
            resource,
            topic,
            cluster,
            problem=problem,
            rivals=claims.possible,
            failures=failures,
            archive=archive,
        )
    return TopicObserved(resource, topic, cluster, view, None, winner, claims.possible, failures, archive)


def _is_leaving(resource: TopicResource) -> bool:
    """Return whether the resource is about to vanish without our help."""
    metadata = resource.metadata
    return metadata.deletion_timestamp is not None and TOPIC_FINALIZER not in metadata.finalizers


async def _find_cluster(context: OperatorContext, resource: TopicResource) -> Key:
    """Return the cluster, connected. A deletion may still use the connection to a KafkaCluster that is gone."""
    namespace, status = resource.metadata.namespace, resource.status
    if resource.metadata.deletion_timestamp is not None and status.cluster is not None:
        known = Key("KafkaCluster", namespace, status.cluster)
        if context.cache.get_version(known) < 0 and context.kafka.has(known):
            return known
    return await connect(context, resolve_cluster(context.cache, namespace, resource.spec.cluster_ref))


def find_claims(cache: ResourceCache, key: Key, cluster: Key) -> Claims:
    """Return the other resources that claim this name in this Kafka cluster, whatever namespace they are in."""
    others = cache.find_rivals(key)
    if not others:
        return Claims()
    own, identities = _get_cluster_id(cache, cluster), Identities(cache)
    theirs = {
        claim: own if identities.find_cluster(claim) == cluster else identities.find(claim)
        for claim in others
    }
    certain = tuple(claim for claim in others if own is not None and theirs[claim] == own)
    possible = tuple(claim for claim in others if own is None or theirs[claim] in (None, own))
    return Claims(certain, possible)


class Identities:
    """The Kafka clusters of other claims, each found once: there may be thousands of claims."""

    def __init__(self, cache: ResourceCache) -> None:
        self._cache = cache
        self._clusters: dict[tuple[str, str], Key | None] = {}
        self._ids: dict[Key, str | None] = {}

    def find_cluster(self, claim: Key) -> Key | None:
        """Return the KafkaCluster of a Topic, None where that is unknown."""
        named = next((each.name for each in self._cache.find_named(claim) if each.kind == "KafkaCluster"), "")
        place = claim.namespace, named
        if place not in self._clusters:
            self._clusters[place] = self._resolve(*place)
        return self._clusters[place]

    def _resolve(self, namespace: str, name: str) -> Key | None:
        try:
            return find_referred(self._cache, "KafkaCluster", namespace, name or None)
        except ReferenceProblem:
            return None

    def find(self, claim: Key) -> str | None:
        """Return the id of the Kafka cluster of a Topic, None where that is unknown."""
        cluster = self.find_cluster(claim)
        if cluster is not None and cluster not in self._ids:
            self._ids[cluster] = _get_cluster_id(self._cache, cluster)
        return None if cluster is None else self._ids[cluster]


def _get_cluster_id(cache: ResourceCache, cluster: Key) -> str | None:
    body = cache.get_body(cluster)
    found: str | None = (body or {}).get("status", {}).get("clusterId")
    return found


def find_winner(cache: ResourceCache, key: Key, claims: Claims) -> Key | None:
    """Return the oldest of all that claim the topic, or None where that is the resource itself."""
    if not claims.certain:
        return None

    def age(claim: Key) -> tuple[str, str, str]:
        return cache.places.get_created(claim), claim.namespace, claim.name

    oldest = min((key, *claims.certain), key=age)
    return None if oldest == key else oldest
