"""What decisions about a state store share: the observation, when a check is due, and how the status is built."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kappa_crds.conditions import Condition, ConditionType, find_condition, is_true
from kappa_crds.quantities import parse_duration
from kappa_crds.resource import ResourceStatus
from kappa_operator import backoff, intervals
from kappa_operator.engine.network import Network
from kappa_operator.engine.plan import Failure, Plan, Verdict, update_status
from kappa_operator.engine.restricted import DEFAULT_PODS, PodOptions
from kappa_operator.errors import KappaError
from kappa_operator.savepoint.model import WorkerPod
from kappa_operator.statestore.objects import StateStoreResource, name_claim
from kappa_operator.statestore.storage import Storage


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim. `size` is what it requests, in bytes. The store is its `own` one where it was created for it."""

    uid: str
    phase: str
    size: int
    deleting: bool = False
    own: bool = True


@dataclass(frozen=True, slots=True)
class StateStoreObserved:
    """All that a decision about a state store needs.

    `claim` and `node` (where the PVC is mounted already) concern a store on a PVC. `users` are the pipelines that use it; `savepoints`
    and `archives`, by their Topics, are those on its PVC, where it is to be deleted. `checker` is the pod of the check under way, `worker` the one that collects or measures.
    `fingerprint` changes with the settings and the credentials of the store, and `problem` is what is wrong with its Secret. `current` has the
    folder of each pipeline's checkpoint by uid, None where one cannot be read.
    """

    resource: StateStoreResource
    users: tuple[str, ...] = ()
    savepoints: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    claim: Claim | None = None
    checker: WorkerPod | None = None
    worker: WorkerPod | None = None
    node: str | None = None
    image: str = ""
    pull_policy: str = "IfNotPresent"
    network: Network | None = None
    pods: PodOptions = DEFAULT_PODS
    fingerprint: str = ""
    problem: KappaError | None = None
    current: Mapping[str, str] | None = None
    failures: tuple[Failure, ...] = ()


def compute_fingerprint(storage: Storage, secret_version: str) -> str:
    """Return the fingerprint of what a check depends on. It has no secret."""
    connection = storage.bucket or storage.hdfs
    settings = None if connection is None else connection.to_manifest()
    known = (storage.root, storage.claim, settings, storage.secret, secret_version)
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:10]


def get_ready(resource: StateStoreResource) -> Condition | None:
    """Return the Ready condition as it is now."""
    return find_condition(resource.status.conditions, ConditionType.READY)


def is_ready(status: ResourceStatus) -> bool:
    """Return whether the last check found that the store works."""
    return is_true(status.conditions, ConditionType.READY)


def is_unseen(resource: StateStoreResource) -> bool:
    """Return whether the spec was changed since the status was written."""
    return resource.status.observed_generation != resource.metadata.generation


def get_wait(resource: StateStoreResource, fingerprint: str, now: datetime) -> float:
    """Return the seconds until the next check is due, 0 for now.

    It is due at once where the settings changed, or the last one was lost. An earlier version recorded neither.
    """
    status = resource.status
    if status.check_fingerprint not in (None, fingerprint) or status.checked not in (None, status.check):
        return 0.0
    return intervals.wait_after(status.last_check, _choose_interval(resource), now)


def _choose_interval(resource: StateStoreResource) -> float:
    """Return the seconds from check to check; a store that failed is checked more often, the less the longer it fails."""
    every, condition = parse_duration(resource.spec.check_interval), get_ready(resource)
    last = resource.status.last_check
    if condition is None or condition.status == "True" or last is None:
        return every
    failing = (last - condition.last_transition_time).total_seconds()
    return min(every, backoff.STORE.pause_since(failing, resource.metadata.uid))


def report(
    observed: StateStoreObserved, verdict: Verdict, now: datetime, requeue: float, **fields: Any
) -> Plan:
    """Return the plan that only reports the store's state; what `fields` leaves out stays as it was."""
    resource = observed.resource
    claim = name_claim(resource) if resource.spec.pvc else None
    place = {"location": describe_location(resource), "claim_name": claim}
    return Plan(status=update_status(resource, verdict, now, **place, **fields), requeue_after=requeue)


def describe_location(resource: StateStoreResource) -> str:
    """Return where the store is, for people."""
    s3, hdfs = resource.spec.s3, resource.spec.hdfs
    if s3 is not None:
        return f"s3://{s3.bucket}/{s3.prefix}".rstrip("/")
    return f"PVC {name_claim(resource)}" if hdfs is None else f"hdfs://{hdfs.namenode}{hdfs.path}"
