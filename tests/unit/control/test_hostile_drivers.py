"""Drivers run code of tenants: what they answer has limits of bytes, time, depth and length, and none of it reaches a status."""

import asyncio
import gzip
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import aiohttp
import pytest

from kappa_crds.progress import Progress, SourceProgress
from kappa_operator.answers import SMALL, AnswerBudget, AnswerRefused
from kappa_operator.engine.keys import Key
from kappa_operator.errors import DriverUnreachable
from kappa_operator.pipeline import drivers
from kappa_operator.pipeline.drivers import ControlAccess, HttpDrivers, open_session
from kappa_operator.pipeline.progress_cache import ProgressCache
from unit.control.pipelines import running

Fetch = Callable[..., Awaitable[Progress]]
Write = Callable[[asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\n"
REPORT = running().model_dump_json(by_alias=True).encode()


@asynccontextmanager
async def serve(write: Write, monkeypatch: pytest.MonkeyPatch, seconds: float = 60.0) -> AsyncIterator[Fetch]:
    """Answer every request by `write`; the client gives up after some seconds."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            await write(writer)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    monkeypatch.setattr(drivers, "_LIMITS", aiohttp.ClientTimeout(total=seconds))
    async with open_session() as session:
        yield partial(HttpDrivers(session).fetch_progress, f"http://127.0.0.1:{port}", ControlAccess("t"))
    server.close()


def send(*parts: bytes) -> Write:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.writelines(parts)
        await writer.drain()

    return write


def send_json(text: bytes) -> Write:
    return send(OK, b"Content-Length: %d\r\n\r\n" % len(text), text)


async def send_endlessly(writer: asyncio.StreamWriter) -> None:
    writer.write(OK + b"Connection: close\r\n\r\n")
    while True:
        writer.write(b" " * 65536)
        await writer.drain()


async def send_endless_headers(writer: asyncio.StreamWriter) -> None:
    writer.write(OK)
    while True:
        writer.write(b"X-Header: value\r\n" * 1000)
        await writer.drain()


async def drip(writer: asyncio.StreamWriter) -> None:
    writer.write(OK + b"Content-Length: 100000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.05)


async def reset(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


BOMB = gzip.compress(b" " * 2**26)
HOSTILE = {
    "an endless body": send_endlessly,
    "endless headers": send_endless_headers,
    "one header without an end": send(OK, b"X: " + b"x" * 2**22),
    "a slow drip": drip,
    "a reset": reset,
    "a gzip bomb": send(OK, b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB), BOMB),
    "a length of an exabyte": send(OK, b"Content-Length: 1000000000000000000\r\n\r\n", b" " * 2**22),
    "a length that is no number": send(OK, b"Content-Length: 9" + b"9" * 5000 + b"\r\n\r\n"),
    "deep JSON": send_json(b"[" * 10**6),
    "deep JSON in a field": send_json(REPORT[:-1] + b',"more":' + b"[" * 10**5 + b"]" * 10**5 + b"}"),
    "a million errors": send_json(b'{"queries":[' + b"{}," * (2**19) + b"{}]}"),
    "errors in a dictionary": send_json(
        REPORT[:-1] + b',"queries":[{"sources":[{"endOffsets":{"a":{' + b'"":"",' * 2**18 + b'"":""}}}]}]}'
    ),
    "a long list of queries": send_json(REPORT[:-1] + b',"queries":[' + b"1," * 10**5 + b"1]}"),
    "a redirect": send(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"),
    "a failure with a text": send(b"HTTP/1.1 500 No\r\nContent-Length: 6\r\n\r\nfoobar"),
}


@pytest.mark.parametrize("case", HOSTILE)
async def test_a_hostile_answer_is_no_report(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with serve(HOSTILE[case], monkeypatch, 1.0) as fetch:
        with pytest.raises(DriverUnreachable) as caught:
            await fetch(namespace="shop")
        assert len(caught.value.message) < 300 and "foobar" not in caught.value.message
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200 * 1024, "kilobytes, with those of the server in this process"


async def test_unknown_fields_of_a_report_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(send_json(REPORT[:-1] + b',"more":[[],[],[]]}'), monkeypatch) as fetch:
        assert await fetch() == running()


def test_answers_of_a_namespace_leave_room_for_those_of_others() -> None:
    budget = AnswerBudget(total=100 * SMALL)
    with budget.hold("large", 100 * SMALL) as one, budget.hold("large", 100 * SMALL) as two:
        one.add(40 * SMALL)
        with pytest.raises(AnswerRefused, match="large"):
            two.add(11 * SMALL)
        with budget.hold("other", 100 * SMALL) as other:
            other.add(20 * SMALL)
    with budget.hold("large", 100 * SMALL) as again:
        again.add(50 * SMALL)


def test_small_answers_are_never_refused_because_of_large_ones() -> None:
    budget = AnswerBudget(total=10 * SMALL)
    with budget.hold("large", 100 * SMALL) as large:
        large.add(5 * SMALL)
        with budget.hold("large", 100 * SMALL) as small:
            small.add(SMALL)


def report(offsets: int) -> Progress:
    source = SourceProgress(name="s", topic="t", end_offsets={"t": dict.fromkeys(range(offsets - 1), 0)})
    (query,) = running().queries
    return running(queries=(query.replace(sources=(source,)),))


def test_reports_of_a_namespace_leave_room_for_those_of_others() -> None:
    cache = ProgressCache(most=3 * 100)
    large, more, other = (Key("Pipeline", *name) for name in (("a", "large"), ("a", "more"), ("b", "other")))
    assert cache.has_room(large, report(40))
    assert not cache.has_room(more, report(20)), "its namespace has half of all already"
    assert cache.has_room(large, report(45)), "a report replaces the one before"
    assert cache.has_room(other, report(20))
    cache.forget(large)
    assert cache.has_room(more, report(30))
