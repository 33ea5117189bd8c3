"""What decisions about a state store share: the observation, when a check is due, and how the status is built."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kappa_crds.conditions import Condition, ConditionType, find_condition, is_true
from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.resource import ResourceStatus
from kappa_operator import intervals
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.plan import Failure, Plan, Verdict, update_status
from kappa_operator.savepoint.model import WorkerPod
from kappa_operator.savepoint.worker import Placement
from kappa_operator.statestore.objects import StateStoreResource, build_storage, name_claim


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim. `size` is what it requests, in bytes."""

    uid: str
    phase: str
    size: int
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What the pod of a check found."""

    ok: bool
    free_bytes: int | None = None
    reason: Reason = Reason.STORE_CHECK_FAILED
    message: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """The pod of the current check; `result` is there when it has ended, `waits` is what keeps it from starting."""

    ref: ObjectRef
    uid: str
    created: datetime
    result: ProbeResult | None = None
    waits: str | None = None


@dataclass(frozen=True, slots=True)
class StateStoreObserved:
    """All that a decision about a state store needs.

    `claim`, `probe` and `node` (where the PVC is mounted already) concern a store on a PVC. `users` are the pipelines that use it,
    and `savepoints` those on its PVC, where it is to be deleted. `worker` is the pod that collects or measures, `refused` why it cannot
    be created, and `current` the folder of each pipeline's checkpoint by uid, None where one cannot be read.
    """

    resource: StateStoreResource
    users: tuple[str, ...] = ()
    savepoints: tuple[str, ...] = ()
    claim: Claim | None = None
    probe: Probe | None = None
    node: str | None = None
    image: str = ""
    worker_image: str = ""
    pull_policy: str = "IfNotPresent"
    worker: WorkerPod | None = None
    current: Mapping[str, str] | None = None
    refused: str = ""
    failures: tuple[Failure, ...] = ()


def build_placement(observed: StateStoreObserved) -> Placement:
    """Return the placement of pods that collect or measure."""
    storage = build_storage(observed.resource)
    return Placement(
        storage, node=observed.node, image=observed.worker_image, pull_policy=observed.pull_policy
    )


def get_ready(resource: StateStoreResource) -> Condition | None:
    """Return the Ready condition as it is now."""
    return find_condition(resource.status.conditions, ConditionType.READY)


def is_ready(status: ResourceStatus) -> bool:
    """Return whether the last check found that the store works."""
    return is_true(status.conditions, ConditionType.READY)


def is_unseen(resource: StateStoreResource) -> bool:
    """Return whether the spec was changed since the status was written."""
    return resource.status.observed_generation != resource.metadata.generation


def choose_interval(resource: StateStoreResource) -> float:
    """Return the seconds from check to check; a store that is not ready is checked more often."""
    every = parse_duration(resource.spec.check_interval)
    return every if is_ready(resource.status) else min(every, intervals.FAILED)


def get_wait(resource: StateStoreResource, now: datetime) -> float:
    """Return the seconds until the next check is due, 0 for now."""
    return intervals.wait_after(resource.status.last_check, choose_interval(resource), now)


def report(
    observed: StateStoreObserved, verdict: Verdict, now: datetime, requeue: float, **fields: Any
) -> Plan:
    """Return the plan that only reports the store's state."""
    return Plan(status=build_status(observed, verdict, now, **fields), requeue_after=requeue)


def build_status(
    observed: StateStoreObserved, verdict: Verdict, now: datetime, **fields: Any
) -> ResourceStatus:
    """Return the status for a verdict; what `fields` leaves out stays as it was."""
    resource = observed.resource
    claim = name_claim(resource) if resource.spec.pvc else None
    place = {"location": describe_location(resource), "claim_name": claim}
    return update_status(resource, verdict, now, **place, **fields)


def describe_location(resource: StateStoreResource) -> str:
    """Return where the store is, for people."""
    s3, hdfs = resource.spec.s3, resource.spec.hdfs
    if s3 is not None:
        return f"s3://{s3.bucket}/{s3.prefix}".rstrip("/")
    return f"claim {name_claim(resource)}" if hdfs is None else f"hdfs://{hdfs.namenode}{hdfs.path}"
