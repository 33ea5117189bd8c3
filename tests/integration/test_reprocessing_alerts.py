"""A new version fails while the old one soaks: a real Prometheus and Alertmanager report the rollback that takes long, and then its cause.

The operator's steps run in memory, and its real metrics are scraped.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, start_http_server

from kappa_monitoring.config import load_config
from kappa_operator.telemetry.resource_metrics import ResourceCollector
from lab.broker import free_ports
from monitored.servers import Monitoring, wait_for
from unit.control.lives import CRASH, both, write
from unit.control.reprocessings import (
    FIXED,
    SPEC,
    ShadowLife,
    fail_active,
    find_all,
    list_phases,
    live,
    pause_at,
)

pytestmark = pytest.mark.clusterless

# As committed but for time.
SHORT = {"reprocessings.stuck.for": "2s", "reprocessings.failed.for": "2s"}
_STEPS = 300


class PresentLife(ShadowLife):
    """A life that begins now, as Prometheus compares its times with the clock."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.operator.clock.time = datetime.now(UTC)


@contextmanager
def monitor(life: ShadowLife, folder: Path) -> Iterator[Monitoring]:
    """Yield a Prometheus that scrapes the metrics of a life."""
    registry, (port,) = CollectorRegistry(), free_ports(1)
    registry.register(ResourceCollector(life.operator.cache, lambda: True))
    server, thread = start_http_server(port, "127.0.0.1", registry)
    scrape = {
        "job_name": "kappa",
        "honor_labels": True,
        "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
    }
    try:
        with Monitoring(folder, [scrape], load_config(override=SHORT)) as monitoring:
            wait_for(lambda: monitoring.query("kappa_reprocessing_info"), "Prometheus scrapes the life")
            yield monitoring
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def reach(life: ShadowLife, phase: str) -> None:
    """Let time pass until the Reprocessing is in a phase."""
    for _ in range(_STEPS):
        if list_phases(life) == [phase]:
            return
        await life.step()
    raise AssertionError(f"it is in {list_phases(life)}, not in {phase}")


async def test_a_receiver_gets_a_rollback_that_takes_long_and_why_it_was_rolled_back(tmp_path: Path) -> None:
    life = await live(write(SPEC), both(pause_at("Soaking"), write(FIXED)), kind=PresentLife)
    name = find_all(life)[0]["metadata"]["name"]
    labels = {"namespace": "shop", "reprocessing": name, "pipeline": "delays", "severity": "warning"}
    with monitor(life, tmp_path) as monitoring:
        assert monitoring.query('ALERTS{alertname=~"KappaReprocessing(Stuck|Failed)"}') == []
        fail_active(CRASH)(life)
        await reach(life, "RollingBack")
        stuck = monitoring.await_alert("KappaReprocessingStuck", "firing", labels)
        assert stuck["path"] == "/chat"
        assert stuck["annotations"]["summary"].endswith(f"shop/{name} takes long.")
        assert monitoring.receiver.find("KappaReprocessingFailed", "firing") is None
        await life.settle()
        assert list_phases(life) == ["RolledBack"]
        failed = monitoring.await_alert("KappaReprocessingFailed", "firing", labels)
        assert failed["annotations"]["runbook_url"].endswith("#kappareprocessingfailed")
        monitoring.await_alert("KappaReprocessingStuck", "resolved", labels)
