"""Consumer lag on a real broker: what the sampler says beside what a consumer reads, on logs of every kind."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from integration.lag_scenes import COMPACTED, Scene, every
from kappa_operator.kafka.configs import ConfigReader
from kappa_operator.kafka.connection import Connection
from kappa_operator.kafka.model import KafkaAccess
from kappa_operator.lag.brokers import Brokers
from kappa_operator.lag.model import ClusterSample, GroupPartition, Partition, Sample
from kappa_operator.lag.retentions import Retentions
from kappa_operator.lag.sampler import Sampler
from kappa_operator.lag.timestamps import NEWEST, Answer
from lab import acls
from lab.broker import Broker
from lab.shell import wait_until

pytestmark = pytest.mark.clusterless

GROUP = "reader"
PASSWORD = "s3cret-of-ann"
PROPERTIES = {
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "500",
    "log.cleaner.backoff.ms": "100",
    **acls.PROPERTIES,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(users={"ann": PASSWORD}, properties=PROPERTIES) as running:
        yield running


def plain(broker: Broker) -> KafkaAccess:
    settings = {"bootstrap.servers": broker.bootstrap, "security.protocol": "plaintext", "client.id": "test"}
    return KafkaAccess.of(settings)


def as_ann(broker: Broker) -> KafkaAccess:
    return KafkaAccess.of(
        {
            "bootstrap.servers": broker.sasl_bootstrap,
            "security.protocol": "sasl_plaintext",
            "client.id": "test",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ann",
            "sasl.password": PASSWORD,
        }
    )


@asynccontextmanager
async def sampling(
    access: KafkaAccess, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> AsyncIterator[Sampler]:
    sampler = Sampler(Brokers(Connection(access)), Retentions(ConfigReader(Connection(access))), now=now)
    yield sampler
    await sampler.close()


async def settle(sampler: Sampler) -> ClusterSample:
    """Sweep until what is asked only of groups that stand still has been asked."""
    for _ in range(12):
        sampled = await sampler.sample()
    assert sampled.failure is None
    return sampled


def set_stage(broker: Broker) -> Scene:
    """Fill fifty partitions. All timestamps are known, and so is where the group stands in each."""
    scene = Scene(broker.bootstrap)
    fill_plain(scene)
    fill_compacted(scene)
    fill_transactional(scene)
    scene.commit(GROUP, scene.positions)
    for number, before in ((0, 40), (1, 100)):
        scene.truncate(Partition("truncated", number), before)
    return scene


def fill_plain(scene: Scene) -> None:
    scene.make("steady", 20)
    scene.make("sparse", 6)
    scene.make("dense", 4)
    scene.make("idle", 6)
    scene.make("truncated", 2)
    for number in range(20):
        partition = Partition("steady", number)
        scene.write(partition, every(0.7 + number / 5, 200, last=3.0))
        scene.positions[partition] = number * 10
    for number in range(6):
        partition = Partition("sparse", number)
        scene.write(partition, every(1800, 12, last=600))
        scene.positions[partition] = number * 2 + 1
    for number in range(4):
        partition = Partition("dense", number)
        scene.write(partition, every(0.003, 3000, last=5.0 + number * 100))
        scene.positions[partition] = 700 * number + 3
    for number in range(6):
        partition = Partition("idle", number)
        scene.write(partition, every(1, 20, last=7200) if number else [])
        scene.positions[partition] = (0, 20, 20, 19, 0, 10)[number]
    for number in range(2):
        partition = Partition("truncated", number)
        scene.write(partition, every(5, 100, last=10))
        scene.positions[partition] = 10


def fill_compacted(scene: Scene) -> None:
    scene.make("compacted", 4, **{name.replace(".", "_"): value for name, value in COMPACTED.items()})
    for number in range(4):
        partition = Partition("compacted", number)
        scene.write(partition, every(20, 60, last=30), keys=5)
        scene.positions[partition] = (0, 30, 57, 60)[number]
    last = Partition("compacted", 3)
    wait_until(lambda: len(scene.read([last])[last]) < 30, "the log is compacted", seconds=60)


def fill_transactional(scene: Scene) -> None:
    """Commit two transactions of five records and a marker, abort a third one; in partition 4 one stays open.

    These are written now, some seconds apart: the broker gives markers the time of its own clock.
    """
    scene.make("transactional", 8)
    producer = scene.build_producer(transactional_id="writer")
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for _ in range(5):
            for number in range(8):
                scene.produce(producer, Partition("transactional", number))
        producer.flush(30)
        end(30)
        time.sleep(2.5)
    # Offsets 0-4, marker 5, 6-10, marker 11, aborted 12-16, marker 17.
    for number, position in enumerate((0, 5, 6, 11, 3, 18, 17, 12)):
        scene.positions[Partition("transactional", number)] = position
    hanging = scene.build_producer(transactional_id="hanging")
    hanging.init_transactions(30)
    hanging.begin_transaction()
    scene.produce(hanging, Partition("transactional", 4))
    assert hanging.flush(30) == 0
    HANGING.append(hanging)
    for _ in range(2):
        scene.write_now(Partition("transactional", 4))


ABORTED_NEXT = {Partition("transactional", 3), Partition("transactional", 7)}
"""Where nothing but records of an aborted transaction is left to read."""
HANGING: list[object] = []
"""A producer whose transaction stays open; it would end with the producer."""


@pytest.fixture(scope="module")
def scene(broker: Broker) -> Scene:
    return set_stage(broker)


def check_numbers(samples: Sequence[Sample]) -> None:
    for sample in samples:
        for value in (sample.behind, sample.loss):
            assert value is None or (math.isfinite(value) and value >= 0), sample
        assert sample.lag >= 0


async def test_on_fifty_partitions_records_are_exact_and_times_within_a_second(
    broker: Broker, scene: Scene
) -> None:
    async with sampling(plain(broker)) as sampler:
        sampled = await settle(sampler)
    samples = {pair.partition: each for pair, each in sampled.samples.items() if pair.group == GROUP}
    assert len(scene.positions) == 50
    assert samples.keys() >= scene.positions.keys()
    assert not sampled.unknown
    truth = await asyncio.to_thread(scene.read, list(scene.positions))
    check_numbers(list(samples.values()))
    wrong = []
    for partition, position in scene.positions.items():
        sample = samples[partition]
        left = {offset: stamp for offset, stamp in truth[partition].items() if offset >= position}
        behind = sample.at.timestamp() - left[min(left)] / 1000 if left else 0.0
        if partition in ABORTED_NEXT:
            assert sample.bound
        elif sample.behind is None or abs(sample.behind - behind) >= 1.0:
            wrong.append((partition, "time", sample.behind, behind))
        if not (sample.lag == len(left) or (sample.bound and sample.lag > len(left))):
            wrong.append((partition, "records", sample.lag, len(left)))
        if not sample.bound and partition.topic == "compacted" and left:
            wrong.append((partition, "not marked as a bound", sample.lag, len(left)))
    assert not wrong


async def test_a_group_before_markers_has_no_lag_and_only_aborted_records_raise_the_bound(
    broker: Broker, scene: Scene
) -> None:
    async with sampling(plain(broker)) as sampler:
        sampled = await settle(sampler)
    found = {
        number: sampled.samples[GroupPartition(GROUP, Partition("transactional", number))].lag
        for number in range(8)
    }
    # 15 records, five of them aborted, before the end at 18; in partition 4 the open transaction at 18 ends what can be read.
    assert found == {0: 15, 1: 10, 2: 10, 3: 5, 4: 12, 5: 0, 6: 0, 7: 5}


async def test_brokers_answer_with_a_marker_as_with_a_record(broker: Broker, scene: Scene) -> None:
    """So a marker cannot be told from a record by DESCRIBE rights; should this ever fail, it can."""
    partition, marker = Partition("transactional", 6), 17
    brokers = Brokers(Connection(plain(broker)))
    leaders = (await brokers.read_topology()).leaders
    newest = (await brokers.find_stamps(leaders, {partition: NEWEST}))[partition]
    assert isinstance(newest, Answer)
    assert newest.offset == marker
    assert (await brokers.find_stamps(leaders, {partition: newest.stamp}))[partition] == (
        newest.stamp,
        marker,
        newest.stamp,
    )
    await brokers.close()


async def test_what_was_truncated_is_lost_and_no_longer_counted(broker: Broker, scene: Scene) -> None:
    async with sampling(plain(broker)) as sampler:
        sampled = await settle(sampler)
    first, all_gone = (
        sampled.samples[GroupPartition(GROUP, Partition("truncated", number))] for number in range(2)
    )
    assert (first.lag, first.lost, first.loss) == (60, 30, 0.0)
    assert (all_gone.lag, all_gone.lost, all_gone.loss, all_gone.behind) == (0, 90, 0.0, 0.0)


async def test_a_group_without_commits_is_listed_without_a_zero(broker: Broker, scene: Scene) -> None:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "silent", "enable.auto.commit": False}
    )
    consumer.subscribe(["steady"])
    await asyncio.to_thread(consumer.poll, 5.0)
    scene.commit("half", {Partition("idle", 1): 5})
    async with sampling(plain(broker)) as sampler:
        sampled = await sampler.sample()
    await asyncio.to_thread(consumer.close)
    assert "silent" in sampled.groups
    assert not [pair for pair in sampled.samples if pair.group == "silent"]
    other = sampled.samples[GroupPartition("half", Partition("idle", 2))]
    assert (other.committed, other.behind) == (None, None)


async def test_a_group_ahead_of_a_recreated_topic_is_not_up_to_date(broker: Broker, scene: Scene) -> None:
    partition = Partition("anew", 0)
    pair = GroupPartition("ahead", partition)
    scene.make("anew", 1)
    scene.write(partition, every(1, 100, last=10))
    scene.commit("ahead", {partition: 50})
    async with sampling(plain(broker)) as sampler:
        before = (await sampler.sample()).samples[pair]
        await asyncio.to_thread(scene.delete, "anew")
        while_gone = await sampler.sample()
        scene.make("anew", 1)
        scene.write(partition, every(1, 20, last=500))
        scene.commit("ahead", {partition: 50})
        ahead = (await sampler.sample()).samples[pair]
        scene.commit("ahead", {partition: 10})
        again = (await sampler.sample()).samples[pair]
    assert (before.lag, before.ahead) == (50, 0)
    assert pair not in while_gone.samples
    assert (ahead.lag, ahead.ahead, ahead.behind) == (0, 30, None)
    assert again.lag == 10
    assert again.behind == pytest.approx(again.at.timestamp() - scene.now / 1000 + 509, abs=1)


async def test_a_timestamp_from_the_future_makes_times_unknown_and_nothing_else(
    broker: Broker, scene: Scene
) -> None:
    partition = Partition("future", 0)
    scene.make("future", 1)
    scene.write(partition, [*every(10, 10, last=100), -1800, 60, 50])
    scene.commit("before", {partition: 3})
    scene.commit("after", {partition: 11})
    async with sampling(plain(broker)) as sampler:
        sampled = await settle(sampler)
    before, after = (sampled.samples[GroupPartition(group, partition)] for group in ("before", "after"))
    assert before.behind == pytest.approx(before.at.timestamp() - scene.now / 1000 + 160, abs=1)
    assert (after.lag, after.behind, after.loss) == (2, None, None)


async def test_a_clock_that_jumps_makes_no_nonsense(broker: Broker, scene: Scene) -> None:
    jump = timedelta()
    async with sampling(plain(broker), lambda: datetime.now(UTC) + jump) as sampler:
        await settle(sampler)
        for jump in (timedelta(days=-1), timedelta(days=30), timedelta()):
            sampled = await sampler.sample()
            check_numbers(list(sampled.samples.values()))
            if jump < timedelta():
                waiting = [each for each in sampled.samples.values() if each.lag]
                assert waiting
                assert all(each.behind is None and each.loss in (None, 0.0) for each in waiting)
    pair = GroupPartition(GROUP, Partition("steady", 10))
    truth = datetime.now(UTC).timestamp() - scene.now / 1000 + 3 + 2.7 * 99
    assert sampled.samples[pair].behind == pytest.approx(truth, abs=2)


async def test_time_to_loss_by_age_and_by_deletion_is_correct_within_a_tenth(broker: Broker) -> None:
    scene = Scene(broker.bootstrap)
    aged, cut = Partition("aged", 0), Partition("cut", 0)
    scene.make("aged", 1, retention_ms="40000", segment_ms="1000")
    scene.make("cut", 1, retention_ms="-1")
    scene.write(aged, every(0.1, 200, last=0))
    scene.write(cut, every(0.1, 4000, last=0))
    scene.commit("doomed", {aged: 150, cut: 2500})
    async with sampling(plain(broker)) as sampler:
        began = time.monotonic()
        cutting = asyncio.create_task(cut_evenly(scene, cut))
        for _ in range(8):
            await asyncio.sleep(1)
            sampled = await sampler.sample()
        said_at = time.monotonic()
        said = {
            partition: sampled.samples[GroupPartition("doomed", partition)].loss for partition in (aged, cut)
        }
        lost: dict[Partition, float] = {}
        while len(lost) < 2 and time.monotonic() < began + 60:
            sampled = await sampler.sample()
            for partition in (aged, cut):
                if sampled.samples[GroupPartition("doomed", partition)].lost:
                    lost.setdefault(partition, time.monotonic() - said_at)
            await asyncio.sleep(0.1)
        cutting.cancel()
    assert lost.keys() == {aged, cut}
    for partition, after in lost.items():
        assert said[partition] == pytest.approx(after, rel=0.1), partition


async def cut_evenly(scene: Scene, partition: Partition) -> None:
    """Delete fifty records every half second."""
    began, before = time.monotonic(), 0
    while True:
        before += 50
        await asyncio.to_thread(scene.truncate, partition, before)
        await asyncio.sleep(max(0.0, began + before / 100 - time.monotonic()))


async def test_describe_permissions_are_sufficient(broker: Broker, scene: Scene) -> None:
    rights = [
        (ResourceType.TOPIC, "steady", AclOperation.DESCRIBE),
        (ResourceType.TOPIC, "transactional", AclOperation.DESCRIBE),
        (ResourceType.TOPIC, "steady", AclOperation.DESCRIBE_CONFIGS),
        (ResourceType.GROUP, GROUP, AclOperation.DESCRIBE),
    ]
    bindings = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, "User:ann", "*", may, AclPermissionType.ALLOW)
        for kind, name, may in rights
    ]
    for future in scene.admin.create_acls(bindings).values():
        future.result()
    await asyncio.sleep(0.5)
    async with sampling(as_ann(broker)) as sampler:
        sampled = await settle(sampler)
    assert {pair.partition.topic for pair in sampled.samples} == {"steady", "transactional"}
    assert sampled.groups == {GROUP}
    waiting = sampled.samples[GroupPartition(GROUP, Partition("steady", 3))]
    assert waiting.lag == 170
    assert waiting.behind is not None
    assert waiting.behind == pytest.approx(waiting.at.timestamp() - scene.now / 1000 + 3 + 1.3 * 169, abs=1)
    assert waiting.loss == pytest.approx(7 * 86_400 - waiting.behind)
    before_marker = sampled.samples[GroupPartition(GROUP, Partition("transactional", 6))]
    assert (before_marker.lag, before_marker.bound, before_marker.loss) == (1, True, None)


async def test_a_broker_that_is_away_makes_all_unknown_and_comes_back(broker: Broker, scene: Scene) -> None:
    """Last in this file: the broker is a new process afterwards."""
    async with sampling(plain(broker)) as sampler:
        before = await sampler.sample()
        broker.kill()
        away = await sampler.sample()
        still = await sampler.sample()
        await asyncio.to_thread(broker.start)
        back = await sampler.sample()
        for _ in range(20):
            if back.samples.keys() >= before.samples.keys():
                break
            await asyncio.sleep(0.5)
            back = await sampler.sample()
    for sampled in (away, still):
        assert not sampled.samples
        assert sampled.failure is not None
        assert set(sampled.unknown) == set(before.samples)
        assert set(sampled.unread) == before.groups
    assert back.samples.keys() >= before.samples.keys()
    pair = GroupPartition(GROUP, Partition("steady", 3))
    assert back.samples[pair].lag == before.samples[pair].lag
