"""One team attacks the operator with objects, drivers and brokers: another team's Topic does not wait, and the operator survives.

The operator is a process with the memory of its container, at an API server of its own with the chart's permissions. Brokers and drivers
of the attacker send endless bodies, bombs, slow drips, huge frames, deep JSON and resets.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from fleet.apiserver import grant, install_crds, serve_api
from fleet.drivers import SPACE, Node
from fleet.tenants import (
    MEMORY,
    VICTIM,
    HostileDrivers,
    await_topic,
    build_objects,
    count_reasons,
    create_objects,
    create_space,
    is_ready,
    play_node,
    prepare_attack,
    run_operator,
    serve_brokers,
)
from kappa_operator.engine.cluster import ApiCluster
from lab.broker import Broker, free_ports
from lab.shell import run

pytestmark = pytest.mark.chaos

OBJECTS = 1000


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kappa-tenants-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def api(folder: Path) -> Iterator[str]:
    with serve_api(folder) as url:
        kubectl = asyncio.run(install_crds(folder, url))
        run([*kubectl, "create", "namespace", "kappa-system"])
        grant(kubectl)
        yield url


@pytest.fixture
async def cluster(api: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ApiCluster]:
    monkeypatch.setenv("KUBECONFIG", str(folder / "admin.kubeconfig"))
    async with await ApiCluster.connect() as cluster:
        yield cluster


async def test_a_topic_of_another_team_is_ready_before_the_objects_of_the_attacker_are_handled(
    api: str, folder: Path, cluster: ApiCluster
) -> None:
    drivers, (port,) = HostileDrivers(), free_ports(1)
    with Broker() as broker:
        async with drivers.serve(port), serve_brokers() as addresses:
            await create_space(cluster, VICTIM, broker.bootstrap)
            await prepare_attack(cluster, broker.bootstrap)
            await create_objects(cluster, build_objects(OBJECTS, addresses))
            node = asyncio.create_task(play_node(Node(cluster, drivers), drivers))
            with run_operator(folder, api, port, KAPPA_LIMIT_PIPELINES="50") as operator:
                await await_topic(cluster, operator, "first")
                assert (await count_reasons(cluster))[""] > 0, "the attacker still waits"
                while "" in (reasons := await count_reasons(cluster)):
                    assert operator.is_alive, operator.log.read_text()[-2000:]
                    await asyncio.sleep(1.0)
                await await_topic(cluster, operator, "second")
                assert reasons["LimitReached"] >= OBJECTS // 3 - 50
                assert await is_ready(cluster, "KafkaCluster", "main", SPACE)
                assert operator.measure_peak() < MEMORY
            node.cancel()
    assert "Traceback" not in operator.log.read_text()
