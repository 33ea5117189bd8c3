"""The observation of a topic, and the changes that Kafka cannot make to it."""

from collections.abc import Callable
from dataclasses import dataclass

from kappa_crds.reasons import Reason
from kappa_crds.resource import Resource
from kappa_crds.topic import TopicSpec, TopicStatus
from kappa_operator.archive.model import ArchiveObserved
from kappa_operator.engine.actions import ApplyObject, CreateObject, DeleteObject
from kappa_operator.engine.keys import Key
from kappa_operator.engine.plan import Failure
from kappa_operator.errors import KappaError
from kappa_operator.kafka.model import TopicView
from kappa_operator.topic.configs import CLEANUP, is_same_cleanup

TopicResource = Resource[TopicSpec, TopicStatus]
_OBJECTS = (ApplyObject, CreateObject, DeleteObject)


@dataclass(frozen=True, slots=True)
class TopicObserved:
    """All that a decision about a topic needs.

    `problem` is why Kafka was not reached; `view` is None where Kafka has no such topic. `winner` is the older
    resource that claims the same topic. `rivals` are all that claim it, or that may: a cluster whose id is unknown
    could be the same one, which matters before a topic is deleted. `archive` is there where the spec declares one, or did.
    """

    resource: TopicResource
    topic: str
    cluster: Key | None = None
    view: TopicView | None = None
    problem: KappaError | None = None
    winner: Key | None = None
    rivals: tuple[Key, ...] = ()
    failures: tuple[Failure, ...] = ()
    archive: ArchiveObserved | None = None

    @property
    def kafka_failures(self) -> tuple[Failure, ...]:
        """Return what failed in Kafka; the pods of the archive report their failures themselves."""
        return tuple(each for each in self.failures if not isinstance(each.action, _OBJECTS))


@dataclass(frozen=True, slots=True)
class Refusal:
    """A part of the spec that Kafka cannot apply, and what to do instead."""

    reason: Reason
    message: str


def check_partitions(spec: TopicSpec, view: TopicView) -> Refusal | None:
    """Kafka never removes partitions: the records in them would be lost."""
    if spec.partitions >= view.partitions:
        return None
    return Refusal(
        Reason.PARTITIONS_CANNOT_SHRINK,
        f"the topic has {view.partitions} partitions and Kafka cannot remove any; set spec.partitions to"
        f" {view.partitions}, or create another Topic with {spec.partitions}",
    )


def check_replication(spec: TopicSpec, view: TopicView) -> Refusal | None:
    """Kafka's own tool moves the replicas of an existing topic; the operator does not."""
    if spec.replication in (None, view.replication):
        return None
    return Refusal(
        Reason.REPLICATION_CANNOT_CHANGE,
        f"the topic has {view.replication} replicas and the operator cannot change that; set spec.replication to"
        f" {view.replication}, or move the replicas with kafka-reassign-partitions",
    )


def check_cleanup(spec: TopicSpec, view: TopicView) -> Refusal | None:
    """Each change of the cleanup policy makes Kafka drop records that it has kept until now."""
    shown = view.configs.get(CLEANUP)
    if shown is None or spec.allow_cleanup_change or is_same_cleanup(shown, spec.cleanup.value):
        return None
    return Refusal(
        Reason.CLEANUP_CHANGE_UNSAFE,
        f"the topic's cleanup policy is {shown}; changing it to {spec.cleanup.value} makes Kafka drop records that"
        f" it has kept until now; set spec.cleanup to {shown}, or spec.allowCleanupChange to true",
    )


REFUSALS: tuple[Callable[[TopicSpec, TopicView], Refusal | None], ...] = (
    check_partitions,
    check_replication,
    check_cleanup,
)


def find_refusals(spec: TopicSpec, view: TopicView) -> tuple[Refusal, ...]:
    """Return the parts of the spec that cannot be applied to an existing topic."""
    found = (check(spec, view) for check in REFUSALS)
    return tuple(refusal for refusal in found if refusal is not None)
