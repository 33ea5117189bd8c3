"""A real Prometheus scrapes what the platform exports: every query of every dashboard has data, and an alert comes and goes."""

import contextlib
import http.server
import json
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from integration.exporter import CLUSTER, GROUP, NAMESPACE, PIPELINE, TOPIC, Exporter
from kappa_monitoring import MONITORING
from kappa_monitoring.config import load_config
from kappa_monitoring.dashboards import BOARDS, find_queries, render_board
from kappa_monitoring.rules import load_groups, render_group
from lab.broker import free_ports
from lab.prometheus import build_alertmanager, find_program
from lab.shell import run

PATIENCE = 60.0
# As committed but for time: what takes minutes in a fleet takes seconds here.
SHORT = {
    "rate": "10s",
    "lag.warning.for": "2s",
    "lag.stopped.window": "1h",
    "pipelines.crashLooping.window": "10s",
    "operator.slow.quantile": "0.99",
}
CONFIG = load_config(override=SHORT)
VARIABLES = {"namespace": NAMESPACE, "pipeline": PIPELINE, "cluster_name": CLUSTER, "topic": TOPIC}


def wait_for(look: Callable[[], Any], what: str) -> Any:
    """Return what is found; fail with the last word on it after a long time."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(OSError):
            found = look()
            if found:
                return found
        assert time.monotonic() < deadline, f"{what}: not so after {PATIENCE:.0f} s"
        time.sleep(0.2)


class Receiver:
    """Takes what Alertmanager sends."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        messages = self.messages

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                messages.append({"path": self.path, **json.loads(body)})
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]

    def find(self, alert: str, status: str) -> dict[str, Any] | None:
        """Return the first alert of that name and status, with the path that it came by."""
        for message in list(self.messages):
            for each in message["alerts"]:
                if each["labels"]["alertname"] == alert and each["status"] == status:
                    return {"path": message["path"], **each}
        return None


@contextlib.contextmanager
def serve(command: Sequence[str | Path], log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen([str(part) for part in command], stdout=output, stderr=output)
        try:
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE)


def write_prometheus(folder: Path, exporter: Exporter, alertmanager: int) -> Path:
    for group in load_groups(CONFIG):
        (folder / f"{group.topic}.rules.yaml").write_text(render_group(group))
    targets = [f"127.0.0.1:{port}" for port in (exporter.port, exporter.operator_port)]
    body = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "*.rules.yaml")],
        "scrape_configs": [
            {"job_name": "kappa", "honor_labels": True, "static_configs": [{"targets": targets}]}
        ],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager}"]}]}]},
    }
    path = folder / "prometheus.yaml"
    path.write_text(yaml.safe_dump(body))
    return path


def write_alertmanager(folder: Path, receiver: int) -> Path:
    """Write the committed example, with the receivers here and no time to wait."""
    body = yaml.safe_load((MONITORING / "alertmanager.yaml").read_text())
    times = {"group_wait": "0s", "group_interval": "1s"}
    body["route"] |= times
    for route in body["route"]["routes"]:
        route.update(times)
    for each in body["receivers"]:
        for hook in each["webhook_configs"]:
            hook["url"] = f"http://127.0.0.1:{receiver}/{each['name']}"
    path = folder / "alertmanager.yaml"
    path.write_text(yaml.safe_dump(body))
    return path


class Monitored:
    """A Prometheus that scrapes the exporter, and an Alertmanager that tells the receiver."""

    def __init__(self, exporter: Exporter, receiver: Receiver, port: int) -> None:
        self.exporter = exporter
        self.receiver = receiver
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def ask(self, path: str, **parameters: str) -> Any:
        url = f"{self._url}/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310 - the loopback
            return json.load(response)["data"]

    def query(self, expression: str) -> list[Any]:
        found: list[Any] = self.ask("query", query=expression)["result"]
        return found


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    folder = tmp_path_factory.mktemp("monitored")
    web, alerts = free_ports(2)
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever)
    with contextlib.ExitStack() as stack:
        exporter = stack.enter_context(Exporter())
        thread.start()
        stack.callback(thread.join)
        stack.callback(receiver.server.shutdown)
        config, routes = write_prometheus(folder, exporter, alerts), write_alertmanager(folder, receiver.port)
        prometheus: list[str | Path] = [
            find_program("prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={folder}/data",
        ]
        stack.enter_context(
            serve([*prometheus, f"--web.listen-address=127.0.0.1:{web}"], folder / "prometheus.log")
        )
        flags = [f"--config.file={routes}", f"--storage.path={folder}/alerts", "--cluster.listen-address="]
        manager = build_alertmanager(*flags, f"--web.listen-address=127.0.0.1:{alerts}")
        stack.enter_context(serve(manager, folder / "alertmanager.log"))
        found = Monitored(exporter, receiver, web)
        wait_for(lambda: len(found.query("up == 1")) == 2, "Prometheus scrapes both")
        yield found
    receiver.server.server_close()


def fill_variables(query: str) -> str:
    for name, value in VARIABLES.items():
        query = query.replace(f"${name}", value)
    return query


QUERIES = [
    pytest.param(fill_variables(query), id=f"{board.uid}-{number}")
    for board in BOARDS
    for number, query in enumerate(find_queries(render_board(board, CONFIG)))
]


@pytest.mark.parametrize("query", QUERIES)
def test_each_query_of_each_dashboard_has_data(monitored: Monitored, query: str) -> None:
    found = wait_for(lambda: monitored.query(query), query)
    assert "NaN" not in {value for each in found for value in [each["value"][1]]}


def test_the_choices_of_each_dashboard_have_values(monitored: Monitored) -> None:
    for board in BOARDS:
        for variable in board.variables:
            select = {"match[]": fill_variables(variable.query)}
            look = partial(monitored.ask, f"label/{variable.label}/values", **select)
            values = wait_for(look, variable.name)
            assert VARIABLES[variable.name] in values


def test_no_rule_fails(monitored: Monitored) -> None:
    def look() -> list[dict[str, Any]] | None:
        rules = [rule for group in monitored.ask("rules")["groups"] for rule in group["rules"]]
        return None if any(rule["health"] == "unknown" for rule in rules) else rules

    rules = wait_for(look, "all rules are evaluated")
    assert [(rule["name"], rule["lastError"]) for rule in rules if rule["health"] != "ok"] == []


def test_a_group_that_falls_behind_is_told_to_people_and_that_it_caught_up_too(monitored: Monitored) -> None:
    assert monitored.receiver.find("KappaConsumerLag", "firing") is None
    monitored.exporter.behind = 900.0
    told = wait_for(
        lambda: monitored.receiver.find("KappaConsumerLag", "firing"), "the alert reaches its receiver"
    )
    assert told["path"] == "/chat"
    assert told["labels"] == {
        "alertname": "KappaConsumerLag", "cluster_name": CLUSTER, "group": GROUP, "severity": "warning",
    }  # fmt: skip
    assert "15m 0s old" in told["annotations"]["description"]
    assert told["annotations"]["runbook_url"].endswith("/lag.md#kappaconsumerlag")
    monitored.exporter.behind = 0.0
    wait_for(lambda: monitored.receiver.find("KappaConsumerLag", "resolved"), "the alert clears")


def test_the_example_of_routes_is_one_that_alertmanager_takes() -> None:
    config = MONITORING / "alertmanager.yaml"
    assert "SUCCESS" in run([find_program("amtool"), "check-config", config])
    routed = run(
        [find_program("amtool"), "config", "routes", "test", f"--config.file={config}", "severity=critical"]
    )
    assert routed.strip() == "on-call"
