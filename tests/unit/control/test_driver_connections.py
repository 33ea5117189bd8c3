"""Requests to drivers: those that do not answer keep no other driver waiting."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from kappa_operator.errors import DriverUnreachable
from kappa_operator.pipeline import drivers
from kappa_operator.pipeline.drivers import HttpDrivers, open_session
from unit.control.pipelines import running

SILENT = [f"127.0.1.{number}" for number in range(1, 151)]


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    body = running().model_dump_json(by_alias=True).encode()
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    writer.close()


async def keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


@pytest.fixture
async def drivers_up(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """127.0.0.1 answers; the addresses in SILENT take connections and requests, and never answer."""
    healthy = await asyncio.start_server(answer, "127.0.0.1", 0)
    port: int = healthy.sockets[0].getsockname()[1]
    monkeypatch.setattr(drivers, "CONTROL_PORT", port)
    silent = await asyncio.start_server(keep_silent, SILENT, port)
    yield
    healthy.close()
    silent.close()


async def test_drivers_that_do_not_answer_keep_no_other_one_waiting(drivers_up: None) -> None:
    async with open_session() as session:
        client = HttpDrivers(session)
        waiting = [asyncio.create_task(client.fetch_progress(address, "t")) for address in SILENT]
        await asyncio.sleep(0)
        assert await client.fetch_progress("127.0.0.1", "t") == running()
        assert not any(each.done() for each in waiting), "the healthy driver answers first"
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_driver_that_does_not_answer_is_unreachable(
    drivers_up: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "_LIMITS", aiohttp.ClientTimeout(total=0.1))
    async with open_session() as session:
        with pytest.raises(DriverUnreachable, match=r"127\.0\.1\.1"):
            await HttpDrivers(session).fetch_progress("127.0.1.1", "t")
