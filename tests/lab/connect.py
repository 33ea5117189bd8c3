"""A Kafka Connect worker for a test, with Debezium's connectors, and with its metrics for Prometheus by the committed rules."""

import json
import signal
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from kappa_monitoring import MONITORING
from lab.broker import free_ports
from lab.connect_files import class_path, fetch_debezium, from_archive
from lab.controlplane import answers
from lab.maven import Archive, fetch
from lab.paths import SOURCES
from lab.server import LabServer
from lab.shell import wait_until

_AGENT = Archive(
    "jmx exporter",
    "io.prometheus.jmx:jmx_prometheus_javaagent:1.0.1:jar",
    "7d61f737fd661610ccc14aea79764faa1ea94a340cbc8f0029b3d2edea3d80c1",
)
_RULES = MONITORING / "connect-jmx.yaml"


def _keep(file: Path, folder: Path) -> None:
    file.rename(folder / file.name)


class ConnectWorker(LabServer):
    """A context manager: one worker, standing alone, with one connector. `metrics_port` is where Prometheus finds it.

    `worker` are further settings of the worker.
    """

    name = "Connect"
    seconds = 90.0

    def __init__(
        self,
        bootstrap: str,
        name: str,
        connector: Mapping[str, str],
        worker: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._rest, self.metrics_port = free_ports(2)
        self._connector_name, self._connector = name, dict(connector)
        package = connector["connector.class"].split(".")[3]
        self._database = "postgres" if package == "postgresql" else package
        self._worker = {
            "bootstrap.servers": bootstrap,
            "listeners": f"http://127.0.0.1:{self._rest}",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "offset.storage.file.filename": str(self._home / "offsets"),
            "plugin.discovery": "service_load",
            **(worker or {}),
        }

    def restart(self, *, graceful: bool) -> None:
        """Stop the worker, or kill it, and start it again with the offsets that it has written."""
        self.stop(signal.SIGTERM if graceful else signal.SIGKILL)
        self.start()

    def pause(self, *, paused: bool) -> None:
        """Pause or resume the connector, and wait until its task has done so."""
        step, state = ("pause", "PAUSED") if paused else ("resume", "RUNNING")
        url = f"http://127.0.0.1:{self._rest}/connectors/{self._connector_name}"
        request = urllib.request.Request(f"{url}/{step}", method="PUT")
        urllib.request.urlopen(request, timeout=10).close()

        def has_changed() -> bool:
            with urllib.request.urlopen(f"{url}/status", timeout=10) as answer:
                return all(task["state"] == state for task in json.load(answer)["tasks"])

        wait_until(has_changed, f"the connector is {state}", seconds=60)

    def _build_command(self) -> Sequence[str]:
        agent = fetch(_AGENT, _keep) / _AGENT.file
        options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *from_archive()]
        worker = {**self._worker, "plugin.path": str(fetch_debezium(self._database))}
        return [
            *("java", *options, f"-javaagent:{agent}=127.0.0.1:{self.metrics_port}:{_RULES}"),
            f"-Dlog4j2.configurationFile={SOURCES / 'kafka' / 'log4j2.properties'}",
            *("-cp", class_path(), "org.apache.kafka.connect.cli.ConnectStandalone"),
            self._write("worker", worker),
            self._write("connector", {"name": self._connector_name, **self._connector}),
        ]

    def _write(self, name: str, values: Mapping[str, str]) -> str:
        path = self._home / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        return str(path)

    def _serves(self) -> bool:
        return answers(f"http://127.0.0.1:{self._rest}/connectors/{self._connector_name}/status")
