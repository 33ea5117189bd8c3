"""Two pipelines, of which one reads the other, in two versions each: the operator's common cut on real Spark and Kafka under live writes."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kappa_crds import API_VERSION
from kappa_crds.kinds import find_kind
from kappa_crds.pipeline_status import Run, RunRole
from kappa_crds.progress import DriverState
from kappa_crds.reprocessing import Cut, MemberStatus, read_positions
from kappa_operator.engine.actions import AdvanceDriver, ContinueDriver, HoldDriver
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.pipeline.driver import DriverPod
from kappa_operator.reprocessing.cut import reach_cut
from kappa_operator.reprocessing.model import Driver, ReprocessingObserved
from lab.broker import Broker
from spark.processes import DriverProcess
from spark.revisions import build_revision, source
from spark.topics import Topics
from spark.versions import COLUMNS, Shop, is_before, value

pytestmark = pytest.mark.chaos
SECONDS = 240
MEMBER = MemberStatus(pipeline_ref="totals", uid="u", after=("prices",))
FACTORS = (2, 3)


class Chain:
    """A version of both pipelines: orders become prices, and prices become sums by key."""

    def __init__(self, shop: Shop, start: Any, folder: Path, number: int) -> None:
        self.topics = {
            name: shop.topics.make(f"{name}-{number}", partitions=2) for name in ("prices", "totals")
        }
        prices = {
            "sources": [source("orders", COLUMNS)],
            "views": [{"name": "priced", "sql": f"SELECT k, n, n * {FACTORS[number]} AS price FROM orders"}],  # noqa: S608
            "sinks": [{"name": "prices", "from": "priced", "kafka": {"topic": "prices", "key": ["k"]}}],
            "trigger": {"maxRecords": (4000, 600)[number]},
        }
        sums = "SELECT k, count(*) AS n, sum(n) AS orders, sum(price) AS total FROM prices GROUP BY k"
        totals = {
            "sources": [source("prices", "k BIGINT, n BIGINT, price BIGINT")],
            "views": [{"name": "summed", "sql": sums, "allowUnboundedState": True}],
            "sinks": [{"name": "totals", "from": "summed", "mode": "update", "kafka": {"topic": "totals", "key": ["k"]}}],
            "trigger": {"maxRecords": (500, 3000)[number]},
        }  # fmt: skip
        self.processes: dict[str, DriverProcess] = {}
        for name, spec in (("prices", prices), ("totals", totals)):
            revision = build_revision(
                spec, f"file://{folder}/{name}-{number}", shop.bootstrap,
                topics={**shop.inputs, **self.topics}, outputs=number, pipeline=name,
            )  # fmt: skip
            self.processes[name] = start(revision, number + 1)

    def read(self, shop: Shop, name: str, ends: dict[int, int]) -> list[Any]:
        """Return the rows of an output before these ends."""
        return [
            value(each) for each in shop.topics.read_committed(self.topics[name]) if is_before(each, ends)
        ]


def observe(chains: tuple[Chain, Chain]) -> ReprocessingObserved:
    """Return what the operator would observe of both pipelines."""
    body = {
        "apiVersion": API_VERSION,
        "kind": "Reprocessing",
        "metadata": {"name": "r", "namespace": "test", "uid": "r", "resourceVersion": "1", "generation": 1},
        "spec": {"pipelineRef": "prices"},
        "status": {"members": [MEMBER.to_manifest()]},
    }
    resource = find_kind("Reprocessing").parse(body)
    members = (ReprocessingObserved(resource, member=MEMBER, **list_drivers(chains, "totals")),)
    return ReprocessingObserved(resource, members=members, **list_drivers(chains, "prices"))


def list_drivers(chains: tuple[Chain, Chain], name: str) -> dict[str, Any]:
    found = {}
    for field, role, chain in zip(("active", "side"), (RunRole.ACTIVE, RunRole.SHADOW), chains, strict=True):
        process = chain.processes[name]
        ref = ObjectRef("v1", "Pod", "test", f"{name}-{process.port}")
        pod = DriverPod(ref, "u", 1, "r", "Running", address=str(process.port))
        found[field] = Driver(Run(role=role, driver=ref.name), ref, pod, process.progress)
    return found


def act(chains: tuple[Chain, Chain], actions: Iterator[Any] | tuple[Any, ...]) -> None:
    """Send what the operator decided to the drivers."""
    processes = {str(each.port): each for chain in chains for each in chain.processes.values()}
    for action in actions:
        process = processes[action.address]
        match action:
            case HoldDriver():
                assert process.post(f"/hold?seconds={action.seconds:.0f}") == 202
            case AdvanceDriver():
                assert process.post("/advance", action.target.model_dump_json(by_alias=True)) == 202
            case ContinueDriver():
                assert process.post("/continue") == 202


def reach(chains: tuple[Chain, Chain]) -> tuple[Cut, ...]:
    """Take the steps of the operator until all drivers hold at a common cut."""
    deadline = time.monotonic() + SECONDS
    while True:
        reaching = reach_cut(observe(chains), datetime.now(UTC))
        if reaching.cuts:
            return reaching.cuts
        assert time.monotonic() < deadline, reaching.message
        act(chains, reaching.actions)
        time.sleep(0.3)


def check(shop: Shop, chains: tuple[Chain, Chain], cuts: tuple[Cut, ...]) -> None:
    """Fail where an output of a version is not that of a batch over the orders before the cut."""
    first, member = cuts
    (ends,) = (
        offsets for topic, offsets in read_positions(first.inputs).items() if topic == shop.inputs["orders"]
    )
    messages = shop.topics.read(shop.inputs["orders"])
    orders = [value(each) for each in messages if is_before(each, ends)]
    assert orders
    for chain, factor, version in zip(chains, FACTORS, ("old", "new"), strict=True):
        prices = chain.read(shop, "prices", read_positions(getattr(first, version))[chain.topics["prices"]])
        assert sorted(row["n"] for row in prices) == sorted(row["n"] for row in orders)
        assert all(row["price"] == row["n"] * factor for row in prices)
        totals = chain.read(shop, "totals", read_positions(getattr(member, version))[chain.topics["totals"]])
        last = {row["k"]: row for row in sorted(totals, key=lambda row: int(row["n"]))}
        for key in {row["k"] for row in orders}:
            numbers = [row["n"] for row in orders if row["k"] == key]
            expected = {"k": key, "n": len(numbers), "orders": sum(numbers), "total": sum(numbers) * factor}
            assert last[key] == expected, f"{version} version of key {key}"


def test_both_versions_of_two_pipelines_reach_one_cut_under_live_writes_twice(
    start: Any, broker: Broker, topics: Topics, tmp_path: Path
) -> None:
    shop = Shop(topics, broker.bootstrap)
    shop.write(500)
    chains = Chain(shop, start, tmp_path, 0), Chain(shop, start, tmp_path, 1)
    for chain in chains:
        for process in chain.processes.values():
            process.wait_for("it runs", lambda p: p.state is DriverState.RUNNING, SECONDS)
    with shop.open():
        for _ in range(2):
            cuts = reach(chains)
            check(shop, chains, cuts)
            observed = observe(chains)
            drivers = [party.active or party.side for party in observed.parties]
            drivers += [party.side for party in observed.parties]
            continues = [
                ContinueDriver(each.pod.ref, each.pod.address or "", each.token)
                for each in drivers
                if each and each.pod
            ]
            act(chains, tuple(continues))
            time.sleep(3)
