"""What decisions about a source share: the observation, and how the status is built."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kappa_crds.cdcsource import BINLOG_SAFE, CDC_SOURCE, DATABASE_READY, SLOT_SAFE, SnapshotMode
from kappa_crds.cdcsource_proof import PROVEN, ProofResult
from kappa_crds.cdcsource_status import BinlogStatus, CDCSourceStatus, LogForecast, LogMark
from kappa_crds.conditions import Condition, ConditionStatus, find_condition, is_true, merge_conditions
from kappa_crds.kafkacluster import KafkaClusterSpec
from kappa_crds.reasons import Reason
from kappa_crds.resource import ResourceStatus
from kappa_operator.cdc.binlog import find_mark
from kappa_operator.cdc.connector.common import OWNER
from kappa_operator.cdc.guard import find_position
from kappa_operator.cdc.reconcile.mariadb.position import encode_position
from kappa_operator.cdc.work import DatabaseResult
from kappa_operator.cdcsource.objects import CDCSourceResource, describe_database, get_prefix
from kappa_operator.cdcsource.progress import is_incremental
from kappa_operator.connect.model import FAILED, RUNNING, ConnectorOffsets, ConnectorStatus
from kappa_operator.connect.names import KafkaClusterResource
from kappa_operator.engine import plan
from kappa_operator.engine.keys import Key
from kappa_operator.engine.network import Network
from kappa_operator.engine.plan import Failure, Plan, Verdict, update_status
from kappa_operator.engine.restricted import DEFAULT_PODS, PodOptions
from kappa_operator.engine.work_pods import WorkPod
from kappa_operator.errors import KappaError
from kappa_operator.kafka.model import TopicView

_NO_OFFSETS = ConnectorOffsets()


@dataclass(frozen=True, slots=True)
class ConnectorView:
    """A connector as Kafka Connect has it. `topics` are read only where they are to be deleted."""

    config: dict[str, str]
    status: ConnectorStatus
    offsets: ConnectorOffsets = _NO_OFFSETS
    topics: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """Return what the connector was requested to be, as far as it is known: it may take a moment."""
        return self.status.connector.state

    @property
    def offset(self) -> dict[str, Any] | None:
        """Return the position; None where it has none yet."""
        return next((each.offset for each in self.offsets.offsets if each.offset), None)

    @property
    def failures(self) -> tuple[str, ...]:
        """Return the stack traces of what failed."""
        states = [(self.status.connector.state, self.status.connector.trace)]
        states += [(task.state, task.trace) for task in self.status.tasks]
        return tuple(trace for state, trace in states if state == FAILED)

    @property
    def runs(self) -> bool:
        """Return whether the connector and a task run."""
        tasks = [task.state for task in self.status.tasks]
        return self.state == RUNNING and bool(tasks) and all(state == RUNNING for state in tasks)


@dataclass(frozen=True, slots=True)
class CDCSourceObserved:
    """All that a decision about a source needs.

    `cluster` is the KafkaCluster, and `is_cluster_gone` where there is none. `problem` is why it, a Secret or Kafka Connect cannot be
    used. `credentials` changes with the Secrets of the database, which the workers have where `are_credentials_kept`. `pod` is the one that works in the
    database, and `connector` None where there is none. The connector was read after the pod: its position only grows. `readers` is how a
    proof connects to Kafka, and `proof_problem` why it cannot. `schema_topic` has the history of the schemas of MySQL and MariaDB.
    `full_topics` are those of the connector, with the limit of their records, where one of them refused a record. `large_topic` is the one
    of a record that was too large, where it is known. `prefix_owner` is an older source with the same topics.
    """

    resource: CDCSourceResource
    cluster: KafkaClusterResource | None = None
    is_cluster_gone: bool = False
    problem: KappaError | None = None
    credentials: str = ""
    are_credentials_kept: bool = False
    pod: WorkPod[DatabaseResult] | None = None
    connector: ConnectorView | None = None
    proof_pod: WorkPod[ProofResult] | None = None
    readers: KafkaClusterSpec | None = None
    proof_problem: KappaError | None = None
    schema_topic: TopicView | None = None
    full_topics: tuple[TopicView, ...] = ()
    large_topic: str = ""
    prefix_owner: str = ""
    image: str = ""
    pull_policy: str = "IfNotPresent"
    network: Network | None = None
    pods: PodOptions = DEFAULT_PODS
    failures: tuple[Failure, ...] = ()

    @property
    def cluster_key(self) -> Key:
        """Return the key of the KafkaCluster, as it is or was."""
        metadata = self.resource.metadata
        name = self.cluster.metadata.name if self.cluster else self.resource.status.cluster
        return Key("KafkaCluster", metadata.namespace, name or "")

    @property
    def is_foreign(self) -> bool:
        """Return whether the connector belongs to another owner."""
        return self.connector is not None and self.connector.config.get(OWNER) != self.resource.metadata.uid

    @property
    def position(self) -> int | None:
        """Return the position of the connector in the log of the database, as a number that grows."""
        offset = self.connector.offset if self.connector else None
        if offset is None:
            return None
        mark = find_mark(offset)
        try:
            return find_position(offset) if mark is None else encode_position(mark.file, mark.position)
        except ValueError:  # the name of the file has no number
            return None


def find_log_position(observed: CDCSourceObserved) -> LogMark | None:
    """Return the position of the connector in the binary log of MySQL or MariaDB."""
    offset = observed.connector.offset if observed.connector else None
    return None if offset is None else find_mark(offset)


def is_database_ready(resource: CDCSourceResource) -> bool:
    """Return whether the last check found nothing that stops the connector."""
    return is_true(resource.status.conditions, DATABASE_READY)


def is_snapshotting(observed: CDCSourceObserved) -> bool:
    """Return whether the connector reads the rows that there are already: it has no position, or one within a snapshot."""
    if observed.connector is None or observed.resource.spec.snapshot.mode is SnapshotMode.NEVER:
        return False
    offset = observed.connector.offset
    if offset is None:
        return True
    is_within = bool(offset.get("snapshot")) and not offset.get("snapshot_completed")
    return is_within and not is_incremental(offset)


def report(
    observed: CDCSourceObserved,
    verdict: Verdict,
    now: datetime,
    requeue: float | None,
    *more: Condition,
    **fields: Any,
) -> Plan:
    """Return the plan that only reports the state of the source."""
    return Plan(status=build_status(observed, verdict, now, *more, **fields), requeue_after=requeue)


def build_status(
    observed: CDCSourceObserved, verdict: Verdict, now: datetime, *more: Condition, **fields: Any
) -> ResourceStatus:
    """Return the status for a verdict. What `fields` and the conditions in `more` leave out stays as it was."""
    resource = observed.resource
    before, new = resource.status.conditions, {each.type: each for each in more}
    log, binlog = (fields.get(name, getattr(resource.status, name)) for name in ("log", "binlog"))
    kinds = _list_conditions(resource, log, binlog)
    known = (new.get(kind) or find_condition(before, kind) for kind in kinds)
    kept = merge_conditions(before, [each for each in known if each is not None])
    place = {
        "database": describe_database(resource),
        "connector": resource.metadata.name,
        "topic_prefix": get_prefix(resource),
        "cluster": observed.cluster.metadata.name if observed.cluster else resource.status.cluster,
    }
    updated = update_status(resource, verdict, now, **{**place, **fields})
    return updated.replace(conditions=(*updated.conditions, *kept))


def keep_condition(status: CDCSourceStatus, condition: Condition) -> CDCSourceStatus:
    """Return a status with one condition added or replaced, and the others as they were."""
    (merged,) = merge_conditions(status.conditions, [condition])
    others = [each for each in status.conditions if each.type != condition.type]
    return status.replace(conditions=(*others, merged))


def _list_conditions(
    resource: CDCSourceResource, log: LogForecast | None, binlog: BinlogStatus | None
) -> tuple[str, ...]:
    """Return the conditions that a source has besides those of every kind: nothing is claimed without proofs, or without a log."""
    has = {PROVEN: resource.spec.proof, SLOT_SAFE: log, BINLOG_SAFE: binlog and binlog.stored_until}
    return tuple(each for each in CDC_SOURCE.conditions if has.get(each, True))


def build_condition(
    observed: CDCSourceObserved, kind: str, status: ConditionStatus, explained: tuple[Reason, str], now: datetime
) -> Condition:  # fmt: skip
    """Return a condition that a source has besides those of every kind."""
    generation = observed.resource.metadata.generation
    return plan.build_condition(kind, status, *explained, generation=generation, now=now)
