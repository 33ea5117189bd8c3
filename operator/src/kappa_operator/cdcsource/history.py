"""The topic with the history of the schemas of MySQL and MariaDB: created, checked, and never created again while changes depend on it.

The binary log has rows without names of columns. A connector that starts at a position needs the schemas as they were there, and reads all
of the topic for it. So nothing may be removed from the topic.
"""

from datetime import datetime

from kappa_crds.cdcsource_status import SchemaTopic
from kappa_crds.databases import MySql
from kappa_crds.reasons import Reason
from kappa_operator import intervals
from kappa_operator.cdcsource.model import CDCSourceObserved, report
from kappa_operator.cdcsource.objects import CDCSourceResource
from kappa_operator.connect.names import name_history
from kappa_operator.engine.actions import CreateTopic, RecordStatus
from kappa_operator.engine.plan import Plan, judge_error, stalled
from kappa_operator.kafka.model import TopicView

CONFIGS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_MOST_REPLICAS = 3


def has_history(resource: CDCSourceResource) -> bool:
    """Return whether the connector keeps a history of schemas."""
    return isinstance(resource.spec.database, MySql)


def keep_history(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Create the topic before the connector, and report one that would lose records; None where the other steps decide."""
    resource, cluster = observed.resource, observed.cluster
    if not has_history(resource) or cluster is None or resource.status.lost is not None:
        return None
    known, found = resource.status.schema_topic, observed.schema_topic
    topic = name_history(cluster, resource.metadata.name)
    if known is not None and (found is None or found.topic_id != known.topic_id):
        lost = (
            f"topic {topic} with the history of the schemas was deleted, so the binary log cannot be decoded"
        )
        return Plan((RecordStatus(resource.status.replace(lost=lost)),), requeue=True)
    if found is None:
        return _create(observed, topic, now)
    problem = find_unsuitable(found)
    if problem is not None:
        verdict = stalled("Failed", Reason.CONNECT_TOPIC_UNSUITABLE, problem)
        return report(observed, verdict, now, intervals.BLOCKED)
    if known is None:
        record = SchemaTopic(name=topic, topic_id=found.topic_id)
        return Plan((RecordStatus(resource.status.replace(schema_topic=record)),), requeue=True)
    return None


def _create(observed: CDCSourceObserved, topic: str, now: datetime) -> Plan:
    if observed.failures:
        verdict = judge_error("Failed", observed.failures[-1].error)
        return report(observed, verdict, now, intervals.WAITING)
    brokers = observed.cluster.status.brokers if observed.cluster else None
    replicas = observed.resource.spec.topics.replication or max(1, min(_MOST_REPLICAS, brokers or 1))
    create = CreateTopic(observed.cluster_key, topic, 1, replicas, dict(CONFIGS))
    return Plan((create,), requeue_after=intervals.WORKING)


def find_unsuitable(topic: TopicView) -> str | None:
    """Return what would make the topic lose records or their order, and what to do; None where nothing would."""
    if topic.partitions != 1:
        return (
            f"topic {topic.name} has {topic.partitions} partitions and must have 1, because its records are read in order;"
            " delete it, then change spec.snapshot.request"
        )
    wrong = {
        name: topic.configs.get(name) for name, value in CONFIGS.items() if topic.configs.get(name) != value
    }
    if not wrong:
        return None
    found = ", ".join(f"{name}={value}" for name, value in wrong.items())
    wanted = ", ".join(f"{name}={CONFIGS[name]}" for name in wrong)
    return (
        f"topic {topic.name} with the history of the schemas has {found} and would lose records; set {wanted}"
    )
