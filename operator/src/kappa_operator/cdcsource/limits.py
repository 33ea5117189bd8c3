"""The limit of the topics for large records: raised where a topic refused a record that `spec.maxRecordSize` allows.

Kafka Connect creates topics with that limit, and changes none that exist. Only topics that the connector has written to are altered, and
no limit is lowered.
"""

from collections.abc import Iterable
from datetime import datetime

from kappa_crds.quantities import format_size, parse_size
from kappa_crds.reasons import Reason
from kappa_operator import intervals
from kappa_operator.cdc.connector.common import MAX_MESSAGE_BYTES
from kappa_operator.cdc.connector.failures import LargeRecord, is_refused_by_topic
from kappa_operator.cdcsource.model import CDCSourceObserved, report
from kappa_operator.cdcsource.objects import CDCSourceResource, select_topics
from kappa_operator.connect.names import KafkaClusterResource
from kappa_operator.engine import actions as act
from kappa_operator.engine.plan import Plan, judge_error

_COPIES = 10
"""The memory of a worker, of which the heap is 60 %, in records: six of 85 MB passed a heap of 614 MB, and six of 60 MB one of 384 MB."""


def check_memory(resource: CDCSourceResource, cluster: KafkaClusterResource) -> None:
    """Raise ValueError where a record may end a worker of the operator for lack of memory, and with it the tasks of other sources."""
    connect = cluster.spec.connect
    if connect is None or connect.workers is None or resource.spec.max_record_size is None:
        return
    memory = parse_size(connect.workers.resources.memory)
    needed = _COPIES * parse_size(resource.spec.max_record_size)
    if memory < needed:
        raise ValueError(
            f"spec.maxRecordSize {resource.spec.max_record_size} needs workers with {format_size(needed)} of memory, and spec.connect.workers"
            f" of KafkaCluster {cluster.metadata.name} has {format_size(memory)}; raise resources.memory there, or lower maxRecordSize"
        )


def needs_limits(observed: CDCSourceObserved) -> bool:
    """Return whether limits of topics have to be read: of all where they may be raised, else of the one that refused a record."""
    failures = observed.connector.failures if observed.connector else ()
    is_wanted = observed.resource.spec.max_record_size is not None or bool(observed.large_topic)
    return is_wanted and any(map(is_refused_by_topic, failures))


def choose_limits(observed: CDCSourceObserved, written: Iterable[str]) -> list[str]:
    """Return those topics, of the ones that the connector has written to. A topic without a record is not among these."""
    known = {*written, observed.large_topic} if observed.large_topic else set(written)
    is_all = observed.resource.spec.max_record_size is not None
    return sorted(select_topics(observed.resource, known if is_all else [observed.large_topic]))


def describe_large(observed: CDCSourceObserved) -> LargeRecord:
    """Return what is known of the record that was too large."""
    topic = observed.large_topic
    limits = (each.configs[MAX_MESSAGE_BYTES] for each in observed.full_topics if each.name == topic)
    return LargeRecord(topic, next(limits, ""))


def raise_limits(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Raise the limit of each topic that is lower, then restart what failed."""
    wanted = parse_size(observed.resource.spec.max_record_size or "0")
    lower = [each.name for each in observed.full_topics if int(each.configs[MAX_MESSAGE_BYTES]) < wanted]
    if not lower:
        return None
    if observed.failures:
        return report(observed, judge_error("Failed", observed.failures[-1].error), now, intervals.BLOCKED)
    cluster, name = observed.cluster_key, observed.resource.metadata.name
    alter = (act.AlterConfigs(cluster, each, {MAX_MESSAGE_BYTES: str(wanted)}) for each in lower)
    message = (
        f"failed tasks were restarted: {MAX_MESSAGE_BYTES} of {len(lower)} topics was raised to {wanted}"
    )
    event = act.EmitEvent(Reason.CONNECTOR_RESTARTED, message)
    return Plan((*alter, act.RestartConnector(cluster, name), event), requeue_after=intervals.WORKING)
