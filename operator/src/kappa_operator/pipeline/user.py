"""The user of a pipeline in Kafka: its name, what it may do, and how it differs from what Kafka shows.

The name ends with the uid of the Pipeline, so no other pipeline, cluster or installation has a user of that name (ADR 55).
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kappa_crds.inputs import InputTopic, name_read
from kappa_crds.kafkacluster import KafkaClusterSpec
from kappa_crds.permissions import (
    KafkaResource,
    Operation,
    Permission,
    Subject,
    list_permissions,
    name_consumer_group,
)
from kappa_crds.pipeline_status import AT_WORK, KafkaUser, PipelineStatus, UpgradePhase
from kappa_crds.reasons import Reason
from kappa_crds.resource import Metadata
from kappa_operator.engine.actions import (
    Action,
    CreatePassword,
    DeleteUser,
    GrantPermissions,
    Manifest,
    PutUser,
    RevokePermissions,
)
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.errors import NotAllowed
from kappa_operator.kafka.model import Acl, UserView
from kappa_operator.pipeline.objects import PipelineResource
from kappa_operator.pipeline.revision import name_written

_CHANGING = (
    *AT_WORK,
    UpgradePhase.WATCHING,
    UpgradePhase.ROLLING_BACK,
    UpgradePhase.REPROCESSING,
    UpgradePhase.SOAKING,
)
KEEPS = (CreatePassword, PutUser, GrantPermissions)
"""Actions that a driver waits for."""
DROPS = (RevokePermissions, DeleteUser)
"""Actions on what is not needed any more."""


@dataclass(frozen=True, slots=True)
class UserObserved:
    """The user that the pipeline should have.

    `record` is what the status has of it, or would have. `password` is the version of its Secret, None without one. `view` is there
    where something may be missing in Kafka, or more than needed.
    """

    record: KafkaUser
    is_recorded: bool
    cluster: Key
    mechanism: str
    wanted: frozenset[Acl]
    manifest: Manifest
    password: str | None = None
    view: UserView | None = None

    @property
    def fingerprint(self) -> str:
        """Return a hash of the mechanism and the permissions."""
        return compute_fingerprint(self.mechanism, self.wanted)


@dataclass(frozen=True, slots=True)
class UnusedUser:
    """A user that the status has and the pipeline does not need.

    `is_lost`: its KafkaCluster is gone, or can list no more users. `is_listed`: its KafkaCluster lists it, and deletes it later. `problem` is why Kafka cannot be reached.
    """

    record: KafkaUser
    cluster: Key
    is_lost: bool = False
    is_listed: bool = False
    problem: str = ""


def compute_fingerprint(mechanism: str, acls: Iterable[Acl]) -> str:
    """Return a hash of the mechanism and the permissions of a user."""
    text = json.dumps([mechanism, sorted(acls)])
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def name_user(spec: KafkaClusterSpec, cluster: str, metadata: Metadata) -> KafkaUser | None:
    """Return the user of a pipeline as its status records it first; None where the KafkaCluster has no users of pipelines."""
    users = spec.pipeline_users
    if users is None:
        return None
    rotation = f".{users.rotation}" if users.rotation else ""
    name = f"{users.prefix}{metadata.namespace}.{metadata.name}.{metadata.uid}{rotation}"
    suffix = hashlib.sha256(f"{cluster}/{name}".encode()).hexdigest()[:8]
    return KafkaUser(name=name, cluster=cluster, secret=f"{metadata.name}-kafka-{suffix}")


def list_needs(resource: PipelineResource, topics: Mapping[str, str]) -> list[Permission]:
    """Return the permissions that the spec needs with the outputs of each run; raise NotAllowed for a pattern that Kafka cannot grant.

    `topics` are the topics in Kafka without a version. Beside another run a driver also reads outputs, to compare them.
    """
    metadata, spec, status = resource.metadata, resource.spec, resource.status
    group = name_consumer_group(metadata.namespace, metadata.name)
    subjects = [
        Subject(
            spec,
            name_read(name_written(spec, topics, version), inputs),
            group,
            metadata.uid,
            version,
        )
        for version, inputs in sorted(_find_places(status).items())
    ]
    needs = [each for subject in subjects for each in list_permissions(subject)]
    if status.sides:
        needs += [
            Permission(
                KafkaResource.TOPIC, subject.find(sink.target.topic), Operation.READ, role="comparison"
            )
            for subject in subjects
            for sink in spec.sinks
        ]
    moves = (
        each.move for each in status.inputs if each.move is not None
    )  # a driver that ends still reads the old one
    needs += [
        Permission(KafkaResource.TOPIC, move.old, Operation.READ, role="moved source") for move in moves
    ]
    for each in needs:
        if each.is_prefix and not each.name:
            raise NotAllowed(
                f"topicPattern of {each.role} has no text that all of its topics begin with, so no user can have a permission for"
                " just these; begin it with text, such as flights-.*, or name the topics",
                reason=Reason.PATTERN_TOO_WIDE,
            )
    return needs


def _find_places(status: PipelineStatus) -> dict[int, tuple[InputTopic, ...]]:
    """Return the topics that are read in another version, by the version of the outputs of each run."""
    found = {status.active.outputs: status.inputs}
    for run in status.sides:
        own = None if run.place is None else run.place.inputs
        found[run.outputs] = status.inputs if own is None else own
    return found


def find_outside(needs: Iterable[Permission], patterns: Iterable[str]) -> list[str]:
    """Return the topics that no pattern allows, each once. A pattern is a topic, or a beginning of topics followed by a star."""
    known = tuple(patterns)
    topics = [each for each in needs if each.kind is KafkaResource.TOPIC]
    outside = (each for each in topics if not any(_covers(pattern, each) for pattern in known))
    return sorted({f"{each.name}*" if each.is_prefix else each.name for each in outside})


def _covers(pattern: str, need: Permission) -> bool:
    if pattern.endswith("*"):
        return need.name.startswith(pattern[:-1])
    return pattern == need.name and not need.is_prefix


def is_changing(status: PipelineStatus) -> bool:
    """Return whether a change is in progress, in which the previous revision may be needed."""
    return status.upgrade is not None and status.upgrade.phase in _CHANGING


def find_record(status: PipelineStatus, name: str) -> KafkaUser | None:
    """Return what the status has of a user."""
    return next((each for each in status.kafka_users if each.name == name), None)


def put_record(status: PipelineStatus, record: KafkaUser) -> PipelineStatus:
    """Return the status with this record, in place of the one of the same user."""
    others = tuple(each for each in status.kafka_users if each.name != record.name)
    return status.replace(kafka_users=(*others, record))


def drop_records(status: PipelineStatus, records: Iterable[KafkaUser]) -> PipelineStatus:
    """Return the status without these users."""
    names = {each.name for each in records}
    return status.replace(kafka_users=tuple(each for each in status.kafka_users if each.name not in names))


def find_changes(user: UserObserved) -> Iterator[Action]:
    """Yield what creates the user in Kafka, or adds what it lacks there."""
    view, record = user.view or UserView(), user.record
    if record.password != user.password or user.mechanism not in view.mechanisms:
        secret = ObjectRef.of(user.manifest)
        yield PutUser(user.cluster, record.name, user.mechanism, secret)
    missing = tuple(sorted(user.wanted - view.acls))
    if missing:
        yield GrantPermissions(user.cluster, record.name, missing)
