"""One team attacks the operator with objects, drivers and brokers: another team's Topic does not wait, and the operator survives.

The operator is a process with the memory of its container, at an API server of its own with the chart's permissions. Brokers and drivers
of the attacker send endless bodies, bombs, slow drips, huge frames, deep JSON and resets. What is asserted is the order: how many
seconds a Topic takes is measured by `tests/bench/tenants.py`.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.apiserver import grant, install_crds, serve_api
from fleet.drivers import SPACE
from fleet.tenants import (
    API_LIMITS,
    MEMORY,
    USERS,
    VICTIM,
    Attacker,
    Operator,
    await_ready,
    await_topic,
    connect,
    count_reasons,
    create_space,
    create_topic,
    is_ready,
    run_attacker,
    run_operator,
)
from kappa_operator.engine.cluster import ApiCluster
from lab.broker import Broker, free_ports

pytestmark = pytest.mark.chaos

OBJECTS, PIPELINES = 1000, 50
PATIENCE = 240.0
"""Seconds that each step may take."""
CRASHES, ATTACKS = 20, 5
"""How often drivers crash, and how many kinds of answers the operator gets from hostile ones."""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kappa-tenants-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def api(folder: Path) -> Iterator[str]:
    with serve_api(folder, *API_LIMITS, users=USERS) as url:
        asyncio.run(install_crds(folder, url))
        yield url


async def until(what: str, is_done: Callable[[], bool], *programs: Operator | Attacker) -> None:
    """Wait, while the programs run."""
    deadline = time.monotonic() + PATIENCE
    while not is_done():
        for each in programs:
            assert each.is_alive, each.log.read_text()[-2000:]
        assert time.monotonic() < deadline, f"{what}: not so after {PATIENCE:.0f} s"
        await asyncio.sleep(0.5)


async def test_a_topic_of_another_team_is_ready_before_the_objects_of_the_attacker_are_handled(
    api: str, folder: Path
) -> None:
    with Broker() as broker:
        async with connect(folder, "admin") as admin, connect(folder, VICTIM) as team:
            await create_space(admin, VICTIM, broker.bootstrap)
            grant(await install_crds(folder, api))
            await play(api, folder, broker.bootstrap, admin, team)


async def play(api: str, folder: Path, bootstrap: str, admin: ApiCluster, team: ApiCluster) -> None:
    """Have everything created while no operator runs, the Topic last, and then start it."""
    (port,) = free_ports(1)
    with run_attacker(folder, port, OBJECTS, bootstrap) as attacker:
        with run_operator(folder, api, port) as operator:
            await until("the attacker is prepared", attacker.is_prepared, operator, attacker)
            await await_topic(team, operator, "before")
        attacker.start()
        await until("all objects exist", lambda: attacker.read()["created"] == OBJECTS, attacker)
        await create_topic(team, "last")
        with run_operator(folder, api, port, KAPPA_LIMIT_PIPELINES=str(PIPELINES)) as operator:
            await await_ready(team, operator, "last")
            reasons = await count_reasons(admin)
            assert reasons[""] > OBJECTS // 2, "most objects of the attacker are older, and are decided later"
            await survive(admin, team, operator, attacker)
    assert "Traceback" not in operator.log.read_text()


def has_attacked(done: dict[str, Any]) -> bool:
    """Return whether enough drivers crashed, and answered in enough hostile ways."""
    return done["crashes"] >= CRASHES and len(done["attacks"]) >= ATTACKS


async def survive(admin: ApiCluster, team: ApiCluster, operator: Operator, attacker: Attacker) -> None:
    """Wait until the operator has handled all objects, crashes and attacks."""
    deadline = time.monotonic() + PATIENCE
    while "" in (reasons := await count_reasons(admin)):
        assert operator.is_alive, operator.log.read_text()[-2000:]
        assert time.monotonic() < deadline, f"objects are not decided: {reasons}"
        await asyncio.sleep(1.0)
    assert reasons["LimitReached"] >= OBJECTS // 3 - PIPELINES
    await until("drivers attack", lambda: has_attacked(attacker.read()), operator, attacker)
    await await_topic(team, operator, "after")
    assert await is_ready(admin, "KafkaCluster", "main", SPACE)
    assert operator.measure_peak() < MEMORY
