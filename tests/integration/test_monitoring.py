"""A real Prometheus scrapes what the platform exports: every query of every dashboard has data, and an alert comes and goes."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from integration.exporter import CLUSTER, GROUP, NAMESPACE, PIPELINE, TOPIC, Exporter
from kappa_monitoring import MONITORING
from kappa_monitoring.config import load_config
from lab.prometheus import find_program
from lab.shell import run
from monitored.servers import OWN_BOARDS, Monitoring, fill_variables, list_queries, wait_for

pytestmark = pytest.mark.clusterless

# As committed but for time: what takes minutes in a fleet takes seconds here.
SHORT = {
    "rate": "10s",
    "lag.warning.for": "2s",
    "lag.stopped.window": "1h",
    "pipelines.crashLooping.window": "10s",
    "operator.slow.quantile": "0.99",
}
CONFIG = load_config(override=SHORT)
VARIABLES = {
    "namespace": NAMESPACE,
    "pipeline": PIPELINE,
    "cluster_name": CLUSTER,
    "topic": TOPIC,
    "cdcsource": "shop",
    "reprocessing": f"{PIPELINE}-1",
}


class Monitored(Monitoring):
    """A Prometheus that scrapes an exporter."""

    exporter: Exporter


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    with Exporter() as exporter:
        targets = [f"127.0.0.1:{port}" for port in (exporter.port, exporter.operator_port)]
        scrape = {"job_name": "kappa", "honor_labels": True, "static_configs": [{"targets": targets}]}
        with Monitored(tmp_path_factory.mktemp("monitored"), [scrape], CONFIG) as found:
            found.exporter = exporter
            wait_for(lambda: len(found.query("up == 1")) == 2, "Prometheus scrapes both")
            yield found


QUERIES = [pytest.param(query, id=name) for name, query in list_queries(CONFIG, VARIABLES).items()]


@pytest.mark.parametrize("query", QUERIES)
def test_each_query_of_each_dashboard_has_data(monitored: Monitored, query: str) -> None:
    assert "NaN" not in wait_for(lambda: monitored.read(query), query)


def test_the_choices_of_each_dashboard_have_values(monitored: Monitored) -> None:
    for board in OWN_BOARDS:
        for variable in board.variables:
            select = {"match[]": fill_variables(variable.query, VARIABLES)}
            look = partial(monitored.ask, f"label/{variable.label}/values", **select)
            values = wait_for(look, variable.name)
            assert VARIABLES[variable.name] in values


def test_no_rule_fails(monitored: Monitored) -> None:
    def look() -> list[dict[str, Any]] | None:
        rules = [rule for group in monitored.ask("rules")["groups"] for rule in group["rules"]]
        return None if any(rule["health"] == "unknown" for rule in rules) else rules

    rules = wait_for(look, "all rules are evaluated")
    assert [(rule["name"], rule["lastError"]) for rule in rules if rule["health"] != "ok"] == []


def test_an_alert_reports_a_group_that_falls_behind_and_clears(monitored: Monitored) -> None:
    assert monitored.receiver.find("KappaConsumerLag", "firing") is None
    monitored.exporter.behind = 900.0
    told = monitored.await_alert("KappaConsumerLag", "firing")
    assert told["path"] == "/chat"
    assert told["labels"] == {
        "alertname": "KappaConsumerLag", "cluster_name": CLUSTER, "group": GROUP, "severity": "warning",
    }  # fmt: skip
    assert "15m 0s old" in told["annotations"]["description"]
    assert told["annotations"]["runbook_url"].endswith("/lag.md#kappaconsumerlag")
    monitored.exporter.behind = 0.0
    monitored.await_alert("KappaConsumerLag", "resolved")


def test_the_example_of_routes_is_one_that_alertmanager_takes() -> None:
    config = MONITORING / "alertmanager.yaml"
    assert "SUCCESS" in run([find_program("amtool"), "check-config", config])
    routed = run(
        [find_program("amtool"), "config", "routes", "test", f"--config.file={config}", "severity=critical"]
    )
    assert routed.strip() == "on-call"
