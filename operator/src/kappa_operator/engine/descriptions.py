"""Actions in one line each, as `kappa plan` and the log show them."""

from typing import assert_never

from kappa_operator.engine.actions import (
    Action,
    ActivateDriver,
    AddFinalizer,
    AdvanceDriver,
    AlterConfigs,
    AlterOffsets,
    ApplyObject,
    CallWebhook,
    ChangeConnector,
    CommitOffsets,
    CompareOutputs,
    ConnectAction,
    ContinueDriver,
    CreateConnector,
    CreateObject,
    CreatePassword,
    CreateToken,
    CreateTopic,
    DeleteConnector,
    DeleteObject,
    DeleteTopic,
    DeleteUser,
    Disconnect,
    DriverAction,
    DriverRequest,
    DropCredentials,
    EmitEvent,
    ForgetOffsets,
    GrantPermissions,
    GrowPartitions,
    HoldDriver,
    KeepConnectSecret,
    KeepControlSecret,
    KeepCredentials,
    KeepLagHistories,
    PutUser,
    Reconnect,
    RecordStatus,
    RemoveFinalizer,
    RestartConnector,
    RevokePermissions,
    SetConnectorState,
    SetDriverRole,
    SetQuota,
    StopDriver,
    TakeRolloutSlot,
    TakeSavepoint,
    UserAction,
)
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.kafka.model import Rate


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
        case DriverRequest():
            return _describe_driver_request(action)
        case CreateTopic() | GrowPartitions() | AlterConfigs() | DeleteTopic():
            return _describe_topic_action(action)
        case CallWebhook(_, _, name, attempt):
            return f"call the webhook {name}, attempt {attempt}"
        case CommitOffsets(_, group, offsets):
            return f"commit offsets of {', '.join(sorted(offsets))} for consumer group {group}"
        case SetQuota(_, client, rate, kind):
            wanted = "no quota of its own" if rate is None else f"{rate:.0f} bytes a second"
            role = "producer" if kind is Rate.PRODUCER else "consumer"
            return f"give {role} {client} {wanted}"
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


def _describe_driver_request(action: DriverAction) -> str:
    match action:
        case StopDriver(pod, _, _, timeout):
            return f"have {pod} stop at the end of its batch, within {timeout:.0f} s"
        case ActivateDriver(pod, _, _):
            return f"have {pod} take over"
        case TakeSavepoint(pod, _, _, name, location):
            return f"have {pod} take the savepoint {name} below {location}"
        case CompareOutputs(pod, _, _, request):
            return f"have {pod} compare {request.old.topic} with {request.new.topic}"
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
