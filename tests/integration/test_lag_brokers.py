"""Consumer lag where one of two brokers goes: what was its own is unknown, by name, and nothing else is."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from integration.lag_scenes import Scene, every
from kappa_operator.kafka.configs import ConfigReader
from kappa_operator.kafka.connection import Connection
from kappa_operator.kafka.model import KafkaAccess
from kappa_operator.lag.brokers import Brokers
from kappa_operator.lag.model import ClusterSample, GroupPartition, Partition
from kappa_operator.lag.retentions import Retentions
from kappa_operator.lag.sampler import Sampler
from lab.broker import Broker

pytestmark = pytest.mark.clusterless

PARTITIONS = [Partition("spread", number) for number in range(6)]
GROUPS = [f"group-{number}" for number in range(12)]


@pytest.fixture
def brokers() -> Iterator[tuple[Broker, Broker]]:
    with Broker() as first, Broker(joins=first) as second:
        yield first, second


async def sweep_until(sampler: Sampler, holds: Callable[[ClusterSample], bool]) -> ClusterSample:
    for _ in range(60):
        sampled = await sampler.sample()
        if holds(sampled):
            return sampled
        await asyncio.sleep(0.5)
    raise AssertionError(sampled)


async def test_what_a_broker_had_is_unknown_while_it_is_away(brokers: tuple[Broker, Broker]) -> None:
    first, second = brokers
    scene = Scene(first.bootstrap)
    scene.make("spread", len(PARTITIONS))
    for partition in PARTITIONS:
        scene.write(partition, every(1, 10, last=5))
    for group in GROUPS:
        scene.commit(group, dict.fromkeys(PARTITIONS, 4))
    settings = {"bootstrap.servers": first.bootstrap, "security.protocol": "plaintext", "client.id": "test"}
    access = KafkaAccess.of(settings)
    sampler = Sampler(Brokers(Connection(access)), Retentions(ConfigReader(Connection(access))))
    pairs = {GroupPartition(group, partition) for group in GROUPS for partition in PARTITIONS}
    try:
        before = await sweep_until(sampler, lambda sampled: set(sampled.samples) == pairs)
        assert {each.lag for each in before.samples.values()} == {6}
        second.kill()
        for _ in range(8):
            away = await sampler.sample()
            assert away.failure is None
            assert set(away.samples) | set(away.unknown) == pairs
            assert {each.lag for each in away.samples.values()} <= {6}
            await asyncio.sleep(0.5)
        assert 0 < len(away.unavailable) < len(PARTITIONS)
        assert 0 < len(away.unread) < len(GROUPS)
        assert 0 < len(away.samples) < len(pairs)
        assert all(away.unknown.values())
        await asyncio.to_thread(second.start)
        back = await sweep_until(sampler, lambda sampled: set(sampled.samples) == pairs)
        assert {each.lag for each in back.samples.values()} == {6}
        assert not back.unknown
    finally:
        await sampler.close()
