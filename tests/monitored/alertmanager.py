"""An Alertmanager that tells an operator of alerts, by the route of the committed example."""

import json
import subprocess
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from kappa_monitoring import MONITORING
from lab.broker import free_ports
from lab.prometheus import build_alertmanager
from monitored.servers import PATIENCE, wait_for

_RECEIVER = "kappa-remediation"


class RemedyAlerts:
    """A context with a real Alertmanager in `folder` whose receiver for remedies is the operator's endpoint at `url`."""

    def __init__(self, folder: Path, url: str, token: str, tls: Mapping[str, str] | None = None) -> None:
        """Send alerts to the URL; `tls` is the tls_config, where that is not the example's."""
        self._folder, self._tls = folder, tls
        (self._port,) = free_ports(1)
        (folder / "token").write_text(token)
        self._write_config(url)

    def __enter__(self) -> Self:
        flags = [
            f"--config.file={self._config}",
            f"--storage.path={self._folder}/data",
            "--cluster.listen-address=",
        ]
        command = build_alertmanager(*flags, f"--web.listen-address=127.0.0.1:{self._port}")
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)

    def tell(self, name: str, labels: Mapping[str, str], *, over: bool = False) -> None:
        """Tell it of an alert as Prometheus does, as soon as it answers; `over` ends the alert."""

        def post() -> bool:
            with urllib.request.urlopen(self._build(name, labels, over), timeout=10) as response:  # noqa: S310 - the loopback
                return bool(response.status == 200)

        wait_for(post, f"Alertmanager takes an alert; {self._folder / 'log'} has what it says")

    @property
    def _config(self) -> Path:
        return self._folder / "alertmanager.yaml"

    def _build(self, name: str, labels: Mapping[str, str], over: bool) -> urllib.request.Request:
        now = datetime.now(UTC)
        alert = {
            "labels": {"alertname": name, "remediation": "true", **labels},
            "startsAt": (now - timedelta(minutes=1)).isoformat(),
            "endsAt": (now if over else now + timedelta(hours=1)).isoformat(),
        }
        return urllib.request.Request(
            f"http://127.0.0.1:{self._port}/api/v2/alerts",
            json.dumps([alert]).encode(),
            {"Content-Type": "application/json"},
        )

    def _write_config(self, url: str) -> None:
        """Write the committed example with the endpoint and its token here, and no time to wait."""
        body = yaml.load((MONITORING / "alertmanager.yaml").read_text(), yaml.CSafeLoader)
        route = next(each for each in body["route"]["routes"] if each["receiver"] == _RECEIVER)
        route |= {"group_wait": "0s", "group_interval": "1s"}
        receivers = {each["name"]: each for each in body["receivers"]}
        (hook,) = receivers[_RECEIVER]["webhook_configs"]
        hook["url"] = url
        hook["http_config"]["authorization"]["credentials_file"] = str(self._folder / "token")
        hook["http_config"]["tls_config"] = dict(self._tls or {})
        for name, each in receivers.items():
            if name != _RECEIVER:
                del each["webhook_configs"]
        self._config.write_text(yaml.safe_dump(body))
