"""What to do about Kafka Connect of a KafkaCluster: topics first, then the certificate, then the objects; and what to report.

That there are workers is recorded in the status before the first of their objects is created, so that they are removed with
`spec.connect.workers`, whenever the operator ends.
"""

from datetime import datetime

from kappa_crds.conditions import Condition, ConditionStatus, find_condition
from kappa_crds.connect import CONNECT_READY, ConnectStatus, ConnectWorkers
from kappa_crds.reasons import Reason
from kappa_operator.connect.names import KafkaClusterResource, build_url, list_hosts, name_workers
from kappa_operator.connect.objects import CONTENT_ANNOTATION, build_objects, build_rest_secret
from kappa_operator.connect.observed import ConnectObserved
from kappa_operator.connect.topics import create_missing, find_unsuitable, list_ids
from kappa_operator.engine.actions import (
    ApplyObject,
    CreateTopic,
    DeleteObject,
    EmitEvent,
    KeepConnectSecret,
    Manifest,
    RecordStatus,
)
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.plan import Failure, Plan, build_condition
from kappa_operator.errors import KappaError

_ACTIONS = (ApplyObject, CreateTopic, DeleteObject, KeepConnectSecret)


def find_workers(resource: KafkaClusterResource) -> ConnectWorkers | None:
    """Return the workers that the operator is to run."""
    return None if resource.spec.connect is None else resource.spec.connect.workers


def find_connect_failure(failures: tuple[Failure, ...]) -> KappaError | None:
    """Return why the last change of the workers failed; no other action of a KafkaCluster is of these kinds."""
    return next((each.error for each in failures if isinstance(each.action, _ACTIONS)), None)


def remove_workers(
    resource: KafkaClusterResource, observed: ConnectObserved | None, failures: tuple[Failure, ...]
) -> Plan | None:
    """Delete the StatefulSet where the spec declares no workers any more. Topics stay; other objects go with the KafkaCluster."""
    status = resource.status
    if find_workers(resource) is not None or status.connect is None or status.connect.workers is None:
        return None
    if observed is None or find_connect_failure(failures) is not None:
        return None
    forget = RecordStatus(status.replace(connect=None))
    if observed.replicas is None:
        return Plan((forget,), requeue=True)
    ref = ObjectRef("apps/v1", "StatefulSet", resource.metadata.namespace, name_workers(resource))
    return Plan((DeleteObject(ref, observed.uid, "spec.connect.workers was removed"), forget), requeue=True)


def keep_workers(
    resource: KafkaClusterResource, observed: ConnectObserved | None, failures: tuple[Failure, ...]
) -> Plan | None:
    """Bring topics, certificate and objects one step further; None where everything is as declared, or cannot be changed now."""
    workers, status = find_workers(resource), resource.status
    if workers is None or observed is None or observed.blocked is not None:
        return None
    if find_connect_failure(failures) is not None or observed.topics is None:
        return None
    if status.connect is None or status.connect.workers is None:
        begun = ConnectStatus(workers=f"0/{workers.replicas}")
        return Plan((RecordStatus(status.replace(connect=begun)),), requeue=True)
    if find_unsuitable(resource, observed.topics) is not None:
        return None
    missing = create_missing(resource, observed.topics, observed.brokers)
    if missing:
        return Plan(missing, requeue=True)
    ids = list_ids(resource, observed.topics)
    if status.connect.topics != ids:
        return Plan((RecordStatus(status.replace(connect=status.connect.replace(topics=ids))),), requeue=True)
    if observed.secret_due:
        keep = KeepConnectSecret(build_rest_secret(resource), list_hosts(resource))
        return Plan((keep,), requeue=True)
    changed = tuple(ApplyObject(each) for each in _find_changed(resource, workers, observed))
    return Plan(changed, requeue=True) if changed else None


def _find_changed(
    resource: KafkaClusterResource, workers: ConnectWorkers, observed: ConnectObserved
) -> list[Manifest]:
    """Return the objects that are missing, or were applied with another content; the StatefulSet also where its replicas were changed."""
    if observed.options is None:
        return []
    changed: list[Manifest] = []
    for each in build_objects(resource, workers, observed.options):
        applied = observed.contents.get((each["kind"], each["metadata"]["name"]))
        is_scaled = each["kind"] == "StatefulSet" and observed.replicas != workers.replicas
        if is_scaled or applied != each["metadata"]["annotations"][CONTENT_ANNOTATION]:
            changed.append(each)
    return changed


def build_connect_status(
    resource: KafkaClusterResource, observed: ConnectObserved | None, failures: tuple[Failure, ...]
) -> ConnectStatus | None:
    """Return what to report of Kafka Connect; None where the spec declares none."""
    connect, before = resource.spec.connect, resource.status.connect or ConnectStatus()
    if connect is None:
        # While the StatefulSet is there, its record stays.
        return before if before.workers is not None else None
    if observed is None:
        return resource.status.connect
    failure = _find_failure(resource, observed, failures)
    view, workers = observed.view, connect.workers
    return before.replace(
        url=connect.existing.url if connect.existing is not None else build_url(resource),
        ready=None if workers is None else _count_ready(observed),
        workers=None if workers is None else f"{_count_ready(observed)}/{workers.replicas}",
        version=before.version if view is None else view.version,
        plugins=before.plugins if view is None else view.plugins,
        failure=None if failure is None else failure.message,
    )


def build_connect_condition(
    resource: KafkaClusterResource,
    observed: ConnectObserved | None,
    failures: tuple[Failure, ...],
    now: datetime,
) -> tuple[Condition, ...]:
    """Return the condition ConnectReady; none where the spec declares no Kafka Connect, and the one of before where nothing was seen."""
    if resource.spec.connect is None:
        return ()
    if observed is None:
        return tuple(each for each in resource.status.conditions if each.type == CONNECT_READY)
    status, reason, message = _judge(resource, observed, failures)
    generation = resource.metadata.generation
    return (build_condition(CONNECT_READY, status, reason, message, generation=generation, now=now),)


def announce_connect(
    resource: KafkaClusterResource, observed: ConnectObserved | None, failures: tuple[Failure, ...]
) -> tuple[EmitEvent, ...]:
    """Return the Event where the reason of ConnectReady changes, except for the first one."""
    before = find_condition(resource.status.conditions, CONNECT_READY)
    if before is None or observed is None or resource.spec.connect is None:
        return ()
    status, reason, message = _judge(resource, observed, failures)
    return () if before.reason == reason else (EmitEvent(reason, message, status != "True"),)


def is_settled(resource: KafkaClusterResource, observed: ConnectObserved | None) -> bool:
    """Return whether Kafka Connect is as declared, so that there is no need to look again soon."""
    if resource.spec.connect is None or observed is None:
        return True
    return _judge(resource, observed, ())[0] == "True"


def _judge(
    resource: KafkaClusterResource, observed: ConnectObserved, failures: tuple[Failure, ...]
) -> tuple[ConditionStatus, Reason, str]:
    workers, failure = find_workers(resource), _find_failure(resource, observed, failures)
    ready = _count_ready(observed)
    counts = "" if workers is None else f"{ready} of {workers.replicas} workers are ready"
    trouble = next((f"{each.name}: {each.trouble}" for each in observed.pods if each.trouble), None)
    if workers is not None and (failure is None or failure is observed.problem) and ready < workers.replicas:
        return "False", Reason.CONNECT_STARTING, f"{counts}; {trouble}" if trouble else counts
    if failure is not None:
        return "False", failure.reason, failure.message
    version = "unknown" if observed.view is None else observed.view.version
    message = f"Kafka Connect {version} answers" + (f", {counts}" if counts else "")
    return "True", Reason.CONNECT_AVAILABLE, message


def _find_failure(
    resource: KafkaClusterResource, observed: ConnectObserved, failures: tuple[Failure, ...]
) -> KappaError | None:
    """Return the first reason why Kafka Connect is not as declared, the one that a person has to correct first."""
    unsuitable = None if observed.topics is None else find_unsuitable(resource, observed.topics)
    if find_workers(resource) is not None and unsuitable is not None:
        return KappaError(unsuitable, reason=Reason.CONNECT_TOPIC_UNSUITABLE)
    return find_connect_failure(failures) or observed.blocked or observed.problem


def _count_ready(observed: ConnectObserved) -> int:
    return sum(each.ready for each in observed.pods)
