"""The pod of a run and its NetworkPolicy: it reads the topic, writes the store, and reaches nothing else."""

import hashlib

from kappa_crds.archive import ARCHIVE_DIR, ArchiveStatus
from kappa_crds.archive_work import ArchiveRequest
from kappa_crds.resource import Resource
from kappa_crds.savepoint_work import REQUEST_ANNOTATION, REQUEST_FILE
from kappa_crds.stores import StoreAccess
from kappa_crds.topic import TopicSpec, TopicStatus
from kappa_operator.archive.model import ArchiveObserved, Place
from kappa_operator.engine.actions import ApplyObject, CreateObject, Manifest
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.network import Destination, Network, admit_destinations, admit_dns, build_policy
from kappa_operator.engine.pod_template import apply_template
from kappa_operator.engine.restricted import CONTAINER_SECURITY, build_owner, build_restricted_spec
from kappa_operator.pipeline.objects import ROLE_LABEL
from kappa_operator.savepoint.worker import build_scratch
from kappa_operator.statestore.network import find_store
from kappa_operator.statestore.storage import (
    Storage,
    build_kafka_connection,
    build_kafka_mounts,
    build_storage_mounts,
)

TopicResource = Resource[TopicSpec, TopicStatus]

TOPIC_LABEL = "kappa-platform.io/topic"
ROLE = {ROLE_LABEL: "archiver"}
RUN_SECONDS, GRACE = 600, 240
"""How long a run reads at most, and what its pod has beyond that to start and to end."""
_NAME = 50
"""Characters of a name in names of pods and values of labels."""


def shorten_name(topic: str) -> str:
    """Return the name of a Topic for pods and labels; a long one gets a hash."""
    if len(topic) <= _NAME:
        return topic
    start = topic[: _NAME - 9].rstrip("-.")
    return f"{start}-{hashlib.sha256(topic.encode()).hexdigest()[:8]}"


def build_pod_ref(resource: TopicResource, number: int) -> ObjectRef:
    """Return the reference of the pod with that number. There can be no two pods of one name."""
    metadata = resource.metadata
    return ObjectRef("v1", "Pod", metadata.namespace, f"{shorten_name(metadata.name)}-archive-{number}")


def build_location(storage: Storage, namespace: str) -> str:
    """Return the folder of all archives of a namespace in a store."""
    return f"{storage.root}/{ARCHIVE_DIR}/{namespace}"


def create_pod(
    resource: TopicResource, observed: ArchiveObserved, place: Place, topic: str, status: ArchiveStatus
) -> tuple[ApplyObject | CreateObject, ...]:
    """Return the actions that create the pod, after its NetworkPolicy."""
    request = ArchiveRequest(
        location=build_location(place.storage, resource.metadata.namespace),
        topic=topic,
        topic_id=status.topic_id,
        kafka=build_kafka_connection(place.kafka),
        seconds=RUN_SECONDS,
        bucket=place.storage.bucket,
        hdfs=place.storage.hdfs,
    )
    pod = CreateObject(_build_pod(resource, observed, place, request, status.number))
    if observed.network is None:
        return (pod,)
    return ApplyObject(_build_policy(resource, place, observed.network)), pod


def _build_labels(resource: TopicResource) -> dict[str, str]:
    return {TOPIC_LABEL: shorten_name(resource.metadata.name), **ROLE}


def _build_pod(
    resource: TopicResource, observed: ArchiveObserved, place: Place, request: ArchiveRequest, number: int
) -> Manifest:
    ref = build_pod_ref(resource, number)
    mounts = build_scratch() + build_storage_mounts(place.storage) + build_kafka_mounts(place.kafka)
    container: Manifest = {
        "name": "archiver",
        "image": observed.image,
        "imagePullPolicy": observed.pull_policy,
        "args": ["archive", REQUEST_FILE],
        **({"env": list(mounts.variables)} if mounts.variables else {}),
        "resources": {
            "requests": {"cpu": "50m", "memory": "256Mi"},
            "limits": {"memory": "768Mi"},
        },
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": list(mounts.volume_mounts),
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": ref.name,
            "namespace": ref.namespace,
            "labels": {
                "app.kubernetes.io/managed-by": "kappa-operator",
                "app.kubernetes.io/name": "kappa-topic",
                **_build_labels(resource),
            },
            "annotations": {REQUEST_ANNOTATION: request.model_dump_json(by_alias=True, exclude_none=True)},
            "ownerReferences": [build_owner(resource)],
        },
        "spec": {
            **build_restricted_spec(RUN_SECONDS + GRACE, place.node, observed.pods),
            "containers": [container],
            "volumes": list(mounts.volumes),
        },
    }
    return apply_template(pod, observed.pods.template)


def _build_policy(resource: TopicResource, place: Place, network: Network) -> Manifest:
    """Return the policy of pods that reach Kafka and the store, and that nothing connects to."""
    brokers = map(Destination.parse, (*place.kafka.bootstrap_servers, *place.advertised))
    reached = {
        *brokers,
        *find_store(place.storage.root, StoreAccess(bucket=place.storage.bucket, hdfs=place.storage.hdfs)),
    }
    return build_policy(
        resource,
        f"{shorten_name(resource.metadata.name)}-archive",
        _build_labels(resource),
        ingress=network.ingress,
        egress=[
            admit_dns(network),
            *admit_destinations(network, resource.metadata.namespace, reached),
            *network.egress,
        ],
    )
