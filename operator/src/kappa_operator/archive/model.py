"""What decisions about the archive of a Topic need, when it is due, and how long the log has to keep what is not archived."""

from dataclasses import dataclass
from datetime import datetime
from math import ceil, ldexp, log2

from kappa_crds.archive import Archive, ArchiveStatus
from kappa_crds.archive_work import ArchiveResult
from kappa_crds.kafkacluster import KafkaClusterSpec
from kappa_crds.quantities import parse_duration
from kappa_crds.savepoint_work import WorkState
from kappa_operator import backoff, intervals
from kappa_operator.engine.network import Network
from kappa_operator.engine.restricted import DEFAULT_PODS, PodOptions
from kappa_operator.engine.work_pods import WorkPod
from kappa_operator.errors import KappaError
from kappa_operator.statestore.storage import Storage

CLOSE = 0.5
"""Part of the retention after which records that are not archived are at risk."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run archives to, in which StateStore, and how it reaches Kafka. `node` has the claim of the store mounted already."""

    store: str
    storage: Storage
    kafka: KafkaClusterSpec
    advertised: tuple[str, ...] = ()
    node: str | None = None


@dataclass(frozen=True, slots=True)
class ArchiveObserved:
    """The archive of a topic. `place` is None where a `problem` keeps it from being used.

    `retention` is the time in seconds that the topic's spec declares, None where it declares none.
    """

    pod: WorkPod[ArchiveResult] | None = None
    place: Place | None = None
    problem: KappaError | None = None
    retention: float | None = None
    image: str = ""
    pull_policy: str = "IfNotPresent"
    network: Network | None = None
    pods: PodOptions = DEFAULT_PODS


def is_current(status: ArchiveStatus, topic_id: str | None, store: str | None) -> bool:
    """Return whether an archive is of this topic and in this store. What is unknown now is given the benefit of the doubt."""
    return topic_id in (None, status.topic_id) and store in (None, status.store)


def measure_wait(
    spec: Archive, status: ArchiveStatus | None, now: datetime, key: str, *, current: bool = True
) -> float:
    """Return the seconds until the next run, 0 for now. One that left something behind is soon followed by the next."""
    if status is None or not current:
        return 0.0
    if status.state is not WorkState.DONE:
        return intervals.WORKING
    every = parse_duration(spec.interval)
    if status.failures:
        every = min(every, backoff.ARCHIVE.pause(status.failures, key))
    elif status.complete != status.at:
        every = min(every, intervals.WAITING)
    return intervals.wait_after(status.at, every, now)


def is_at_risk(status: ArchiveStatus | None, retention: float | None, now: datetime) -> bool:
    """Return whether records are not archived for half of the retention or longer."""
    if status is None or retention is None:
        return False
    return (now - status.safe_until).total_seconds() > CLOSE * retention


def find_needed(status: ArchiveStatus | None, retention: float, now: datetime) -> float:
    """Return the retention in seconds that keeps what is not archived: the declared one, or that doubled as often as needed.

    Doubling changes the topic rarely. The first run has a topic with its oldest records to copy, so it begins with twice the time.
    """
    if status is None:
        return retention
    age = (now - status.safe_until).total_seconds()
    doublings = max(0, ceil(log2(max(age, 1.0) / (CLOSE * retention))))
    return ldexp(retention, max(doublings, int(status.complete is None)))
