"""A real Alertmanager tells the operator of an alert by the route of the committed example: it is kept with the policy, and goes."""

import asyncio
import contextlib
import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from aiohttp.test_utils import TestServer

from fakes.world import Operator, build_resource
from kappa_crds.lagalert import AlertStatus
from kappa_monitoring import MONITORING
from kappa_operator.alertmanager import build_alert_app
from kappa_operator.keys import Key
from kappa_operator.logic import LOGICS
from kappa_operator.plan.alert import read_alerts
from lab.broker import free_ports
from lab.prometheus import build_alertmanager

POLICY = Key("LagPolicy", "shop", "gold")
PATIENCE = 60.0


def write_config(folder: Path, url: str) -> Path:
    """Write the committed example with the endpoint and its token here, and no time to wait."""
    body = yaml.safe_load((MONITORING / "alertmanager.yaml").read_text())
    route = next(each for each in body["route"]["routes"] if each["receiver"] == "kappa-remedies")
    route |= {"group_wait": "0s", "group_interval": "1s"}
    receivers = {each["name"]: each for each in body["receivers"]}
    (hook,) = receivers["kappa-remedies"]["webhook_configs"]
    hook["url"] = url
    hook["http_config"]["authorization"]["credentials_file"] = str(folder / "token")
    for name, each in receivers.items():
        if name != "kappa-remedies":
            del each["webhook_configs"]
    path = folder / "alertmanager.yaml"
    path.write_text(yaml.safe_dump(body))
    return path


def tell(port: int, *, over: bool) -> None:
    """Tell Alertmanager as Prometheus does."""
    now = datetime.now(UTC)
    labels = {
        "alertname": "CheckoutSlow", "namespace": "shop", "lagpolicy": "gold", "remedy": "true", "severity": "critical",
    }  # fmt: skip
    end = now if over else now + timedelta(hours=1)
    body = [
        {"labels": labels, "startsAt": (now - timedelta(minutes=1)).isoformat(), "endsAt": end.isoformat()}
    ]
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/v2/alerts",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 - the loopback
        assert response.status == 200


def tell_once_it_is_up(port: int, folder: Path) -> None:
    for _ in range(int(PATIENCE / 0.2)):
        try:
            return tell(port, over=False)
        except OSError:
            time.sleep(0.2)
    raise AssertionError((folder / "log").read_text())


@contextlib.contextmanager
def serve(config: Path, folder: Path, port: int) -> Iterator[None]:
    flags = [f"--config.file={config}", f"--storage.path={folder}/data", "--cluster.listen-address="]
    command = build_alertmanager(*flags, f"--web.listen-address=127.0.0.1:{port}")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE)


async def wait_for(operator: Operator, wanted: int) -> list[AlertStatus]:
    found: list[AlertStatus] = []
    for _ in range(int(PATIENCE / 0.2)):
        found = list(read_alerts((operator.get(POLICY) or {})["metadata"].get("annotations", {})).values())
        if len(found) == wanted:
            return found
        await asyncio.sleep(0.2)
    raise AssertionError(found)


async def test_an_alert_comes_and_goes(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token")
    operator = Operator(LOGICS)
    policy: dict[str, Any] = {"selector": {"groups": ["*"]}, "warning": {"lag": "60s"}}
    operator.cluster.put(build_resource("LagPolicy", "gold", **policy))
    async with TestServer(build_alert_app(operator.world, tmp_path)) as server:
        (port,) = free_ports(1)
        config = write_config(tmp_path, str(server.make_url("/alerts")))
        with serve(config, tmp_path, port):
            await asyncio.to_thread(tell_once_it_is_up, port, tmp_path)
            (alert,) = await wait_for(operator, 1)
            assert (alert.name, alert.severity) == ("CheckoutSlow", "Critical")
            await asyncio.to_thread(tell, port, over=True)
            await wait_for(operator, 0)
