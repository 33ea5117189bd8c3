"""The Topics of a version of the outputs: named `NAME.rN`, with the partitions and configs of the topic of the spec."""

import hashlib
import re

from kappa_crds import API_VERSION
from kappa_crds.permissions import name_version
from kappa_crds.topic import Cleanup, DeletionPolicy, Retention, TopicSpec
from kappa_operator.engine.actions import ApplyObject, CreateObject, DeleteObject, Manifest
from kappa_operator.engine.restricted import build_owner
from kappa_operator.kafka.model import TopicView
from kappa_operator.pipeline.objects import PipelineResource, build_labels
from kappa_operator.pipeline.shadow.model import VersionedTopic

COPIED = frozenset(
    {
        "cleanup.policy", "retention.ms", "retention.bytes", "compression.type", "delete.retention.ms", "max.compaction.lag.ms",
        "max.message.bytes", "message.timestamp.type", "min.cleanable.dirty.ratio", "min.compaction.lag.ms", "min.insync.replicas",
        "segment.bytes", "segment.ms", "unclean.leader.election.enable",
    }
)  # fmt: skip
"""Configs that are copied from a topic that no Topic resource declares."""
_MANAGER = "kappa-outputs"
"""Another field manager than that of finalizers: each would remove the fields of the other."""
_OWN_FIELDS = ("cleanup.policy", "retention.ms", "retention.bytes")


def name_topic_resource(topic: str, version: int) -> str:
    """Return the name of the Topic resource for a version of a topic, which a name in Kafka may not be."""
    clean = re.sub(r"[^a-z0-9.-]", "-", topic.lower()).strip(".-")
    if clean != topic:
        clean = f"{clean[:200]}-{hashlib.sha256(topic.encode()).hexdigest()[:8]}"
    return f"{clean}{name_version(version)}"


def copy_spec(spec: TopicSpec) -> TopicSpec:
    """Return what a version of a declared topic has of its spec."""
    return spec.replace(topic_name=None, deletion_policy=DeletionPolicy.RETAIN, suspend=False)


def copy_view(view: TopicView, cluster: str | None) -> TopicSpec:
    """Return what a version has of a topic that is only in Kafka: partitions, replicas, and configs that were set for it."""
    known = {name: value for name, value in view.configs.items() if name in view.explicit and name in COPIED}
    policy = known.get("cleanup.policy", "delete")
    cleanup = Cleanup.COMPACT_AND_DELETE if "," in policy else Cleanup(policy)
    return TopicSpec(
        cluster_ref=cluster,
        partitions=view.partitions,
        replication=view.replication,
        cleanup=cleanup,
        retention=None if cleanup is Cleanup.COMPACT else _copy_retention(known),
        config={name: value for name, value in known.items() if name not in _OWN_FIELDS},
    )


def _copy_retention(known: dict[str, str]) -> Retention | None:
    """Return the retention that was set, None where the default of the brokers holds. Kafka's -1 is unlimited, a thousand years here."""
    time, size = known.get("retention.ms"), known.get("retention.bytes")
    seconds = None if time is None else 365_000 * 86_400 if int(time) < 0 else max(1, int(time) // 1000)
    bytes_ = None if size is None or int(size) < 0 else size
    if seconds is None and bytes_ is None:
        return None
    return Retention(time=None if seconds is None else f"{seconds}s", size=bytes_)


def build_topic(resource: PipelineResource, name: str, topic: str, version: int, spec: TopicSpec) -> Manifest:
    """Return the Topic of a version; `topic` is its name in Kafka."""
    metadata = resource.metadata
    return {
        "apiVersion": API_VERSION,
        "kind": "Topic",
        "metadata": {
            "name": name_topic_resource(name, version),
            "namespace": metadata.namespace,
            "labels": build_labels(metadata.name),
            "ownerReferences": [build_owner(resource)],
        },
        "spec": spec.replace(topic_name=topic).to_manifest(),
    }


def create_topics(
    resource: PipelineResource,
    outputs: dict[str, str],
    version: int,
    templates: dict[str, TopicSpec],
    present: tuple[VersionedTopic, ...],
) -> tuple[CreateObject, ...]:
    """Return what creates the Topics of a version that are missing; `outputs` are the topics in Kafka by their names in the spec."""
    known = {each.ref.name for each in present}
    missing = (name for name in sorted(outputs) if name_topic_resource(name, version) not in known)
    return tuple(
        CreateObject(build_topic(resource, name, outputs[name], version, templates[name]))
        for name in missing
        if name in templates
    )


def delete_topics(present: tuple[VersionedTopic, ...]) -> tuple[ApplyObject | DeleteObject, ...]:
    """Return what deletes these Topics with their data in Kafka: first their policy is Delete, then they are deleted."""
    kept = [each for each in present if each.policy is DeletionPolicy.RETAIN and not each.is_deleting]
    if kept:
        return tuple(ApplyObject(_build_policy(each), _MANAGER) for each in kept)
    return tuple(
        DeleteObject(each.ref, each.uid, "its version of the outputs is not needed")
        for each in present
        if not each.is_deleting
    )


def _build_policy(topic: VersionedTopic) -> Manifest:
    metadata = {"name": topic.ref.name, "namespace": topic.ref.namespace, "uid": topic.uid}
    spec = {"deletionPolicy": DeletionPolicy.DELETE.value}
    return {"apiVersion": API_VERSION, "kind": "Topic", "metadata": metadata, "spec": spec}
