"""Everything that the operator can do, as data.

A decision is a tuple of these; `apply` executes them in order, `kappa plan` prints `describe_action` of each. The
union is closed: a new action is added here, in `descriptions` and in `apply`, and mypy finds a forgotten place.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kappa_crds.comparison import ComparisonRequest
from kappa_crds.progress import DriverRole, InputVector, TopicOffsets
from kappa_crds.resource import ResourceStatus
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.kafka.model import Acl, KafkaAccess, Producer, Rate
from kappa_operator.lag.history import LagHistory
from kappa_operator.lag.load import Load
from kappa_operator.lag.model import GroupPartition

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RecordStatus:
    """Write the status now, before the actions that follow: the status is the write-ahead log.

    The write carries the resource version that the decision was made on, so that a decision on stale data fails.
    """

    status: ResourceStatus


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Hold the resource's deletion until its outside effects are undone."""

    finalizer: str


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Release the resource's deletion."""

    finalizer: str


@dataclass(frozen=True, slots=True)
class ApplyObject:
    """Bring an object to this shape by server-side apply. `manager` is the field manager, where it is not the operator's usual one."""

    manifest: Manifest
    manager: str | None = None


@dataclass(frozen=True, slots=True)
class CreateObject:
    """Create an object; one of that name that is there already is left as it is."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class CreateToken:
    """Create a Secret with a random token, unless it exists."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class CreatePassword:
    """Create a Secret with a user and a random password, unless it exists."""

    manifest: Manifest
    user: str


@dataclass(frozen=True, slots=True)
class KeepControlSecret:
    """Create the Secret of a control port, with a random token and a certificate; in one that exists, renew a certificate that is due.

    The replaced certificate stays in the Secret until the next renewal: a driver serves it until it has the new one.
    """

    manifest: Manifest
    host: str


@dataclass(frozen=True, slots=True)
class KeepConnectSecret:
    """Create the Secret of the REST API of Kafka Connect, with a certificate for these hosts; in one that exists, renew what is due."""

    manifest: Manifest
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete just the object with this uid; one that is gone already is fine."""

    ref: ObjectRef
    uid: str
    why: str


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """Report what happened as an Event; the same report within an hour makes no second one."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class KeepLagHistories:
    """Remember the lag history of a policy in this process, until the next sample."""

    histories: Mapping[GroupPartition, LagHistory]
    loads: Mapping[str, Load] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TakeRolloutSlot:
    """Take a slot for a change of the pipeline; it fails where as many pipelines as allowed are being changed."""


@dataclass(frozen=True, slots=True)
class Reconnect:
    """Replace the client of a Kafka cluster by one with this access, which may hold secrets."""

    cluster: Key
    access: KafkaAccess


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the client of a Kafka cluster, which would log in again whenever it loses a connection."""

    cluster: Key


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create a topic in Kafka. `replication` None takes the broker's default."""

    cluster: Key
    topic: str
    partitions: int
    replication: int | None
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GrowPartitions:
    """Raise the number of a topic's partitions to `partitions`."""

    cluster: Key
    topic: str
    before: int
    partitions: int


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    """Set topic configs; a value of None returns a config to the broker's default."""

    cluster: Key
    topic: str
    configs: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Delete a topic in Kafka, with its data."""

    cluster: Key
    topic: str


@dataclass(frozen=True, slots=True)
class SetQuota:
    """Set how many bytes a second each broker takes from a producer, or sends to a consumer; None removes the quota."""

    cluster: Key
    producer: Producer
    rate: float | None
    kind: Rate = Rate.PRODUCER


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Commit next offsets, by topic and partition, for a consumer group that has no members."""

    cluster: Key
    group: str
    offsets: TopicOffsets


@dataclass(frozen=True, slots=True)
class PutUser:
    """Create a user in Kafka, or set its password, which is in a Secret of the operator."""

    cluster: Key
    user: str
    mechanism: str
    secret: ObjectRef


@dataclass(frozen=True, slots=True)
class GrantPermissions:
    """Add ACLs of a user."""

    cluster: Key
    user: str
    acls: tuple[Acl, ...]


@dataclass(frozen=True, slots=True)
class RevokePermissions:
    """Remove ACLs of a user."""

    cluster: Key
    user: str
    acls: tuple[Acl, ...]


@dataclass(frozen=True, slots=True)
class DeleteUser:
    """Delete a user in Kafka, with all its ACLs."""

    cluster: Key
    user: str


@dataclass(frozen=True, slots=True)
class CallWebhook:
    """Start an attempt to call a policy's webhook; a repeated start changes nothing. Its URL is empty where it is in a Secret."""

    policy: Key
    url: str = field(repr=False)
    id: str
    attempt: int
    document: Mapping[str, Any] = field(repr=False)
    secret: ObjectRef | None = None
    secret_key: str = ""
    url_secret: ObjectRef | None = None
    url_key: str = ""


@dataclass(frozen=True, slots=True)
class DriverRequest:
    """A request to the control port of a driver. Repeating one is harmless. `token` is the Secret with its token."""

    pod: ObjectRef
    address: str
    token: ObjectRef


@dataclass(frozen=True, slots=True)
class StopDriver(DriverRequest):
    """Have a driver stop after the batch in flight."""

    timeout: float


@dataclass(frozen=True, slots=True)
class ActivateDriver(DriverRequest):
    """Have a standby driver take over."""


@dataclass(frozen=True, slots=True)
class TakeSavepoint(DriverRequest):
    """Have a driver take a savepoint below a location."""

    name: str
    location: str


@dataclass(frozen=True, slots=True)
class HoldDriver(DriverRequest):
    """Have a driver read no further after the batch in flight, for so many seconds at most. A repeated request prolongs the hold."""

    seconds: float


@dataclass(frozen=True, slots=True)
class AdvanceDriver(DriverRequest):
    """Have a driver that holds read exactly up to this point of its input, and hold there."""

    target: InputVector


@dataclass(frozen=True, slots=True)
class ContinueDriver(DriverRequest):
    """End the hold of a driver; one that does not hold is fine."""


@dataclass(frozen=True, slots=True)
class SetDriverRole(DriverRequest):
    """Give a driver its role from now on."""

    role: DriverRole


@dataclass(frozen=True, slots=True)
class CompareOutputs(DriverRequest):
    """Have a driver compare two versions of an output."""

    request: ComparisonRequest


@dataclass(frozen=True, slots=True)
class KeepCredentials:
    """Copy a log-in to a database into the Secret of the workers of Kafka Connect, below the name of the source, and create that Secret.

    `server` is the host:port that the login may be sent to. `ca` names the Secret and the key with authorities; without it the connection
    has no TLS. With `truststore` these are kept in the form of Java, too.
    """

    manifest: Manifest
    source: str
    login: ObjectRef
    server: str
    ca: tuple[ObjectRef, str] | None = None
    truststore: bool = False


@dataclass(frozen=True, slots=True)
class DropCredentials:
    """Remove the log-in of a source from the Secret of the workers; one that is gone is fine."""

    secret: ObjectRef
    source: str


@dataclass(frozen=True, slots=True)
class CreateConnector:
    """Have Kafka Connect validate a configuration, which logs in to the database, and create a connector in a state."""

    cluster: Key
    name: str
    config: Mapping[str, str]
    state: str


@dataclass(frozen=True, slots=True)
class ChangeConnector:
    """Have Kafka Connect validate a configuration and replace that of a connector, which restarts its tasks."""

    cluster: Key
    name: str
    config: Mapping[str, str]
    changed: tuple[str, ...] = ()
    """Names of the properties that differ."""


@dataclass(frozen=True, slots=True)
class SetConnectorState:
    """Have a connector run, pause, or give up its tasks; a repeated request is fine."""

    cluster: Key
    name: str
    state: str


@dataclass(frozen=True, slots=True)
class RestartConnector:
    """Restart a connector and its tasks, as far as they failed."""

    cluster: Key
    name: str


@dataclass(frozen=True, slots=True)
class ForgetOffsets:
    """Forget the position of a connector without tasks; its next start is its first."""

    cluster: Key
    name: str


@dataclass(frozen=True, slots=True)
class AlterOffsets:
    """Set the position of a connector without tasks; repeated, it is the same."""

    cluster: Key
    name: str
    partition: dict[str, Any]
    offset: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeleteConnector:
    """Delete a connector; its position stays in Kafka Connect."""

    cluster: Key
    name: str


ObjectAction = (
    ApplyObject
    | CreateObject
    | CreateToken
    | CreatePassword
    | KeepControlSecret
    | KeepConnectSecret
    | DeleteObject
)
ConnectorAction = (
    CreateConnector
    | ChangeConnector
    | SetConnectorState
    | RestartConnector
    | ForgetOffsets
    | AlterOffsets
    | DeleteConnector
)
ConnectAction = KeepCredentials | DropCredentials | ConnectorAction
DriverAction = (
    StopDriver
    | ActivateDriver
    | TakeSavepoint
    | HoldDriver
    | AdvanceDriver
    | ContinueDriver
    | SetDriverRole
    | CompareOutputs
)
UserAction = GrantPermissions | RevokePermissions | DeleteUser
KafkaAction = (
    CreateTopic | GrowPartitions | AlterConfigs | DeleteTopic | SetQuota | CommitOffsets | UserAction
)
Action = (
    RecordStatus
    | AddFinalizer
    | RemoveFinalizer
    | EmitEvent
    | KeepLagHistories
    | CallWebhook
    | Reconnect
    | Disconnect
    | TakeRolloutSlot
    | PutUser
    | ObjectAction
    | DriverAction
    | ConnectAction
    | KafkaAction
)
