"""A tenant may run Kafka Connect: its answers have limits, and none of their text reaches a message."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest

from kappa_operator.connect.client import LARGEST, HttpConnect
from kappa_operator.connect.model import ConnectAccess
from kappa_operator.errors import (
    ConnectBusy,
    ConnectFailure,
    ConnectorNotFound,
    ConnectRefused,
    ConnectUnreachable,
)

Write = Callable[[asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\n"
SECRET = b"the-text-of-a-database"
SHORT, LONG = 1.0, 60.0
"""Seconds for an answer: until one that never ends is given up, and for one that is to be read, on a machine that does much else."""


@asynccontextmanager
async def serve(
    write: Write, seconds: float = LONG
) -> AsyncIterator[tuple[HttpConnect, ConnectAccess, list[bytes]]]:
    """Answer every request by `write`; yield a client, its access, and what was sent."""
    requests: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            requests.append(await reader.readuntil(b"\r\n\r\n"))
            await write(writer)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    client = HttpConnect(aiohttp.ClientTimeout(total=seconds))
    port = server.sockets[0].getsockname()[1]
    yield client, ConnectAccess(f"http://127.0.0.1:{port}", None, None, None, "me", "pass"), requests
    await client.close()
    server.close()


def send(*parts: bytes) -> Write:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.writelines(parts)
        await writer.drain()

    return write


def send_body(body: bytes, *headers: bytes, status: bytes = OK) -> Write:
    lines = b"".join(header + b"\r\n" for header in headers)
    return send(status, lines, b"Content-Length: %d\r\n\r\n" % len(body), body)


async def send_endlessly(writer: asyncio.StreamWriter) -> None:
    writer.write(OK + b"Connection: close\r\n\r\n")
    while True:
        writer.write(b"[" * 65536)
        await writer.drain()


async def stay_silent(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


@pytest.mark.parametrize(
    "write",
    [
        send_endlessly,
        stay_silent,
        send_body(b" " * (LARGEST + 1)),
        send_body(gzip.compress(b'{"version": "1"}'), b"Content-Encoding: gzip"),
        send_body(b'{"version": ' + b"[" * 20_000),
        send_body(b'{"version": ' + b"[" * 5_000 + b"]" * 5_000 + b"}"),
        send_body(b'{"version": "' + b"x" * 4096 + b'"}'),
        send_body(b"no json: " + SECRET),
        send_body(b"", b"Location: http://127.0.0.1:1/", status=b"HTTP/1.1 302 Found\r\n"),
        send_body(SECRET, status=b"HTTP/1.1 500 Oops\r\n"),
        send(b"no HTTP at all"),
    ],
    ids=["endless", "silent", "large", "compressed", "open", "deep", "long", "text", "redirect", "error", "raw"],
)  # fmt: skip
async def test_an_answer_beyond_a_limit_is_an_error_without_its_text(write: Write) -> None:
    async with serve(write, SHORT) as (client, access, _):
        with pytest.raises(ConnectUnreachable) as raised:
            await client.get_info(access)
    assert SECRET.decode() not in raised.value.message
    assert len(raised.value.message) < 300


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, ConnectRefused), (403, ConnectRefused), (404, ConnectorNotFound), (409, ConnectBusy), (429, ConnectUnreachable), (503, ConnectUnreachable)],
)  # fmt: skip
async def test_a_status_becomes_an_error_of_ours(status: int, error: type[ConnectFailure]) -> None:
    write = send_body(SECRET, status=b"HTTP/1.1 %d No\r\n" % status)
    async with serve(write) as (client, access, _):
        with pytest.raises(error) as raised:
            await client.get_status(access, "shop")
    assert SECRET.decode() not in raised.value.message
    assert raised.value.retryable == (error is not ConnectRefused)


async def test_names_are_quoted_and_the_log_in_is_sent() -> None:
    async with serve(send_body(b'{"connector": {"state": "RUNNING"}, "tasks": []}')) as (
        client,
        access,
        requests,
    ):
        await client.get_status(access, "../plugins?x")
    assert requests[0].startswith(b"GET /connectors/..%2Fplugins%3Fx/status HTTP/1.1")
    assert b"Authorization: Basic bWU6cGFzcw==" in requests[0]
    assert "pass" not in repr(access)


async def test_a_connector_that_is_gone_is_deleted() -> None:
    async with serve(send_body(b"", status=b"HTTP/1.1 404 No\r\n")) as (client, access, _):
        await client.delete(access, "shop")


async def test_errors_of_a_validation_are_names_only() -> None:
    body = b'{"configs": [{"value": {"name": "database.hostname", "errors": ["%s"]}}, {"value": {"name": "topic.prefix", "errors": []}}]}'
    async with serve(send_body(body % SECRET)) as (client, access, _):
        found = await client.validate(access, "shop", {"connector.class": "a.B"})
    assert found.refused == ("database.hostname",)


async def test_a_property_that_a_connector_does_not_validate_is_no_error() -> None:
    """Debezium's connector for MySQL declares one, and has no value for it."""
    body = b'{"configs": [{"definition": {}, "value": null}, {"value": {"name": "topic.prefix", "errors": ["no"]}}]}'
    async with serve(send_body(body)) as (client, access, _):
        found = await client.validate(access, "shop", {"connector.class": "a.B"})
    assert found.refused == ("topic.prefix",)
