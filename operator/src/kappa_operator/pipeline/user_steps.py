"""The steps of a pipeline's user in Kafka: it is complete before a driver starts, and exact once a driver runs that needs nothing else.

Between the two it has the permissions of the previous revision and of the new one. A user is recorded before it is created, so what the
status does not have is another owner's. A pipeline is released when its users are deleted, or when its KafkaCluster lists them.
"""

from datetime import datetime

from kappa_crds.pipeline import PIPELINE_FINALIZER
from kappa_crds.progress import DriverState
from kappa_crds.reasons import Reason
from kappa_operator import intervals
from kappa_operator.engine.actions import (
    Action,
    CreatePassword,
    DeleteUser,
    EmitEvent,
    RecordStatus,
    RemoveFinalizer,
    RevokePermissions,
)
from kappa_operator.engine.plan import Plan, block_deletion
from kappa_operator.pipeline.model import PipelineObserved
from kappa_operator.pipeline.user import (
    DROPS,
    UnusedUser,
    drop_records,
    find_changes,
    is_changing,
    put_record,
)


def keep_user(observed: PipelineObserved, _now: datetime) -> Plan | None:
    """Record the user, create it, and grant what it lacks."""
    user, status = observed.user, observed.status
    if user is None or user.view is None or observed.resource.spec.suspend:
        return None
    create = () if user.password is not None else (CreatePassword(user.manifest, user.record.name),)
    if not user.is_recorded:
        return Plan((RecordStatus(put_record(status, user.record)), *create), requeue=True)
    if create:
        return Plan(create, requeue=True)
    changes = tuple(find_changes(user))
    done = user.record.replace(password=user.password, granted=user.fingerprint)
    if done.granted != user.record.granted:
        done = done.replace(exact=False)
    if not changes and done == user.record:
        return None
    return Plan((*changes, RecordStatus(put_record(status, done))), requeue=True)


def drop_users(observed: PipelineObserved, _now: datetime) -> Plan | None:
    """Revoke what the driver does not need, and delete users that it does not have. Their Secrets, now worthless, go with the pipeline."""
    if observed.refused_drop or not is_settled(observed):
        return None
    return _revoke(observed) or _delete_unused(observed)


def is_settled(observed: PipelineObserved) -> bool:
    """Return whether the only driver runs just the revision of the spec, and no other one may follow it."""
    alive, progress, built = observed.alive, observed.progress, observed.built
    if alive is None or progress is None or built is None or is_changing(observed.status):
        return False
    others = [pod for pod in observed.pods if pod is not alive and not pod.finished]
    is_running = progress.state is DriverState.RUNNING and progress.generation == alive.generation
    return is_running and not others and alive.revision == built.name


def _revoke(observed: PipelineObserved) -> Plan | None:
    user = observed.user
    if user is None or user.view is None or user.record.exact or not user.is_recorded:
        return None
    beyond = tuple(sorted(user.view.acls - user.wanted))
    revoke = (RevokePermissions(user.cluster, user.record.name, beyond),) if beyond else ()
    record = RecordStatus(put_record(observed.status, user.record.replace(exact=True)))
    return Plan((*revoke, record), requeue=True)


def _delete_unused(observed: PipelineObserved) -> Plan | None:
    unused = [each for each in observed.unused_users if not each.problem]
    if not unused:
        return None
    record = RecordStatus(drop_records(observed.status, (each.record for each in unused)))
    return Plan((*map(_delete, unused), record), requeue=True)


def _delete(user: UnusedUser) -> Action:
    """Delete a user, or report that it stays, as no KafkaCluster can delete it."""
    if not user.is_lost:
        return DeleteUser(user.cluster, user.record.name)
    name = user.record.name
    return EmitEvent(
        Reason.KAFKA_USER_REMAINS,
        f"user {name} stays in Kafka, as KafkaCluster {user.cluster.name} is gone or can list no more users; delete it with kafka-configs.sh --alter"
        f" --entity-type users --entity-name {name} --delete-config SCRAM-SHA-512, and its ACLs with kafka-acls.sh --remove"
        f" --principal User:{name}",
        warning=True,
    )


def release_users(observed: PipelineObserved, now: datetime) -> Plan:
    """Delete the users in Kafka, then release the pipeline, whose drivers have ended. Report what prevents it."""
    held = [each for each in observed.unused_users if not (each.is_lost or each.is_listed)]
    if not held:
        events = tuple(_delete(each) for each in observed.unused_users if each.is_lost)
        return Plan((*events, RemoveFinalizer(PIPELINE_FINALIZER)))
    failed = (each.error.message for each in observed.failures if isinstance(each.action, DROPS))
    problem = next(failed, "") or next((each.problem for each in held if each.problem), "")
    if problem:
        names = ", ".join(each.record.name for each in held)
        message = f"user {names} cannot be deleted in Kafka: {problem}; after some minutes the KafkaCluster takes over, or is to be deleted too"
        return block_deletion(observed.resource, Reason.KAFKA_USER_REMAINS, message, now, intervals.BLOCKED)
    record = RecordStatus(drop_records(observed.status, (each.record for each in held)))
    return Plan((*map(_delete, held), record), requeue=True)
