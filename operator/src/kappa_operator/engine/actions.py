"""Everything that the operator can do, as data.

A decision is a tuple of these; `apply` executes them in order, `kappa plan` prints `describe_action` of each. The
union is closed: a new action is added here, in `describe_action` and in `apply`, and mypy finds a forgotten place.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

from kappa_crds.comparison import ComparisonRequest
from kappa_crds.progress import DriverRole, InputVector
from kappa_crds.resource import ResourceStatus
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.kafka.model import Acl, KafkaAccess, Producer
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
    """Set how many bytes a second a producer may send to each broker; None removes its quota."""

    cluster: Key
    producer: Producer
    rate: float | None


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
class StopDriver:
    """Ask a driver to stop after the batch in flight. Asking twice is fine."""

    pod: ObjectRef
    address: str
    token: ObjectRef
    timeout: float


@dataclass(frozen=True, slots=True)
class ActivateDriver:
    """Have a standby driver take over. A repeated request is fine."""

    pod: ObjectRef
    address: str
    token: ObjectRef


@dataclass(frozen=True, slots=True)
class TakeSavepoint:
    """Ask a driver for a savepoint below a location. Asking twice is fine."""

    pod: ObjectRef
    address: str
    token: ObjectRef
    name: str
    location: str


@dataclass(frozen=True, slots=True)
class HoldDriver:
    """Have a driver read no further after the batch in flight, for so many seconds at most. A repeated request prolongs the hold."""

    pod: ObjectRef
    address: str
    token: ObjectRef
    seconds: float


@dataclass(frozen=True, slots=True)
class AdvanceDriver:
    """Have a driver that holds read exactly up to this point of its input, and hold there. A repeated request is fine."""

    pod: ObjectRef
    address: str
    token: ObjectRef
    target: InputVector


@dataclass(frozen=True, slots=True)
class ContinueDriver:
    """End the hold of a driver; one that does not hold is fine."""

    pod: ObjectRef
    address: str
    token: ObjectRef


@dataclass(frozen=True, slots=True)
class SetDriverRole:
    """Give a driver its role from now on. A repeated request is fine."""

    pod: ObjectRef
    address: str
    token: ObjectRef
    role: DriverRole


@dataclass(frozen=True, slots=True)
class CompareOutputs:
    """Have a driver compare two versions of an output. A repeated request changes nothing."""

    pod: ObjectRef
    address: str
    token: ObjectRef
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
HoldAction = HoldDriver | AdvanceDriver | ContinueDriver | SetDriverRole
DriverAction = StopDriver | ActivateDriver | TakeSavepoint | CompareOutputs | HoldAction
UserAction = GrantPermissions | RevokePermissions | DeleteUser
KafkaAction = CreateTopic | GrowPartitions | AlterConfigs | DeleteTopic | SetQuota | UserAction
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


def describe_action(action: Action) -> str:  # noqa: PLR0912 - one line for each kind of action
    """Describe an action in one line, as `kappa plan` prints it."""
    match action:
        case RecordStatus(status):
            return f"record in status: {status.state}"
        case AddFinalizer(finalizer):
            return f"hold deletion with finalizer {finalizer}"
        case RemoveFinalizer(finalizer):
            return f"release finalizer {finalizer}"
        case ApplyObject(manifest, _):
            return f"apply {ObjectRef.of(manifest)}"
        case CreateObject(manifest) | CreateToken(manifest) | CreatePassword(manifest):
            return f"create {ObjectRef.of(manifest)}"
        case KeepControlSecret(manifest, _):
            return f"keep token and certificate in {ObjectRef.of(manifest)}"
        case KeepConnectSecret(manifest, _):
            return f"keep the certificate of Kafka Connect in {ObjectRef.of(manifest)}"
        case DeleteObject(ref, _, why):
            return f"delete {ref}: {why}"
        case EmitEvent(reason, message, _):
            return f"event {reason}: {message}"
        case KeepLagHistories(histories, _):
            return f"remember the lag history of {len(histories)} group partitions"
        case TakeRolloutSlot():
            return "take a slot for the change"
        case Disconnect(cluster):
            return f"disconnect from {cluster}"
        case Reconnect(cluster):
            return f"connect to {cluster} with other settings"
        case StopDriver(pod, _, _, timeout):
            return f"ask {pod} to stop at the end of its batch, within {timeout:.0f} s"
        case ActivateDriver(pod, _, _):
            return f"have {pod} take over"
        case TakeSavepoint(pod, _, _, name, location):
            return f"ask {pod} for the savepoint {name} below {location}"
        case CompareOutputs(pod, _, _, request):
            return f"ask {pod} to compare {request.old.topic} with {request.new.topic}"
        case HoldDriver() | AdvanceDriver() | ContinueDriver() | SetDriverRole():
            return _describe_hold_action(action)
        case CreateTopic() | GrowPartitions() | AlterConfigs() | DeleteTopic():
            return _describe_topic_action(action)
        case CallWebhook(_, _, name, attempt):
            return f"call the webhook {name}, attempt {attempt}"
        case SetQuota(_, producer, rate):
            wanted = "no quota of its own" if rate is None else f"{rate:.0f} bytes a second"
            return f"give producer {producer} {wanted}"
        case PutUser() | GrantPermissions() | RevokePermissions() | DeleteUser():
            return _describe_user_action(action)
        case (
            KeepCredentials()
            | DropCredentials()
            | CreateConnector()
            | ChangeConnector()
            | SetConnectorState()
            | RestartConnector()
            | ForgetOffsets()
            | AlterOffsets()
            | DeleteConnector()
        ):
            return _describe_connect_action(action)
        case _:
            assert_never(action)


def _describe_hold_action(action: HoldAction) -> str:
    match action:
        case HoldDriver(pod, _, _, seconds):
            return f"have {pod} hold at the end of its batch, for {seconds:.0f} s at most"
        case AdvanceDriver(pod, _, _, target):
            count = sum(len(parts) for parts in target.offsets.values())
            return f"have {pod} advance to the offsets of the cut in {count} partitions"
        case ContinueDriver(pod, _, _):
            return f"have {pod} continue"
        case SetDriverRole(pod, _, _, role):
            return f"give {pod} the role {role}"
        case _:
            assert_never(action)


def _describe_topic_action(action: CreateTopic | GrowPartitions | AlterConfigs | DeleteTopic) -> str:
    match action:
        case CreateTopic(_, topic, partitions, replication, configs):
            copies = "the broker's default of" if replication is None else str(replication)
            return f"create topic {topic}: {partitions} partitions, {copies} replicas{_list_configs(configs)}"
        case GrowPartitions(_, topic, before, partitions):
            return f"grow topic {topic} from {before} to {partitions} partitions"
        case AlterConfigs(_, topic, configs):
            return f"alter topic {topic}{_list_configs(configs)}"
        case DeleteTopic(_, topic):
            return f"delete topic {topic} with its data"
        case _:
            assert_never(action)


def _describe_user_action(action: PutUser | UserAction) -> str:
    match action:
        case PutUser(_, user, mechanism, secret):
            return f"create user {user} in Kafka ({mechanism}) with the password in {secret}"
        case GrantPermissions(_, user, acls):
            return f"grant user {user}: {', '.join(map(str, acls))}"
        case RevokePermissions(_, user, acls):
            return f"revoke from user {user}: {', '.join(map(str, acls))}"
        case DeleteUser(_, user):
            return f"delete user {user} in Kafka with its ACLs"
        case _:
            assert_never(action)


def _describe_connect_action(action: ConnectAction) -> str:
    match action:
        case KeepCredentials(manifest, source):
            return f"keep the credentials of {source} in {ObjectRef.of(manifest)}"
        case DropCredentials(secret, source):
            return f"remove the credentials of {source} from {secret}"
        case CreateConnector(_, name, config, state):
            return f"create connector {name} ({config.get('connector.class')}), {state.lower()}"
        case ChangeConnector(_, name, _, changed):
            return f"change connector {name}, which restarts its task: {', '.join(changed)}"
        case SetConnectorState(_, name, state):
            return f"have connector {name} be {state.lower()}"
        case RestartConnector(_, name):
            return f"restart what failed of connector {name}"
        case ForgetOffsets(_, name):
            return f"forget the position of connector {name}"
        case AlterOffsets(_, name, _, offset):
            return f"set the position of connector {name}: {offset}"
        case DeleteConnector(_, name):
            return f"delete connector {name}"
        case _:
            assert_never(action)


def _list_configs(configs: dict[str, str] | dict[str, str | None]) -> str:
    changes = [f"{key}={'(default)' if value is None else value}" for key, value in sorted(configs.items())]
    return ", " + ", ".join(changes) if changes else ""
