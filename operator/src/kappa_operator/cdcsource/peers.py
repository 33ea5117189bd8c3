"""The sources of a KafkaCluster: the databases that its workers connect to, and which of two sources has the topics of a prefix."""

from collections.abc import Iterator

from pydantic import ValidationError

from kappa_operator.cdcsource.objects import CDCSourceResource, get_prefix
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.keys import Key
from kappa_operator.engine.references import is_meant


def find_database_peers(cache: ResourceCache, namespace: str, cluster: str) -> tuple[tuple[str, int], ...]:
    """Return host and port of each database that a CDCSource of the KafkaCluster reads, sorted. A resource that cannot be read is left out."""
    databases = [each.spec.database for each in _list_sources(cache, namespace, cluster)]
    return tuple(sorted({(each.host, each.port) for each in databases}))


def find_prefix_owner(cache: ResourceCache, resource: CDCSourceResource, cluster: str) -> str:
    """Return the name of the oldest other source of the KafkaCluster with the same topics, if it is older than this one; else nothing."""
    same = [
        each
        for each in _list_sources(cache, resource.metadata.namespace, cluster)
        if get_prefix(each) == get_prefix(resource)
    ]
    oldest = min(same, key=_measure_age, default=resource)
    return "" if oldest.metadata.name == resource.metadata.name else oldest.metadata.name


def _measure_age(resource: CDCSourceResource) -> tuple[str, str]:
    """Return what sorts resources by age. The API server knows seconds only, so names decide between equal ones."""
    return str(resource.metadata.creation_timestamp or ""), resource.metadata.name


def _list_sources(cache: ResourceCache, namespace: str, cluster: str) -> Iterator[CDCSourceResource]:
    for key in cache.find("CDCSource", namespace):
        try:
            resource: CDCSourceResource | None = cache.get(key)
        except ValidationError:
            continue
        if resource is not None and _is_of(cache, resource, Key("KafkaCluster", namespace, cluster)):
            yield resource


def _is_of(cache: ResourceCache, resource: CDCSourceResource, cluster: Key) -> bool:
    known = resource.spec.cluster_ref or resource.status.cluster
    return known == cluster.name if known else is_meant(cache, cluster, None)
