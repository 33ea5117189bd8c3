"""A real Debezium reads a real PostgreSQL, and a real Prometheus finds in its worker all that the dashboard and the alerts about it ask for."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from kappa_monitoring.boards.cdc import CDC
from kappa_monitoring.config import load_config
from kappa_monitoring.connect import list_connect
from lab.broker import Broker
from lab.connect import ConnectWorker
from lab.debezium import configure_postgres
from lab.postgres import Postgres
from monitored.servers import Monitoring, fill_variables, list_queries, wait_for

pytestmark = pytest.mark.clusterless

CONFIG = load_config(override={"rate": "10s", "cdc.failed.for": "1s"})
VARIABLES = {"connector": "orders", "source": "shop"}


@dataclass(frozen=True)
class Capture:
    """A table whose changes come to Kafka, and a Prometheus that scrapes the worker."""

    database: Postgres
    monitoring: Monitoring

    def change_rows(self, number: int) -> None:
        """Insert, update and delete a row."""
        self.database.execute("INSERT INTO orders VALUES (%s, 'tea')", 5000 + number)
        self.database.execute("UPDATE orders SET item = 'milk' WHERE id = %s", number)
        self.database.execute("DELETE FROM orders WHERE id = %s", 500 + number)


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Capture]:
    with Broker() as broker, Postgres() as database:
        database.execute("CREATE TABLE orders (id INT PRIMARY KEY, item TEXT)")
        database.execute("INSERT INTO orders SELECT number, 'bread' FROM generate_series(1, 1000) AS number")
        connector = {
            **configure_postgres(database, VARIABLES["source"]),
            "poll.interval.ms": "100",
            "errors.max.retries": "0",
        }
        with ConnectWorker(broker.bootstrap, VARIABLES["connector"], connector) as worker:
            targets = [{"targets": [f"127.0.0.1:{worker.metrics_port}"]}]
            scrape = {"job_name": "connect", "static_configs": targets}
            with Monitoring(tmp_path_factory.mktemp("capture"), [scrape], CONFIG) as monitoring:
                wait_for(lambda: monitoring.query("debezium_metrics_Connected == 1"), "Debezium is connected")
                yield Capture(database, monitoring)


def test_each_query_of_its_dashboard_has_data_and_counts_what_was_changed(capture: Capture) -> None:
    for number in range(1, 6):
        capture.change_rows(number)
    queries = list_queries(CONFIG, VARIABLES, [CDC])
    assert capture.monitoring.find_empty(queries) == {}
    kinds = "Create|Update|Delete"
    seen = f'{{__name__=~"debezium_metrics_TotalNumberOf({kinds})EventsSeen", context="streaming"}}'
    wait_for(lambda: [each["value"][1] for each in capture.monitoring.query(seen)] == ["5"] * 3, seen)
    assert capture.monitoring.read('debezium_metrics_TotalNumberOfEventsSeen{context="snapshot"}') == {"1000"}


def test_the_choices_of_its_dashboard_have_values(capture: Capture) -> None:
    for variable in CDC.variables:
        select = {"match[]": fill_variables(variable.query, VARIABLES)}
        values = capture.monitoring.ask(f"label/{variable.label}/values", **select)
        assert values == [VARIABLES[variable.name]]


def test_the_exporter_exports_exactly_the_declared_metrics(capture: Capture) -> None:
    found = capture.monitoring.query('{job="connect", __name__=~"debezium_.+|kafka_connect_.+"}')
    told = {
        each["metric"]["__name__"]: set(each["metric"]) - {"__name__", "job", "instance"} for each in found
    }
    assert told == {name: set(labels) for name, _, labels in list_connect()}


def test_a_failed_task_reaches_a_receiver(capture: Capture) -> None:
    """Last in this file: the connector reads nothing afterwards."""
    assert capture.monitoring.receiver.find("KappaCdcTaskFailed", "firing") is None
    capture.database.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots")
    told = capture.monitoring.await_alert("KappaCdcTaskFailed", "firing")
    assert told["labels"]["connector"] == VARIABLES["connector"]
