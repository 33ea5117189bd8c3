"""The databases that the workers of a KafkaCluster connect to, for their NetworkPolicy."""

from pydantic import ValidationError

from kappa_operator.cdcsource.objects import CDCSourceResource
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.keys import Key
from kappa_operator.engine.references import is_meant


def find_database_peers(cache: ResourceCache, namespace: str, cluster: str) -> tuple[tuple[str, int], ...]:
    """Return host and port of each database that a CDCSource of the KafkaCluster reads, sorted. A resource that cannot be read is left out."""
    found: set[tuple[str, int]] = set()
    for key in cache.find("CDCSource", namespace):
        try:
            resource: CDCSourceResource | None = cache.get(key)
        except ValidationError:
            continue
        if resource is None or not _is_of(cache, resource, Key("KafkaCluster", namespace, cluster)):
            continue
        found.add((resource.spec.database.host, resource.spec.database.port))
    return tuple(sorted(found))


def _is_of(cache: ResourceCache, resource: CDCSourceResource, cluster: Key) -> bool:
    known = resource.spec.cluster_ref or resource.status.cluster
    return known == cluster.name if known else is_meant(cache, cluster, None)
