"""All writes: executes the actions of a plan in order, and the status last.

An action that fails ends the plan, and the next decision gets the failure. Where the resource itself changed or is gone
meanwhile, the plan is abandoned: the event of that change brings the key back.
"""

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any, assert_never

import structlog

from kappa_crds import API_VERSION
from kappa_crds.conditions import ConditionType, find_condition
from kappa_crds.reasons import Reason
from kappa_crds.resource import Resource, ResourceStatus
from kappa_operator.connect.apply import apply_connect
from kappa_operator.connect.certificates import keep_connect_secret
from kappa_operator.consent import WEBHOOK, Purpose
from kappa_operator.engine import actions as act
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.descriptions import describe_action
from kappa_operator.engine.events import build_event
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.ownership import require_own
from kappa_operator.engine.plan import Failure
from kappa_operator.errors import AlreadyExists, KappaError, NoRolloutSlot
from kappa_operator.lag.memory import Remembered
from kappa_operator.pipeline.control import create_token, keep_control_secret, read_control
from kappa_operator.pipeline.drivers import ControlAccess
from kappa_operator.secrets import encode, read_own_key, read_secret, read_webhook_url

log = structlog.get_logger(__name__)

AnyResource = Resource[Any, Any]


async def apply_actions(
    context: OperatorContext, resource: AnyResource, actions: Sequence[act.Action]
) -> Failure | None:
    """Execute the actions in order; return the first failure, which leaves the rest undone.

    Raises Conflict or NotFound where the resource itself changed or vanished meanwhile.
    """
    for action in actions:
        context.check_leading()
        try:
            await _apply(context, resource, action)
        except KappaError as error:
            if isinstance(action, act.RecordStatus | act.AddFinalizer | act.RemoveFinalizer):
                raise
            return Failure(action, error)
        if not isinstance(action, act.EmitEvent | act.KeepLagHistories):
            log.info("applied", resource=str(Key.of(resource)), action=describe_action(action))
    return None


async def apply_status(context: OperatorContext, resource: AnyResource, status: ResourceStatus) -> bool:
    """Write the status, with an Event if the reason changed; return whether there was anything to write.

    The write carries the resource version that the decision was based on. A decision on stale data raises Conflict: so
    a replica that lost the lease without knowing cannot undo what its successor recorded.
    """
    known = context.kinds[resource.kind].kind.condition_types
    status = _keep_foreign_conditions(resource, status, known)
    if status == resource.status:
        return False
    version = {"resourceVersion": resource.metadata.resource_version}
    body = _build_body(resource, version, status=status.to_manifest())
    context.note(await context.cluster.apply_status(body))
    await _announce(context, resource, status)
    return True


def _keep_foreign_conditions(
    resource: AnyResource, status: ResourceStatus, known: Container[str]
) -> ResourceStatus:
    """Return the status with the conditions whose types only another version knows."""
    foreign = [each for each in resource.status.conditions if each.type not in known]
    missing = [each for each in foreign if find_condition(status.conditions, each.type) is None]
    return status.replace(conditions=(*status.conditions, *missing)) if missing else status


async def _announce(context: OperatorContext, resource: AnyResource, status: ResourceStatus) -> None:
    """Emit an Event when the reason of Ready changes: one Event for each thing that happened, not for each reconcile."""
    before = find_condition(resource.status.conditions, ConditionType.READY)
    after = find_condition(status.conditions, ConditionType.READY)
    if after is None or (before is not None and before.reason == after.reason):
        return
    if before is None and (after.status == "True" or after.reason == Reason.LIMIT_REACHED):
        return  # healthy or beyond a limit from the start is no news, and ten thousand such Events would be spam
    stalled = find_condition(status.conditions, ConditionType.STALLED)
    warning = stalled is not None and stalled.status == "True"
    await emit_event(context, resource, act.EmitEvent(after.reason, after.message, warning))


async def _apply(context: OperatorContext, resource: AnyResource, action: act.Action) -> None:
    match action:
        case act.RecordStatus(status):
            await apply_status(context, resource, status)
        case act.AddFinalizer() | act.RemoveFinalizer():
            await _change_finalizers(context, resource, action)
        case (
            act.ApplyObject()
            | act.CreateObject()
            | act.CreateToken()
            | act.CreatePassword()
            | act.KeepControlSecret()
            | act.KeepConnectSecret()
            | act.DeleteObject()
        ):
            await _change_object(context, action)
        case act.EmitEvent():
            await emit_event(context, resource, action)
        case act.KeepLagHistories(histories, loads):
            context.histories.keep(Key.of(resource), resource.metadata.uid, Remembered(histories, loads))
        case act.CallWebhook():
            await _call_webhook(context, action)
        case act.TakeRolloutSlot():
            _take_slot(context, Key.of(resource))
        case act.Disconnect() | act.Reconnect():
            _change_client(context, action)
        case act.DriverRequest():
            await _call_driver(context, action, await read_control(context, action.token))
        case (
            act.KeepCredentials()
            | act.DropCredentials()
            | act.CreateConnector()
            | act.ChangeConnector()
            | act.SetConnectorState()
            | act.RestartConnector()
            | act.ForgetOffsets()
            | act.AlterOffsets()
            | act.DeleteConnector()
        ):
            await apply_connect(context, action)
        case (
            act.PutUser()
            | act.CreateTopic()
            | act.GrowPartitions()
            | act.AlterConfigs()
            | act.DeleteTopic()
            | act.SetQuota()
            | act.CommitOffsets()
            | act.GrantPermissions()
            | act.RevokePermissions()
            | act.DeleteUser()
        ):
            await _change_kafka(context, action)
        case _:
            assert_never(action)


def _change_client(context: OperatorContext, action: act.Disconnect | act.Reconnect) -> None:
    if isinstance(action, act.Reconnect):
        context.kafka.connect(action.cluster, action.access)
    else:
        context.kafka.release(action.cluster)


async def _change_kafka(context: OperatorContext, action: act.KafkaAction | act.PutUser) -> None:
    if isinstance(action, act.PutUser):
        password = await read_own_key(context, action.secret, "password")
        await context.kafka.put_user(action.cluster, action.user, action.mechanism, password)
        return
    await context.kafka.apply(action)


async def _call_webhook(context: OperatorContext, action: act.CallWebhook) -> None:
    if action.url_secret is not None:
        url = await read_webhook_url(context, action.url_secret, action.url_key)
        action = replace(action, url=url)
    context.webhooks.check(action.url)
    purpose = Purpose.of_url(WEBHOOK, action.url, "a token")
    secret, name = action.secret, action.secret_key
    known = {} if secret is None else await read_secret(context, secret, (name,), purpose)
    context.webhooks.start(action, known.get(name))


async def _change_finalizers(
    context: OperatorContext, resource: AnyResource, action: act.AddFinalizer | act.RemoveFinalizer
) -> None:
    others = tuple(name for name in resource.metadata.finalizers if name != action.finalizer)
    wanted = (*others, action.finalizer) if isinstance(action, act.AddFinalizer) else others
    ours = [name for name in wanted if name.startswith("kappa-platform.io/")]
    written = await context.cluster.apply(_build_body(resource, {"finalizers": ours}))
    if isinstance(action, act.AddFinalizer):
        context.note(written)
    elif resource.metadata.deletion_timestamp is None:
        context.cache.put(written)


def _take_slot(context: OperatorContext, key: Key) -> None:
    upgrades, most = context.cache.list_excerpts(key.kind), context.settings.concurrent_changes
    if not context.rollouts.try_acquire(key, upgrades, most, context.now()):
        raise NoRolloutSlot("as many pipelines as allowed are being changed")


async def _change_object(context: OperatorContext, action: act.ObjectAction) -> None:
    match action:
        case act.ApplyObject(manifest, None):
            await _apply_own(context, manifest)
        case act.ApplyObject(manifest, manager):
            await context.cluster.apply(manifest, manager)
        case act.CreateObject(manifest):
            await _create(context, manifest)
        case act.CreateToken(manifest):
            await _create(context, {**manifest, "data": {"token": create_token()}})
        case act.CreatePassword(manifest, user):
            data = {"username": encode(user), "password": create_token()}
            await _create(context, {**manifest, "data": data})
        case act.KeepControlSecret(manifest, host):
            await keep_control_secret(context, manifest, host)
        case act.KeepConnectSecret(manifest, hosts):
            await keep_connect_secret(context, manifest, hosts)
        case act.DeleteObject(ref, uid, _):
            await context.cluster.delete(ref, uid)
        case _:
            assert_never(action)


async def _call_driver(context: OperatorContext, action: act.DriverAction, access: ControlAccess) -> None:
    match action:
        case act.StopDriver(_, address, _, timeout):
            await context.drivers.stop(address, access, timeout)
        case act.ActivateDriver(_, address, _):
            await context.drivers.activate(address, access)
        case act.TakeSavepoint(_, address, _, name, location):
            await context.drivers.take_savepoint(address, access, name, location)
        case act.CompareOutputs(_, address, _, request):
            await context.drivers.compare(address, access, request)
        case act.HoldDriver(_, address, _, seconds):
            await context.drivers.hold(address, access, seconds)
        case act.AdvanceDriver(_, address, _, target):
            await context.drivers.advance(address, access, target)
        case act.ContinueDriver(_, address, _):
            await context.drivers.resume(address, access)
        case act.SetDriverRole(_, address, _, role):
            await context.drivers.set_role(address, access, role)
        case _:
            assert_never(action)


async def _apply_own(context: OperatorContext, manifest: act.Manifest) -> None:
    """Create the object, or change the one of that name if it is the operator's own."""
    body = await context.cluster.get(ObjectRef.of(manifest))
    if body is None:
        await context.cluster.create(manifest)
        return
    require_own(body, manifest)
    metadata = {**manifest["metadata"], "uid": body["metadata"]["uid"]}
    await context.cluster.apply({**manifest, "metadata": metadata})


async def _create(context: OperatorContext, manifest: act.Manifest) -> None:
    try:
        await context.cluster.create(manifest)
    except AlreadyExists:
        body = await context.cluster.get(ObjectRef.of(manifest))
        if body is not None:
            require_own(body, manifest)


async def emit_event(context: OperatorContext, resource: AnyResource, event: act.EmitEvent) -> None:
    """Write an Event; one that is there already is enough, and a failure is logged with its text: events are for people."""
    manifest = build_event(resource, event, context.settings.identity, context.now())
    try:
        await context.cluster.create(manifest)
    except AlreadyExists:
        return
    except KappaError as error:
        about = {"resource": str(Key.of(resource)), "reason": event.reason, "message": event.message}
        log.warning("event not written", **about, error=error.message)


def _build_body(resource: AnyResource, metadata: act.Manifest, **parts: Any) -> act.Manifest:
    """Return what identifies the resource, with more metadata and other parts."""
    known = resource.metadata
    identity = {"name": known.name, "namespace": known.namespace, "uid": known.uid}
    return {
        "apiVersion": API_VERSION, "kind": resource.kind, "metadata": {**identity, **metadata}, **parts,
    }  # fmt: skip
