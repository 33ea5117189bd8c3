"""Change data capture by Debezium in Kafka Connect: whether it goes on, how far it is behind the database, and its snapshot."""

from kappa_monitoring.boards.model import Board, Panel, Query, Row, Variable


def _read(metric: str, context: str = "streaming", how: str = "max") -> str:
    """Return a metric of Debezium's, of each source."""
    return f'{how} by (name) (debezium_metrics_{metric}{{name=~"$source", context="{context}"}})'


def _rate(metric: str) -> str:
    return (
        f'sum by (name) (rate(debezium_metrics_{metric}{{name=~"$source", context="streaming"}}[<<rate>>]))'
    )


def _task(metric: str, how: str = "sum") -> str:
    """Return a metric of Kafka Connect's, of each connector."""
    return f'{how} by (connector) (kafka_connect_{metric}{{connector=~"$connector"}})'


def _task_rate(metric: str) -> str:
    return (
        f'sum by (connector) (rate(kafka_connect_task_error_{metric}{{connector=~"$connector"}}[<<rate>>]))'
    )


CDC = Board(
    uid="kappa-cdc",
    title="Kappa / CDC",
    description="Change data capture: Debezium's connectors in Kafka Connect, told by Prometheus' JMX exporter with monitoring/connect-jmx.yaml.",
    variables=(
        Variable("connector", "kafka_connect_connector_task_status", "connector", many=True),
        Variable("source", "debezium_metrics_Connected", "name", many=True),
    ),
    rows=(
        Row(
            "Does it go on?",
            (
                Panel("Tasks", "The state of each task of a connector.", (Query('max by (connector, task, status) (kafka_connect_connector_task_status{connector=~"$connector"})', "{{connector}} {{task}}: {{status}}"),), kind="value"),
                Panel("Connected", "1 while there is a connection to the database.", (Query(_read("Connected"), "{{name}}"),), kind="value"),
                Panel("Behind the database", "From the time of the last event in the database to when it was read. It stays as it was while nothing comes.", (Query(_read("MilliSecondsBehindSource"), "{{name}}"),), unit="ms", limit="cdc.behind.milliseconds"),
                Panel("Since the last event", "It grows where nothing changes in the tables; a heartbeat keeps it small.", (Query(_read("MilliSecondsSinceLastEvent", how="min"), "{{name}}"),), unit="ms"),
            ),
        ),
        Row(
            "What comes",
            (
                Panel("Changes", "Rows inserted, updated and deleted a second.", (Query(_rate("TotalNumberOfCreateEventsSeen"), "{{name}} inserted"), Query(_rate("TotalNumberOfUpdateEventsSeen"), "{{name}} updated"), Query(_rate("TotalNumberOfDeleteEventsSeen"), "{{name}} deleted")), unit="cps"),
                Panel("Transactions", "Transactions read a second.", (Query(_rate("NumberOfCommittedTransactions"), "{{name}}"),), unit="cps"),
                Panel("Records", "Records a second that connectors gave, and that were written to Kafka.", (Query(_task("source_task_source_record_poll_rate"), "{{connector}} given"), Query(_task("source_task_source_record_write_rate"), "{{connector}} written")), unit="cps"),
                Panel("Left out", "Events a second that filters left out, or that could not be read.", (Query(_rate("NumberOfEventsFiltered"), "{{name}} filtered"), Query(_rate("NumberOfErroneousEvents"), "{{name}} unreadable")), unit="cps"),
            ),
        ),
        Row(
            "Where it waits",
            (
                Panel("Queue", "How full the queue before Kafka Connect is. One that stays full says that Kafka, and not the database, is slow.", (Query(f"1 - {_read('QueueRemainingCapacity', how='min')} / {_read('QueueTotalCapacity')}", "{{name}}"),), unit="percentunit"),
                Panel("On the way to Kafka", "Records that a connector gave and Kafka has not taken yet.", (Query(_task("source_task_source_record_active_count"), "{{connector}}"),)),
                Panel("Time of a batch", "How long a connector takes to give a batch.", (Query(_task("source_task_poll_batch_avg_time_ms", "max"), "{{connector}}"),), unit="ms"),
                Panel("Errors", "Errors a second: records that failed, what was tried again, and what was logged.", (Query(_task_rate("total_record_failures"), "{{connector}} failed"), Query(_task_rate("total_retries"), "{{connector}} tried again"), Query(_task_rate("total_errors_logged"), "{{connector}} logged")), unit="cps"),
            ),
        ),
        Row(
            "Snapshot",
            (
                Panel("State", "1 with the state that the snapshot is in.", (Query(_read("SnapshotRunning", "snapshot"), "{{name}} under way"), Query(_read("SnapshotCompleted", "snapshot"), "{{name}} complete"), Query(_read("SnapshotAborted", "snapshot"), "{{name}} aborted")), kind="value"),
                Panel("Tables", "Tables in the snapshot, and those that are left.", (Query(_read("TotalTableCount", "snapshot"), "{{name}} in all"), Query(_read("RemainingTableCount", "snapshot"), "{{name}} left")), kind="value"),
                Panel("Time", "How long the snapshot has taken so far, or took.", (Query(_read("SnapshotDurationInSeconds", "snapshot"), "{{name}}"),), unit="s", kind="value"),
                Panel("Rows", "Rows read by the snapshot.", (Query(_read("TotalNumberOfEventsSeen", "snapshot"), "{{name}}"),)),
            ),
        ),
    ),
)  # fmt: skip
