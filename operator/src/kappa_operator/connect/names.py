"""Names, labels, ports and paths of the workers of Kafka Connect."""

from kappa_crds.kafkacluster import KafkaClusterSpec, KafkaClusterStatus
from kappa_crds.resource import Resource

KafkaClusterResource = Resource[KafkaClusterSpec, KafkaClusterStatus]

CONNECT_LABEL = "kappa-platform.io/connect"
"""The label with the name of the KafkaCluster, on all objects of its workers."""
REST_PORT, METRICS_PORT = 8443, 8080
SECRETS_DIR = "/etc/kappa"
"""Folder of all mounts; `connect/start.py` has the same."""
SOURCES_DIR = f"{SECRETS_DIR}/sources"
SOURCES_PROVIDER = "sources"
"""How configurations of connectors refer to a key of the Secret with credentials of databases: `${sources:/etc/kappa/sources:KEY}`."""


def name_workers(resource: KafkaClusterResource) -> str:
    """Return the name of the StatefulSet, and of the Service of workers that are ready."""
    return f"{resource.metadata.name}-connect"


def name_pod_service(resource: KafkaClusterResource) -> str:
    """Return the name of the headless Service, which gives each worker a name in DNS."""
    return f"{resource.metadata.name}-connect-pods"


def name_rest_secret(resource: KafkaClusterResource) -> str:
    """Return the name of the Secret with the certificate of workers and operator."""
    return f"{resource.metadata.name}-connect-rest"


def name_sources_secret(cluster: str) -> str:
    """Return the name of the Secret with credentials of databases, for the connectors of a KafkaCluster. It may be absent."""
    return f"{cluster}-connect-sources"


def list_hosts(resource: KafkaClusterResource) -> tuple[str, ...]:
    """Return the hosts that the certificate is for: the Service, and each worker by its own name."""
    namespace = resource.metadata.namespace
    return (
        f"{name_workers(resource)}.{namespace}.svc",
        f"*.{name_pod_service(resource)}.{namespace}.svc",
    )


def build_url(resource: KafkaClusterResource) -> str:
    """Return the address of the REST API, at any worker that is ready."""
    return f"https://{list_hosts(resource)[0]}:{REST_PORT}"


def name_group(resource: KafkaClusterResource) -> str:
    """Return the group of the workers in Kafka, with which their topics and transactions begin. A namespace has no dots, so it is unique.

    It has no uid: who creates a deleted KafkaCluster again continues with the connectors and offsets of before.
    """
    return f"connect.{resource.metadata.namespace}.{resource.metadata.name}"


def name_history(resource: KafkaClusterResource, source: str) -> str:
    """Return the topic and the consumer group with the history of schemas of a source; the workers have permissions for the prefix."""
    return f"{name_group(resource)}.{source}.schemas"
