"""The topic of a record that was too large: only the log of the worker has it.

The status of a failed task has the error of its producer, with sizes and without a topic. The worker logs the topic before it. The log may
have text of the database as well, so nothing is taken from it but the name of a topic below the prefix of the source.
"""

import re

from kappa_operator.cdc.connector.failures import is_too_large
from kappa_operator.cdcsource.model import CDCSourceObserved
from kappa_operator.cdcsource.objects import select_topics
from kappa_operator.connect.names import REST_PORT, KafkaClusterResource, name_pod_service, name_workers
from kappa_operator.engine.keys import ObjectRef

SECONDS, MOST_BYTES = 60, 2**21
"""How far back the log is read, and how much of it. A failure is noticed within seconds."""


def find_worker(observed: CDCSourceObserved, cluster: KafkaClusterResource) -> ObjectRef | None:
    """Return the pod of the task that failed because of a large record, once for each failure; None for another failure or worker."""
    if observed.connector is None or observed.resource.status.restarts.next_attempt is not None:
        return None
    failed = [each for each in observed.connector.status.tasks if is_too_large(each.trace)]
    namespace = cluster.metadata.namespace
    host = rf"({re.escape(name_workers(cluster))}-\d{{1,4}})\.{re.escape(name_pod_service(cluster))}\.{re.escape(namespace)}\.svc:{REST_PORT}"
    found = next((match for each in failed if (match := re.fullmatch(host, each.worker_id))), None)
    return ObjectRef("v1", "Pod", namespace, found[1]) if found else None


def find_topic(observed: CDCSourceObserved, log: str) -> str:
    """Return the topic of the record of the source that was too large; empty where the log has none.

    It is the first one since the task has started: afterwards all records of the transaction fail with the same error, of any topic.
    """
    task = rf"\{{id={re.escape(observed.resource.metadata.name)}-\d+\}}"
    last_life = re.split(rf"{task} Source task finished initialization and start", log)[-1]
    line = rf"{task} failed to send record to ([\w.-]{{1,249}}):[^\n]*\n[^\n]{{0,80}}RecordTooLargeException"
    found = re.search(line, last_life, re.ASCII)
    return next(iter(select_topics(observed.resource, [found[1]])), "") if found else ""
