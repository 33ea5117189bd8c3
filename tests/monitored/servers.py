"""A Prometheus and an Alertmanager for a test: they scrape what they are told to, go by the committed rules and routes, and tell a receiver."""

import contextlib
import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from kappa_monitoring import MONITORING
from kappa_monitoring.boards.cdc import CDC
from kappa_monitoring.boards.model import Board
from kappa_monitoring.config import Config
from kappa_monitoring.dashboards import BOARDS, list_panels
from kappa_monitoring.rules import load_groups, render_group
from lab.broker import free_ports
from lab.prometheus import build_alertmanager, find_program
from monitored.loopback import LoopbackServer, QuietHandler

PATIENCE = 60.0
Scrape = Mapping[str, Any]
Alert = dict[str, Any]


def wait_for(look: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Return what is found; AssertionError where it is not so after a long time."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError):
            found = look()
            if found:
                return found
        assert time.monotonic() < deadline, f"{what}: not so after {seconds:.0f} s"
        time.sleep(0.2)


def fill_variables(query: str, variables: Mapping[str, str]) -> str:
    """Put values in the place of Grafana's variables."""
    for name, value in variables.items():
        query = query.replace(f"${name}", value)
    return query


OWN_BOARDS = tuple(board for board in BOARDS if board is not CDC)
"""The dashboards of what the platform itself exports."""


def list_queries(
    config: Config, variables: Mapping[str, str], boards: Sequence[Board] = OWN_BOARDS
) -> dict[str, str]:
    """Return each query of dashboards, by the dashboard and its number there."""
    return {
        f"{board.uid}-{number}": fill_variables(config.fill(query.expr), variables)
        for board in boards
        for number, query in enumerate(query for _, panel in list_panels(board) for query in panel.queries)
    }


class Receiver(LoopbackServer):
    """Takes what Alertmanager sends."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        messages = self.messages

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                messages.append({"path": self.path, **json.loads(body)})
                self.send_response(200)
                self.end_headers()

        super().__init__(Handler)

    def find(self, alert: str, status: str, labels: Mapping[str, str] | None = None) -> Alert | None:
        """Return the first alert of that name, status and labels, with the path that it came by."""
        for message in list(self.messages):
            for each in message["alerts"]:
                wanted = {"alertname": alert, **(labels or {})}
                if wanted.items() <= each["labels"].items() and each["status"] == status:
                    return {"path": message["path"], **each}
        return None


class Monitoring:
    """A context. `scrapes` are scrape configs, as in Prometheus' own file; `folder` has what the two servers write."""

    def __init__(self, folder: Path, scrapes: Sequence[Scrape], config: Config, every: str = "1s") -> None:
        self._folder, self._scrapes, self._config, self._every = folder, scrapes, config, every
        self._stack = contextlib.ExitStack()
        self.receiver = Receiver()
        self._web, self._alerts = free_ports(2)
        self._url = f"http://127.0.0.1:{self._web}/api/v1"

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.receiver)
            stack.enter_context(_serve(self._build_prometheus(), self._folder / "prometheus.log"))
            stack.enter_context(_serve(self._build_alertmanager(), self._folder / "alertmanager.log"))
            self._await_start()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def ask(self, path: str, **parameters: str) -> Any:
        """Return what Prometheus' API answers."""
        url = f"{self._url}/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310 - the loopback
            return json.load(response)["data"]

    def query(self, expression: str) -> list[Any]:
        """Return the present result of an expression."""
        found: list[Any] = self.ask("query", query=expression)["result"]
        return found

    def read(self, expression: str) -> set[str]:
        """Return the values of an expression, as Prometheus writes them."""
        return {each["value"][1] for each in self.query(expression)}

    def find_empty(self, queries: Mapping[str, str], seconds: float = PATIENCE) -> dict[str, str]:
        """Return the queries that have had no data, or no number, after some time."""
        empty, deadline = dict(queries), time.monotonic() + seconds
        while True:
            empty = {name: query for name, query in empty.items() if self.read(query) - {"NaN"} == set()}
            if not empty or time.monotonic() > deadline:
                return empty
            time.sleep(1)

    def await_alert(self, alert: str, status: str, labels: Mapping[str, str] | None = None) -> Alert:
        """Wait until the receiver was told of an alert, and return it."""
        found: Alert = wait_for(lambda: self.receiver.find(alert, status, labels), f"{alert} is {status}")
        return found

    def _await_start(self) -> None:
        try:
            wait_for(lambda: self.ask("status/runtimeinfo"), "Prometheus answers")
        except AssertionError as error:
            raise AssertionError(
                f"{error}\n{(self._folder / 'prometheus.log').read_text()[-2000:]}"
            ) from None

    def _build_prometheus(self) -> list[str | Path]:
        for group in load_groups(self._config):
            (self._folder / f"{group.topic}.rules.yaml").write_text(render_group(group))
        manager = {"static_configs": [{"targets": [f"127.0.0.1:{self._alerts}"]}]}
        body = {
            "global": {"scrape_interval": self._every, "evaluation_interval": self._every},
            "rule_files": [str(self._folder / "*.rules.yaml")],
            "scrape_configs": [dict(scrape) for scrape in self._scrapes],
            "alerting": {"alertmanagers": [manager]},
        }
        path = self._folder / "prometheus.yaml"
        path.write_text(yaml.safe_dump(body))
        flags = [f"--config.file={path}", f"--storage.tsdb.path={self._folder}/data"]
        return [find_program("prometheus"), *flags, f"--web.listen-address=127.0.0.1:{self._web}"]

    def _build_alertmanager(self) -> list[str | Path]:
        """Return the command of one with the committed example, with the receivers here, in clear, and no time to wait."""
        body = yaml.load((MONITORING / "alertmanager.yaml").read_text(), yaml.CSafeLoader)
        times = {"group_wait": "0s", "group_interval": "1s"}
        body["route"] |= times
        for route in body["route"]["routes"]:
            route.update(times)
        for each in body["receivers"]:
            for hook in each["webhook_configs"]:
                hook["url"] = f"http://127.0.0.1:{self.receiver.port}/{each['name']}"
                hook.get("http_config", {}).pop("tls_config", None)
        path = self._folder / "alertmanager.yaml"
        path.write_text(yaml.safe_dump(body))
        flags = [
            f"--config.file={path}",
            f"--storage.path={self._folder}/alerts",
            "--cluster.listen-address=",
        ]
        return build_alertmanager(*flags, f"--web.listen-address=127.0.0.1:{self._alerts}")


@contextlib.contextmanager
def _serve(command: Sequence[str | Path], log: Path) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen([str(part) for part in command], stdout=output, stderr=output)
        try:
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE)
