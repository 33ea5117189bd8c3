"""A real Alertmanager tells the operator of an alert by the route of the committed example: it is kept with the policy, and goes."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestServer

from fakes.context import Operator, build_resource
from kappa_crds.lagpolicy import AlertStatus
from kappa_operator.engine.keys import Key
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.lagpolicy.alert import read_alerts
from kappa_operator.lagpolicy.alertmanager import build_alert_app
from monitored.alertmanager import RemedyAlerts
from monitored.servers import PATIENCE

pytestmark = pytest.mark.clusterless

POLICY = Key("LagPolicy", "shop", "gold")


async def wait_for(operator: Operator, wanted: int) -> list[AlertStatus]:
    found: list[AlertStatus] = []
    for _ in range(int(PATIENCE / 0.2)):
        found = list(read_alerts((operator.get(POLICY) or {})["metadata"].get("annotations", {})).values())
        if len(found) == wanted:
            return found
        await asyncio.sleep(0.2)
    raise AssertionError(found)


async def test_an_alert_comes_and_goes(tmp_path: Path) -> None:
    operator = Operator(KIND_TABLE)
    policy: dict[str, Any] = {"selector": {"groups": ["*"]}, "warning": {"lag": "60s"}}
    operator.cluster.put(build_resource("LagPolicy", "gold", **policy))
    labels = {"namespace": "shop", "lagpolicy": "gold", "severity": "critical"}
    (tmp_path / "operator").mkdir()
    (tmp_path / "operator" / "token").write_text("a-token")
    async with TestServer(build_alert_app(operator.context, tmp_path / "operator")) as server:
        with RemedyAlerts(tmp_path, str(server.make_url("/alerts")), "a-token") as alerts:
            await asyncio.to_thread(alerts.tell, "CheckoutSlow", labels)
            (alert,) = await wait_for(operator, 1)
            assert (alert.name, alert.severity) == ("CheckoutSlow", "Critical")
            await asyncio.to_thread(alerts.tell, "CheckoutSlow", labels, over=True)
            await wait_for(operator, 0)
