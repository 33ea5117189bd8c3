"""When clusters are swept, and that nothing of it is left behind."""

import asyncio
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from fakes.context import START, Operator, build_resource
from kappa_crds.kafkacluster import LagSampling
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.errors import BrokerUnreachable, SecretProblem
from kappa_operator.kafka.model import KafkaAccess
from kappa_operator.kafkacluster.decide import KafkaClusterResource
from kappa_operator.kafkacluster.observe import list_clusters
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.lag.model import ClusterSample, GroupPartition, Partition, PartitionLog, Sample
from kappa_operator.lag.sampler import Sampler
from kappa_operator.lag.sampling import Keeps, Sampling, build_filter

PAIR = GroupPartition("g", Partition("t", 0))
MAIN = Key("KafkaCluster", "shop", "main")


@dataclass
class FakeSampler(Sampler):
    samples: int = 0
    closed: int = 0
    hangs: bool = False
    bug: bool = False
    group: str = PAIR.group

    async def sample(self) -> ClusterSample:
        self.samples += 1
        if self.bug:
            raise ZeroDivisionError
        if self.hangs:
            await asyncio.Event().wait()
        return ClusterSample(
            START,
            1.5,
            frozenset({self.group}),
            {},
            {PAIR._replace(group=self.group): Sample(START, PartitionLog(0, 9, 9), 4)},
        )

    async def close(self) -> None:
        self.closed += 1
        if self.bug:
            raise ZeroDivisionError


@dataclass
class Stage:
    operator: Operator
    access: KafkaAccess = field(default_factory=lambda: KafkaAccess.of({"bootstrap.servers": "kafka:9092"}))
    problem: SecretProblem | None = None
    made: list[FakeSampler] = field(default_factory=list)
    hangs: bool = False
    woken: list[Key] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sampling = Sampling(
            lambda: list_clusters(self.operator.cache),
            self.resolve,
            build=self.build,
            on_new_groups=self.woken.append,
            monotonic=self.count_seconds,
        )

    def count_seconds(self) -> float:
        return (self.operator.clock() - START).total_seconds()

    async def resolve(self, _: KafkaClusterResource) -> KafkaAccess:
        if self.problem is not None:
            raise self.problem
        return self.access

    def build(self, _: KafkaAccess, __: Keeps) -> FakeSampler:
        self.made.append(FakeSampler(hangs=self.hangs))
        return self.made[-1]

    async def turn(self, seconds: float = 0.0) -> None:
        self.operator.clock.advance(seconds)
        await self.sampling.start_due()
        if not self.hangs:
            await self.sampling.finish()


async def start(ready: bool = True, **spec: Any) -> Stage:
    operator = Operator(KIND_TABLE)
    operator.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"], **spec))
    if ready:
        await operator.reconcile(MAIN)
    return Stage(operator)


async def test_a_connected_cluster_is_swept_at_its_interval_by_one_sampler() -> None:
    stage = await start(lag={"interval": "10s"})
    for seconds, samples in ((0, 1), (9, 1), (1, 2), (5, 2), (5, 3)):
        await stage.turn(seconds)
        assert stage.made[0].samples == samples
    assert len(stage.made) == 1
    found = stage.sampling.get(MAIN)
    assert found is not None
    assert list(stage.sampling.list_found()) == [("shop/main", found)]


async def test_a_sample_with_other_groups_is_reported_once() -> None:
    stage = await start(lag={"interval": "10s"})
    await stage.turn()
    assert stage.woken == [MAIN]
    await stage.turn(10)
    assert stage.woken == [MAIN]
    stage.made[0].group = "another"
    await stage.turn(10)
    assert stage.woken == [MAIN, MAIN]


@pytest.mark.parametrize("lag", [None, {"enabled": False}])
async def test_what_is_not_connected_or_not_to_be_sampled_is_not(lag: dict[str, object] | None) -> None:
    stage = await start(ready=lag is not None, **({"lag": lag} if lag else {}))
    await stage.turn()
    assert not stage.made


async def test_a_sweep_that_is_under_way_is_not_begun_again_and_ends_with_the_operator() -> None:
    stage = await start()
    stage.hangs = True
    running = asyncio.create_task(stage.sampling.run())
    for _ in range(5):
        await asyncio.sleep(0)
    for _ in range(3):
        await stage.turn(60)
    assert stage.made[0].samples == 1
    running.cancel()
    await asyncio.wait([running])
    assert stage.made[0].closed == 1
    assert stage.sampling.get(MAIN) is None


async def test_a_changed_secret_or_filter_makes_a_new_sampler() -> None:
    stage = await start()
    await stage.turn()
    stage.access = KafkaAccess.of({"bootstrap.servers": "kafka:9092", "sasl.password": "new"})
    await stage.turn(30)
    assert [each.closed for each in stage.made] == [1, 0]
    spec = {"bootstrapServers": ["kafka:9092"], "lag": {"exclude": ["test-*"]}}
    stage.operator.cluster.patch(ObjectRef("kappa-platform.io/v1alpha1", *MAIN), spec=spec)
    await stage.turn(30)
    assert [each.closed for each in stage.made] == [1, 1, 0]


async def test_a_cluster_that_is_deleted_is_forgotten() -> None:
    stage = await start()
    await stage.turn()
    stage.operator.cluster.remove(ObjectRef("kappa-platform.io/v1alpha1", *MAIN))
    await stage.turn(1)
    assert stage.made[0].closed == 1
    assert stage.sampling.get(MAIN) is None


async def test_a_connection_that_cannot_be_closed_ends_nothing() -> None:
    stage = await start()
    await stage.turn()
    stage.made[0].bug = True
    stage.access = KafkaAccess.of({"bootstrap.servers": "kafka:9092", "sasl.password": "new"})
    await stage.turn(30)
    assert [each.samples for each in stage.made] == [1, 1]


async def test_neither_a_secret_that_is_missing_nor_a_bug_ends_the_sampling_and_both_make_all_unknown() -> (
    None
):
    stage = await start()
    for number, words in enumerate(("", 'Secret "login" not found', "", "ZeroDivisionError", "")):
        stage.problem = SecretProblem(words) if "Secret" in words else None
        if stage.made:
            stage.made[0].bug = "Zero" in words
        await stage.turn(30 * bool(number))
        found = stage.sampling.get(MAIN)
        assert found is not None
        assert bool(found.samples) == (not words)
        assert set(found.unknown) == (set() if not words else {PAIR})
        assert words in (found.failure or "")


async def test_a_cluster_that_goes_away_is_swept_on_so_that_nothing_old_is_believed() -> None:
    stage = await start()
    await stage.turn()
    stage.operator.brokers["kafka:9092"].trouble = BrokerUnreachable("away")
    await stage.operator.reconcile(MAIN)
    await stage.turn(30)
    assert stage.made[0].samples == 2


async def test_status_shows_the_last_sample_and_samples_write_no_status() -> None:
    stage = await start()
    await stage.turn()
    operator = stage.operator
    operator.context = replace(operator.context, get_lag=stage.sampling.get)
    await operator.reconcile(MAIN)
    status = (operator.get(MAIN) or {})["status"]
    assert status["lag"] == {
        "at": "2026-01-01T00:00:00Z",
        "milliseconds": 1500,
        "groups": 1,
        "partitions": 0,
        "unknown": 0,
    }
    writes = operator.cluster.fuse.writes
    stage.sampling._found[MAIN] = ClusterSample(START + timedelta(seconds=20), 3.0)
    operator.clock.advance(20)
    await operator.reconcile(MAIN)
    assert operator.cluster.fuse.writes == writes
    operator.clock.advance(40)
    await operator.reconcile(MAIN)
    assert (operator.get(MAIN) or {})["status"]["lag"]["milliseconds"] == 3000


@pytest.mark.parametrize(
    ("group", "kept"),
    [
        ("billing", True),
        ("billing-eu", True),
        ("billing-test", False),
        ("other", False),
        ("a[1]?", True),
        ("a1x", False),
    ],
)
def test_groups_are_chosen_by_name_or_pattern_and_only_the_star_is_special(group: str, kept: bool) -> None:
    sampling = LagSampling(include=("billing*", "a[1]?"), exclude=("*-test",))
    assert build_filter(sampling)(group) is kept


def test_all_groups_are_kept_by_default() -> None:
    assert build_filter(LagSampling())("any")
    assert not build_filter(LagSampling(exclude=("a*",)))("any")
