"""Brokers may be hostile: what the operator reads over its own connection has limits, and its decoders end at the end of a frame."""

import asyncio
import resource
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Uuid
from hypothesis import given
from hypothesis import strategies as st

from fleet.hostile_brokers import answer_metadata, serve_broker
from kappa_crds.reasons import Reason
from kappa_operator.engine.keys import Key
from kappa_operator.errors import BrokerUnreachable, KafkaFailure
from kappa_operator.kafka import clients, connection, frames
from kappa_operator.kafka.clients import AdminClients
from kappa_operator.kafka.config import _BASE
from kappa_operator.kafka.connection import Connection
from kappa_operator.kafka.encoding import Batches, Commits, CompactRows, Leaders, Replicas
from kappa_operator.kafka.metadata import _parse, check_metadata, count_topics
from kappa_operator.kafka.model import KafkaAccess
from lab.broker import free_ports

Write = Callable[[asyncio.StreamWriter, bytes], Awaitable[None]]


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


async def announce(writer: asyncio.StreamWriter, _: bytes) -> None:
    """A frame of 700 MB."""
    writer.write(struct.pack(">i", 700 * 2**20))
    while True:
        writer.write(b"\0" * 65536)
        await writer.drain()


async def negative(writer: asyncio.StreamWriter, _: bytes) -> None:
    writer.write(struct.pack(">i", -1))


async def drip(writer: asyncio.StreamWriter, _: bytes) -> None:
    writer.write(struct.pack(">i", 1000))
    while True:
        writer.write(b"\0")
        await writer.drain()
        await asyncio.sleep(0.02)


async def reset(writer: asyncio.StreamWriter, _: bytes) -> None:
    writer.transport.abort()


async def noise(writer: asyncio.StreamWriter, request: bytes) -> None:
    writer.write(frame(request[4:8] + b"\xff" * 100_000))


async def unasked(writer: asyncio.StreamWriter, _: bytes) -> None:
    writer.write(frame(b"\0" * 8) * 1000)


HOSTILE: dict[str, Write] = {
    "a frame of 700 MB": announce, "a negative length": negative, "a slow drip": drip, "a reset": reset,
    "noise": noise, "frames that were not requested": unasked,
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
async def test_a_hostile_broker_is_unreachable(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "TIMEOUT", 1.0)
    monkeypatch.setattr(frames, "_SECONDS", 0.5)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                await HOSTILE[case](writer, await reader.readexactly(size))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    settings = {"bootstrap.servers": address, "security.protocol": "plaintext", "client.id": "x"}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reached = Connection(KafkaAccess.of(settings), "shop")
    with pytest.raises(BrokerUnreachable):
        await count_topics(reached)
    await reached.close()
    server.close()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024, "kilobytes"


DECODERS: dict[str, Any] = {
    "leaders": Leaders(),
    "commits": Commits(),
    "replicas": Replicas(),
    "rows": CompactRows("ihqqi"),
    "batches": Batches,
}


@pytest.mark.parametrize("name", DECODERS)
@given(st.binary(max_size=300))
def test_every_decoder_ends_on_noise(name: str, noise: bytes) -> None:
    with suppress(ValueError, IndexError, struct.error):
        DECODERS[name].decode(BytesIO(noise))


def test_a_batch_with_a_negative_size_ends_the_list() -> None:
    """Its size led back to the same batch before, without end."""
    batch = struct.pack(">qiiBIhi", 0, -12, 0, 2, 0, 0, 0)
    assert Batches.decode(BytesIO(struct.pack(">i", len(batch)) + batch)) == []


def test_a_length_without_end_is_refused() -> None:
    entry = struct.pack(">hiii", 0, 0, 0, 0) + b"\xff" * 100_000
    with pytest.raises(ValueError, match="five bytes"):
        Leaders().decode(BytesIO(b"\x02" + entry))


def test_a_cluster_of_many_brokers_is_not_read() -> None:
    class Answer:
        brokers = range(501)
        topics = ()

    with pytest.raises(KafkaFailure, match="501 brokers"):
        check_metadata(Answer())


async def test_a_namespace_leaves_connections_for_others() -> None:
    (port,) = free_ports(1)
    access = KafkaAccess.of({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": "0"})
    kafka = AdminClients(most=6)
    for number in range(3):
        kafka.connect(Key("KafkaCluster", "busy", f"k{number}"), access)
    with pytest.raises(KafkaFailure, match="busy") as caught:
        kafka.connect(Key("KafkaCluster", "busy", "k3"), access)
    assert caught.value.reason is Reason.LIMIT_REACHED and caught.value.retryable
    kafka.connect(Key("KafkaCluster", "other", "k"), access)
    kafka.release(Key("KafkaCluster", "busy", "k0"))
    kafka.release(Key("KafkaCluster", "busy", "k1"))
    kafka.connect(Key("KafkaCluster", "busy", "k3"), access)
    await kafka.close()
    assert clients.MOST_CLIENTS == 100


@given(st.binary(min_size=16, max_size=16))
def test_ids_of_topics_are_written_as_the_library_does(identity: bytes) -> None:
    most, least = struct.unpack(">qq", identity)
    assert _parse(0, identity, []).topic_id == str(Uuid(most, least))


def test_the_fewest_replicas_of_a_partition_count() -> None:
    def entry(number: int, replicas: int) -> bytes:
        arrays = bytes([replicas + 1]) + b"\0\0\0\1" * replicas + b"\1\1"
        return struct.pack(">hiii", 0, number, 1, 0) + arrays + b"\0"

    rows = b"".join(entry(number, 3 if number != 4 else 2) for number in range(9))
    found = Replicas().decode(BytesIO(bytes([10]) + rows))
    assert found == [(number, 3 if number != 4 else 2) for number in range(9)]


async def test_the_client_of_a_cluster_with_many_brokers_is_closed() -> None:
    """The library starts a thread for each broker that a response names."""

    def count_threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    cluster, before = Key("KafkaCluster", "shop", "k"), count_threads()
    async with serve_broker(answer_metadata(400, 1), 0) as address:
        kafka = AdminClients()
        settings = {**_BASE, "bootstrap.servers": address, "security.protocol": "plaintext"}
        kafka.connect(cluster, KafkaAccess.of(settings))
        with pytest.raises(KafkaFailure, match="400 brokers") as caught:
            await kafka.describe_cluster(cluster)
        assert caught.value.reason is Reason.LIMIT_REACHED and not kafka.has(cluster)
        await kafka.close()
    assert count_threads() < before + 20


async def test_a_cluster_with_many_brokers_is_connected_to_again_much_later_or_with_other_settings() -> None:
    cluster, now = Key("KafkaCluster", "shop", "k"), 0.0
    access = KafkaAccess.of({**_BASE, "bootstrap.servers": "127.0.0.1:1", "security.protocol": "plaintext"})
    other = KafkaAccess.of({**_BASE, "bootstrap.servers": "127.0.0.1:2", "security.protocol": "plaintext"})
    kafka = AdminClients(clock=lambda: now)

    async def connect(access: KafkaAccess) -> bool:
        async def resolve() -> KafkaAccess:
            return access

        with suppress(KafkaFailure):
            await kafka.ensure(cluster, resolve, again=True)
        return kafka.has(cluster)

    def find_crowded() -> None:
        with pytest.raises(KafkaFailure, match="400 brokers"):
            kafka._count_brokers(cluster, 400)

    assert await connect(access)
    find_crowded()
    now = clients.CROWDED_FOR - 1
    assert not await connect(access)
    assert await connect(other)
    find_crowded()
    now = 2 * clients.CROWDED_FOR
    assert await connect(other)
    find_crowded()
    kafka.forget_refusal(cluster)
    assert await connect(other), "a new KafkaCluster of the same name"
    await kafka.close()


@pytest.mark.parametrize("answer", [answer_metadata(100_000, 1), answer_metadata(3, 1_000_000)])
async def test_large_metadata_is_refused_by_the_library(answer: Any) -> None:
    cluster = Key("KafkaCluster", "shop", "k")
    async with serve_broker(answer, 0) as address:
        kafka = AdminClients()
        settings = {**_BASE, "bootstrap.servers": address, "security.protocol": "plaintext"}
        kafka.connect(cluster, KafkaAccess.of(settings))
        with pytest.raises(KafkaFailure):
            await kafka.describe_cluster(cluster)
        await kafka.close()
