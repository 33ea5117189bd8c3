"""`Topic`: a Kafka topic as a resource."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.archive import ARCHIVED, MOST_PARTITIONS, Archive, ArchiveStatus
from kappa_crds.model import Model, PositiveDuration, PositiveSize, ResourceName, Rule, TopicName
from kappa_crds.resource import Kind, PrinterColumn, ResourceStatus, build_columns

TOPIC_FINALIZER = "kappa-platform.io/topic"
HOLD_PREFIX = "hold-retention.kappa-platform.io/"
"""Annotations of a Topic that start with this hold a longer retention than its spec has, one for each holder, with its end:
`14d until 2026-01-01T12:00:00Z`. A holder renews its own."""
FORMER_HOLD = "kappa-platform.io/hold-retention"
"""The only hold of a Topic in release 0.1. It is read until it ends."""


class Cleanup(StrEnum):
    """What happens to old records (Kafka's cleanup.policy)."""

    DELETE = "delete"
    COMPACT = "compact"
    COMPACT_AND_DELETE = "compact,delete"


class DeletionPolicy(StrEnum):
    """What happens to the data when the manifest is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"


class Retention(Model):
    """How long records are kept; whichever limit is reached first counts."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.time) || has(self.size)",
            "set retention.time, retention.size, or both; or leave retention out",
        ),
    )
    time: PositiveDuration | None = None
    """Kafka's retention.ms, such as 7d."""
    size: PositiveSize | None = None
    """Kafka's retention.bytes, for each partition."""


ConfigValue = Annotated[str, Field(max_length=1024)]


class TopicSpec(Model):
    """A Kafka topic."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(oldSelf.clusterRef) || (has(self.clusterRef) && self.clusterRef == oldSelf.clusterRef)",
            "spec.clusterRef cannot change: a topic cannot move to another cluster; create a new Topic instead",
        ),
        Rule(
            "has(self.topicName) == has(oldSelf.topicName) && (!has(self.topicName) || self.topicName == oldSelf.topicName)",
            "spec.topicName cannot change: Kafka cannot rename a topic; create a new Topic instead",
        ),
        Rule(
            "!has(self.config) || !('cleanup.policy' in self.config)",
            "spec.config must not set cleanup.policy; use spec.cleanup",
        ),
        Rule(
            "!has(self.config) || !('retention.ms' in self.config)",
            "spec.config must not set retention.ms; use spec.retention.time",
        ),
        Rule(
            "!has(self.config) || !('retention.bytes' in self.config)",
            "spec.config must not set retention.bytes; use spec.retention.size",
        ),
        Rule(
            "!(self.cleanup == 'compact' && has(self.retention))",
            "spec.retention has no effect with cleanup compact; remove it or use cleanup 'compact,delete'",
        ),
        Rule(
            "!has(self.config) || self.config.all(key, key.matches('^[a-z][a-z0-9.]*[a-z0-9]$'))",
            "spec.config has a key that is no topic config; write names as Kafka does, such as min.insync.replicas",
            "'spec.config has the key ' + self.config.filter(key, !key.matches('^[a-z][a-z0-9.]*[a-z0-9]$'))[0]"
            " + ', which is no topic config; write names as Kafka does, such as min.insync.replicas'",
        ),
        Rule(
            "!has(self.archive) || self.cleanup == 'delete'",
            "spec.archive needs cleanup delete: compaction removes records before they are archived",
        ),
        Rule(
            f"!has(self.archive) || self.partitions <= {MOST_PARTITIONS}",
            f"spec.archive is for topics of at most {MOST_PARTITIONS} partitions",
        ),
    )
    cluster_ref: ResourceName | None = None
    """Name of the KafkaCluster; may be left out where the namespace has just one."""
    topic_name: TopicName | None = None
    """Name in Kafka, where it differs from metadata.name."""
    partitions: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Number of partitions; can only grow."""
    replication: Annotated[int | None, Field(ge=1, le=32)] = None
    """Replicas of each partition; the broker's default where left out."""
    retention: Retention | None = None
    """How long records are kept."""
    cleanup: Cleanup = Cleanup.DELETE
    """Delete old records, or keep the last one of each key."""
    config: Annotated[dict[str, ConfigValue], Field(max_length=64)] = Field(default_factory=dict)
    """Further topic configs by their Kafka names."""
    allow_cleanup_change: bool = False
    """Allow the change of an existing topic's cleanup policy away from or to compact, which makes Kafka drop
    records that it kept so far."""
    archive: Archive | None = None
    """Copies all committed records to a StateStore before retention removes them; none where left out."""
    deletion_policy: DeletionPolicy = DeletionPolicy.RETAIN
    """Whether the topic in Kafka goes when this resource is deleted."""
    suspend: bool = False
    """Leave the topic in Kafka as it is for now."""


class TopicStatus(ResourceStatus):
    """What the operator saw of the topic."""

    topic_name: str | None = None
    """Name in Kafka."""
    topic_id: str | None = None
    """Kafka's id of the topic; a new id is a new topic."""
    cluster: str | None = None
    """Name of the KafkaCluster."""
    partitions: int | None = None
    """Partitions in Kafka."""
    replication: int | None = None
    """Replicas of each partition in Kafka."""
    managed_configs: tuple[str, ...] = ()
    """Configs that the operator set; one that leaves the spec returns to its default."""
    archive: ArchiveStatus | None = None
    """The archive, where the spec declares one."""
    summary: str | None = None
    """The topic in one line, for people."""


TOPIC = Kind(
    name="Topic",
    plural="topics",
    short_names=("kpt",),
    description="A Kafka topic.",
    spec=TopicSpec,
    status=TopicStatus,
    columns=build_columns(
        PrinterColumn("Topic", ".status.summary"),
        PrinterColumn("Cluster", ".status.cluster", priority=1),
    ),
    name_limit=249,
    conditions=(ARCHIVED,),
)
