"""What Kafka Connect and Debezium tell of change data capture: the metrics that dashboards and alerts name, and the rules by which they are told.

A worker has them as JMX beans. Prometheus' JMX exporter, as an agent in the worker, makes metrics of them by rules, which are written from the lists
here; so they can name nothing else. Beans: Debezium's documentation of its connectors, "Monitoring", and Kafka's, "Connect Monitoring".
"""

from collections.abc import Iterable, Mapping

import yaml

_DEBEZIUM: Mapping[str, str] = {
    "Connected": "Whether the connector has its connection to the database.",
    "MilliSecondsBehindSource": "Milliseconds from the time of the last event in the database to when it was read; -1 before the first.",
    "MilliSecondsSinceLastEvent": "Milliseconds since the last event was read; -1 before the first.",
    "TotalNumberOfEventsSeen": "Events read since the task began, those of the snapshot or of the log.",
    "TotalNumberOfCreateEventsSeen": "Inserted rows among them.",
    "TotalNumberOfUpdateEventsSeen": "Updated rows among them.",
    "TotalNumberOfDeleteEventsSeen": "Deleted rows among them.",
    "NumberOfErroneousEvents": "Events that could not be read.",
    "NumberOfEventsFiltered": "Events that the connector's filters left out.",
    "NumberOfCommittedTransactions": "Transactions read since the task began.",
    "QueueTotalCapacity": "Events for which there is room between the database's reader and Kafka Connect.",
    "QueueRemainingCapacity": "Events for which there is room left.",
    "SnapshotRunning": "Whether a snapshot is under way.",
    "SnapshotCompleted": "Whether the snapshot is complete.",
    "SnapshotAborted": "Whether the snapshot was aborted.",
    "SnapshotDurationInSeconds": "Seconds that the snapshot has taken so far, or took.",
    "TotalTableCount": "Tables in the snapshot.",
    "RemainingTableCount": "Tables that the snapshot has still to read.",
}
_SOURCE_TASK: Mapping[str, str] = {
    "source-record-poll-rate": "Records a second that the connector gave to Kafka Connect.",
    "source-record-write-rate": "Records a second that were written to Kafka.",
    "source-record-active-count": "Records that the connector gave and Kafka has not taken yet.",
    "poll-batch-avg-time-ms": "Milliseconds that the connector took on average to give a batch.",
}
_TASK_ERROR: Mapping[str, str] = {
    "total-record-failures": "Records that failed for good.",
    "total-retries": "Operations that were tried again.",
    "total-errors-logged": "Errors that were logged.",
}
_STATUS = "kafka_connect_connector_task_status"
Described = tuple[str, str, tuple[str, ...]]
"""Name, meaning and labels of a metric."""


def list_connect() -> tuple[Described, ...]:
    """Return the metrics, all of them gauges."""
    ours = ("connector", "task")
    return (
        *(
            (f"debezium_metrics_{name}", said, ("plugin", "name", "context"))
            for name, said in _DEBEZIUM.items()
        ),
        (
            _STATUS,
            "1 with the state that a task is in: running, paused, failed, unassigned.",
            (*ours, "status"),
        ),
        *((_name("source-task", name), said, ours) for name, said in _SOURCE_TASK.items()),
        *((_name("task-error", name), said, ours) for name, said in _TASK_ERROR.items()),
    )


def build_exporter_rules() -> str:
    """Return the configuration of the JMX exporter, as YAML."""
    task = r"connector=([^,>]+), task=(\d+)"
    source = r"debezium\.([a-z_]+)<type=connector-metrics, context=(snapshot|streaming), server=([^,>]+)(?:, task=[^,>]+)?>"
    labels = {"connector": "$1", "task": "$2"}
    rules = [
        _build_rule(
            f"{source}<>({_either(_DEBEZIUM)}):",
            "debezium_metrics_$4",
            {"plugin": "$1", "context": "$2", "name": "$3"},
        ),
        _build_rule(
            rf"kafka\.connect<type=connector-task-metrics, {task}><>status: (.+)",
            _STATUS,
            {**labels, "status": "$3"},
            value=1,
        ),
        *(
            _build_rule(
                rf"kafka\.connect<type={kind}-metrics, {task}><>({_either(names)}):",
                _name(kind, "$3"),
                dict(labels),
            )
            for kind, names in (("source-task", _SOURCE_TASK), ("task-error", _TASK_ERROR))
        ),
    ]
    kinds = ("connector-task", "source-task", "task-error")
    body = {
        "includeObjectNames": [
            "debezium.*:type=connector-metrics,*",
            *(f"kafka.connect:type={kind}-metrics,*" for kind in kinds),
        ],
        "rules": rules,
    }
    return _HEAD + yaml.safe_dump(body, sort_keys=False, width=1000)


_HEAD = """\
# Written by `make generate`; do not edit. What the dashboard Kappa / CDC and the alerts about CDC need to know of a Kafka Connect worker with
# Debezium: give this file to Prometheus' JMX exporter in the worker, -javaagent:jmx_prometheus_javaagent.jar=9404:connect-jmx.yaml
"""


def _build_rule(pattern: str, name: str, labels: dict[str, str], **more: object) -> dict[str, object]:
    return {"pattern": pattern, "name": name, "type": "GAUGE", **more, "labels": labels}


def _name(kind: str, name: str) -> str:
    return f"kafka_connect_{kind}_{name}".replace("-", "_")


def _either(names: Iterable[str]) -> str:
    return "|".join(names)
