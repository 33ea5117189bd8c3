"""Change data capture by Debezium in Kafka Connect: health, lag behind the database, and snapshot."""

from kappa_monitoring.boards.model import Board, Panel, Query, Row, Variable


def _read(metric: str, context: str = "streaming", how: str = "max") -> str:
    """Return a Debezium metric for each source."""
    return f'{how} by (name) (debezium_metrics_{metric}{{name=~"$source", context="{context}"}})'


def _rate(metric: str) -> str:
    return (
        f'sum by (name) (rate(debezium_metrics_{metric}{{name=~"$source", context="streaming"}}[<<rate>>]))'
    )


def _task(metric: str, how: str = "sum") -> str:
    """Return a Kafka Connect metric for each connector."""
    return f'{how} by (connector) (kafka_connect_{metric}{{connector=~"$connector"}})'


def _task_rate(metric: str) -> str:
    return (
        f'sum by (connector) (rate(kafka_connect_task_error_{metric}{{connector=~"$connector"}}[<<rate>>]))'
    )


CDC = Board(
    uid="kappa-cdc",
    title="Kappa / CDC",
    description="Change data capture: Debezium connectors in Kafka Connect, exported by the JMX exporter of Prometheus with monitoring/connect-jmx.yaml.",
    variables=(
        Variable("connector", "kafka_connect_connector_task_status", "connector", many=True),
        Variable("source", "debezium_metrics_Connected", "name", many=True),
    ),
    rows=(
        Row(
            "Connector health",
            (
                Panel("Tasks", "The state of each task of a connector.", (Query('max by (connector, task, status) (kafka_connect_connector_task_status{connector=~"$connector"})', "{{connector}} {{task}}: {{status}}"),), kind="value"),
                Panel("Connected", "1 while there is a connection to the database.", (Query(_read("Connected"), "{{name}}"),), kind="value"),
                Panel("Lag behind the database", "Time from the last event in the database until the connector read it. It keeps its value while no events arrive.", (Query(_read("MilliSecondsBehindSource"), "{{name}}"),), unit="ms", limit="cdc.behind.milliseconds"),
                Panel("Time since the last event", "It grows while the tables do not change. A heartbeat keeps it small.", (Query(_read("MilliSecondsSinceLastEvent", how="min"), "{{name}}"),), unit="ms"),
            ),
        ),
        Row(
            "Change rate",
            (
                Panel("Changes", "Rows inserted, updated and deleted per second.", (Query(_rate("TotalNumberOfCreateEventsSeen"), "{{name}} inserted"), Query(_rate("TotalNumberOfUpdateEventsSeen"), "{{name}} updated"), Query(_rate("TotalNumberOfDeleteEventsSeen"), "{{name}} deleted")), unit="cps"),
                Panel("Transactions", "Transactions read per second.", (Query(_rate("NumberOfCommittedTransactions"), "{{name}}"),), unit="cps"),
                Panel("Records", "Records per second that connectors returned, and that were written to Kafka.", (Query(_task("source_task_source_record_poll_rate"), "{{connector}} returned"), Query(_task("source_task_source_record_write_rate"), "{{connector}} written")), unit="cps"),
                Panel("Filtered or unreadable", "Events per second that filters removed, or that could not be read.", (Query(_rate("NumberOfEventsFiltered"), "{{name}} filtered"), Query(_rate("NumberOfErroneousEvents"), "{{name}} unreadable")), unit="cps"),
            ),
        ),
        Row(
            "Queueing",
            (
                Panel("Queue", "Fill level of the queue before Kafka Connect. If it stays full, Kafka is slow, not the database.", (Query(f"1 - {_read('QueueRemainingCapacity', how='min')} / {_read('QueueTotalCapacity')}", "{{name}}"),), unit="percentunit"),
                Panel("Send latency", "Records that a connector returned and Kafka has not acknowledged yet.", (Query(_task("source_task_source_record_active_count"), "{{connector}}"),)),
                Panel("Batch duration", "How long a connector takes to return a batch.", (Query(_task("source_task_poll_batch_avg_time_ms", "max"), "{{connector}}"),), unit="ms"),
                Panel("Errors", "Errors per second: failed records, retries, and logged errors.", (Query(_task_rate("total_record_failures"), "{{connector}} failed"), Query(_task_rate("total_retries"), "{{connector}} retried"), Query(_task_rate("total_errors_logged"), "{{connector}} logged")), unit="cps"),
            ),
        ),
        Row(
            "Snapshot",
            (
                Panel("State", "1 for the current state of the snapshot.", (Query(_read("SnapshotRunning", "snapshot"), "{{name}} running"), Query(_read("SnapshotCompleted", "snapshot"), "{{name}} complete"), Query(_read("SnapshotAborted", "snapshot"), "{{name}} aborted")), kind="value"),
                Panel("Tables", "Tables in the snapshot, and remaining tables.", (Query(_read("TotalTableCount", "snapshot"), "{{name}} total"), Query(_read("RemainingTableCount", "snapshot"), "{{name}} remaining")), kind="value"),
                Panel("Duration", "Duration of the snapshot.", (Query(_read("SnapshotDurationInSeconds", "snapshot"), "{{name}}"),), unit="s", kind="value"),
                Panel("Rows", "Rows read by the snapshot.", (Query(_read("TotalNumberOfEventsSeen", "snapshot"), "{{name}}"),)),
            ),
        ),
    ),
)  # fmt: skip
