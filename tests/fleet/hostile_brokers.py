"""Brokers that answer the first requests as Kafka does, and then attack who asked."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

Answer = Callable[[asyncio.StreamWriter, int, bytes], Awaitable[None]]
API_VERSIONS, METADATA = 18, 3
_UNSUPPORTED = 35
_VERSIONS = {0: (0, 3), 1: (0, 4), 2: (0, 1), 3: (0, 1), 18: (0, 0), 19: (0, 1), 32: (0, 1)}


def frame(correlation: bytes, body: bytes) -> bytes:
    """Return a response."""
    return struct.pack(">i", len(body) + 4) + correlation + body


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def build_versions(version: int) -> bytes:
    """Return the versions of requests; those of a newer request are refused, and the client asks again."""
    error = 0 if version == 0 else _UNSUPPORTED
    found = b"".join(struct.pack(">hhh", key, *pair) for key, pair in _VERSIONS.items())
    return struct.pack(">hi", error, len(_VERSIONS)) + found


def build_metadata(brokers: int, partitions: int) -> bytes:
    """Return metadata in version 1, with one topic."""
    hosts = (
        struct.pack(">i", number) + text("127.0.0.1") + struct.pack(">ih", 9, -1) for number in range(brokers)
    )
    rows = (struct.pack(">hiiii", 0, number, 0, 0, 0) for number in range(partitions))
    topic = (
        struct.pack(">h", 0)
        + text("__consumer_offsets")
        + b"\0"
        + struct.pack(">i", partitions)
        + b"".join(rows)
    )
    return struct.pack(">i", brokers) + b"".join(hosts) + struct.pack(">ii", 0, 1) + topic


def answer_metadata(brokers: int, partitions: int) -> Answer:
    """Return a broker whose cluster has so many brokers and partitions."""
    body = build_metadata(brokers, partitions)

    async def answer(writer: asyncio.StreamWriter, key: int, request: bytes) -> None:
        version = struct.unpack_from(">h", request, 2)[0]
        writer.write(frame(request[4:8], build_versions(version) if key == API_VERSIONS else body))

    return answer


async def announce(writer: asyncio.StreamWriter, key: int, request: bytes) -> None:
    """Send a frame of 700 MB."""
    writer.write(struct.pack(">i", 700 * 2**20))
    while True:
        writer.write(b"\0" * 65536)
        await writer.drain()


async def announce_metadata(writer: asyncio.StreamWriter, key: int, request: bytes) -> None:
    """Send the largest frame that is read, slowly."""
    if key == API_VERSIONS:
        writer.write(frame(request[4:8], build_versions(struct.unpack_from(">h", request, 2)[0])))
        return
    writer.write(struct.pack(">i", 2**20))
    for _ in range(1000):
        writer.write(b"\0" * 1000)
        await writer.drain()
        await asyncio.sleep(0.02)


async def reset(writer: asyncio.StreamWriter, key: int, request: bytes) -> None:
    """End the connection."""
    writer.transport.abort()


async def keep_silent(writer: asyncio.StreamWriter, key: int, request: bytes) -> None:
    """Answer nothing."""
    await asyncio.sleep(3600)


@asynccontextmanager
async def serve_broker(answer: Answer, port: int) -> AsyncIterator[str]:
    """Answer each request; yield the address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                request = await reader.readexactly(size)
                await answer(writer, struct.unpack_from(">h", request)[0], request)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
