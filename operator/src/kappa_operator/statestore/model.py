"""What decisions about a state store share: the observation, when a check is due, and how the status is built."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kappa_crds.conditions import Condition, ConditionType, find_condition, is_true
from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.resource import ResourceStatus
from kappa_crds.statestore import StateStoreStatus
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.plan import Failure, Plan, Verdict, build_conditions
from kappa_operator.errors import KappaError
from kappa_operator.savepoint.model import WorkerPod
from kappa_operator.savepoint.worker import Placement
from kappa_operator.statestore.objects import StateStoreResource, build_storage, name_claim

FAILED_POLL = 30.0


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
    """The pod of the current check; `result` is there when it has ended, `waits` says what keeps it from starting."""

    ref: ObjectRef
    uid: str
    created: datetime
    result: ProbeResult | None = None
    waits: str | None = None


@dataclass(frozen=True, slots=True)
class StateStoreObserved:
    """All that a decision about a state store needs.

    `checked` says that a store that is mounted nowhere was checked just now, with `problem` for what went wrong. `claim`, `probe` and
    `node` (where the claim is mounted already) concern a store on a claim. `users` are the pipelines that use it,
    and `savepoints` those on its claim, where it is to be deleted.
    """

    resource: StateStoreResource
    users: tuple[str, ...] = ()
    savepoints: tuple[str, ...] = ()
    checked: bool = False
    problem: KappaError | None = None
    claim: Claim | None = None
    probe: Probe | None = None
    node: str | None = None
    image: str = ""
    pull_policy: str = "IfNotPresent"
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True)
class CollectedStore:
    """A state store, the pod that collects or measures, the folder of each pipeline's checkpoint by uid, and what pods are made with."""

    store: StateStoreObserved
    pod: WorkerPod | None = None
    current: dict[str, str] | None = None
    node: str | None = None
    image: str = ""
    refused: str = ""

    @property
    def resource(self) -> StateStoreResource:
        """Return the store."""
        return self.store.resource


def build_placement(observed: CollectedStore) -> Placement:
    """Return what the pods that look through the store are made with."""
    storage = build_storage(observed.resource)
    return Placement(
        storage, node=observed.node, image=observed.image, pull_policy=observed.store.pull_policy
    )


def get_ready(resource: StateStoreResource) -> Condition | None:
    """Return the Ready condition as it is now."""
    return find_condition(resource.status.conditions, ConditionType.READY)


def is_ready(status: ResourceStatus) -> bool:
    """Return whether a status says that the store was found to work."""
    return is_true(status.conditions, ConditionType.READY)


def is_unseen(resource: StateStoreResource) -> bool:
    """Return whether the spec was changed since the status was written."""
    return resource.status.observed_generation != resource.metadata.generation


def choose_interval(resource: StateStoreResource) -> float:
    """Return the seconds from check to check; a store that is not ready is checked more often."""
    every = parse_duration(resource.spec.check_every)
    return every if is_ready(resource.status) else min(every, FAILED_POLL)


def get_wait(resource: StateStoreResource, now: datetime) -> float:
    """Return the seconds until the next check is due, 0 for now."""
    last = resource.status.last_check
    if last is None:
        return 0.0
    return max(0.0, (last + timedelta(seconds=choose_interval(resource)) - now).total_seconds())


def report(
    observed: StateStoreObserved, verdict: Verdict, now: datetime, requeue: float, **fields: Any
) -> Plan:
    """Return the plan that just says how the store is."""
    return Plan(status=build_status(observed, verdict, now, **fields), requeue_after=requeue)


def build_status(
    observed: StateStoreObserved, verdict: Verdict, now: datetime, **fields: Any
) -> StateStoreStatus:
    """Return the status for a verdict; what `fields` leaves out stays as it was."""
    resource = observed.resource
    metadata, spec, status = resource.metadata, resource.spec, resource.status
    return status.replace(
        observed_generation=metadata.generation,
        conditions=build_conditions(verdict, status.conditions, metadata.generation, now),
        state=verdict.state,
        location=_say_location(resource),
        claim_name=name_claim(resource) if spec.pvc else None,
        **fields,
    )


def _say_location(resource: StateStoreResource) -> str:
    s3, hdfs = resource.spec.s3, resource.spec.hdfs
    if s3 is not None:
        return f"s3://{s3.bucket}/{s3.prefix}".rstrip("/")
    return f"claim {name_claim(resource)}" if hdfs is None else f"hdfs://{hdfs.namenode}{hdfs.path}"
