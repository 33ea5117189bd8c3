"""Requests to drivers: those that do not answer keep no other driver waiting, and the token is sent to the right one only."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest

from kappa_crds.progress import DriverRole, InputVector
from kappa_operator.certificates.issue import create_self_signed
from kappa_operator.errors import DriverUnreachable
from kappa_operator.pipeline import drivers
from kappa_operator.pipeline.drivers import ControlAccess, HttpDrivers, open_session
from kappa_operator.tls import build_context, load_pair
from unit.control.pipelines import NOW, running

ACCESS = ControlAccess("t")
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
async def drivers_up() -> AsyncIterator[int]:
    """127.0.0.1 answers; the addresses in SILENT take connections and requests, and never answer."""
    healthy = await asyncio.start_server(answer, "127.0.0.1", 0)
    port: int = healthy.sockets[0].getsockname()[1]
    silent = await asyncio.start_server(keep_silent, SILENT, port)
    yield port
    healthy.close()
    silent.close()


async def test_drivers_that_do_not_answer_keep_no_other_one_waiting(drivers_up: int) -> None:
    async with open_session() as session:
        client = HttpDrivers(session)
        waiting = [
            asyncio.create_task(client.fetch_progress(f"http://{address}:{drivers_up}", ACCESS))
            for address in SILENT
        ]
        await asyncio.sleep(0)
        assert await client.fetch_progress(f"http://127.0.0.1:{drivers_up}", ACCESS) == running()
        assert not any(each.done() for each in waiting), "the healthy driver answers first"
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_driver_that_does_not_answer_is_unreachable(
    drivers_up: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "_LIMITS", aiohttp.ClientTimeout(total=0.1))
    async with open_session() as session:
        with pytest.raises(DriverUnreachable, match=r"127\.0\.1\.1"):
            await HttpDrivers(session).fetch_progress(f"http://127.0.1.1:{drivers_up}", ACCESS)


class Secured:
    """A driver with a certificate of its own, which notes the requests that it received."""

    def __init__(self) -> None:
        self.pair = create_self_signed("delays.flights.pipeline", NOW)
        self.requests: list[bytes] = []

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        tls = build_context()
        load_pair(tls, self.pair.certificate, self.pair.key)
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, ssl=tls)
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            body = running().model_dump_json(by_alias=True).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            await writer.drain()
        writer.close()


@pytest.mark.parametrize("kept", ["now", "until a moment ago", "first an unreadable one"])
async def test_a_driver_is_known_by_the_certificate_of_its_pipeline(kept: str) -> None:
    driver, other = Secured(), create_self_signed("delays.flights.pipeline", NOW).certificate
    own = driver.pair.certificate
    known = {"now": (own,), "until a moment ago": (other, own), "first an unreadable one": ("no PEM", own)}
    async with driver.serve() as address, open_session() as session:
        report = await HttpDrivers(session).fetch_progress(address, ControlAccess("t", known[kept]))
    assert report == running()
    assert [b"Bearer t" in each for each in driver.requests] == [True]


@pytest.mark.parametrize("known", [True, False], ids=["another certificate", "none"])
async def test_a_server_with_another_certificate_gets_no_token(known: bool) -> None:
    driver, other = Secured(), create_self_signed("delays.flights.pipeline", NOW).certificate
    access = ControlAccess("t", (other,) if known else ())
    async with driver.serve() as address, open_session() as session:
        client = HttpDrivers(session)
        with pytest.raises(DriverUnreachable, match="does not serve the certificate"):
            await client.fetch_progress(address, access)
        with pytest.raises(DriverUnreachable, match="does not serve the certificate"):
            await client.stop(address, access, 1.0)
    assert driver.requests == []


class Steered:
    """A driver that answers each request with a status, and notes it."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.requests: list[tuple[str, bytes]] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next((line for line in head.splitlines() if line.lower().startswith("content-length")), ":0")
        body = await reader.readexactly(int(length.partition(":")[2]))
        self.requests.append((head.splitlines()[0].removesuffix(" HTTP/1.1"), body))
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\n{}" % self.status)
        writer.close()


async def steer(client: HttpDrivers, at: str) -> None:
    await client.hold(at, ACCESS, 60.4)
    await client.advance(at, ACCESS, CUT)
    await client.resume(at, ACCESS)
    await client.set_role(at, ACCESS, DriverRole.SHADOW)


CUT = InputVector(offsets={"flights": {0: 5, 1: 7}}, idle={"flights": 9})


async def test_a_driver_gets_the_cut_that_it_has_to_reach() -> None:
    driver = Steered(202)
    server = await asyncio.start_server(driver, "127.0.0.1", 0)
    async with open_session() as session, server:
        await steer(HttpDrivers(session), f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    paths = [path for path, _ in driver.requests]
    assert paths == ["POST /hold?seconds=60", "POST /advance", "POST /continue", "POST /role?role=shadow"]
    assert InputVector.model_validate_json(driver.requests[1][1]) == CUT


@pytest.mark.parametrize(("status", "retryable"), [(404, False), (400, False), (409, True), (503, True)])
async def test_a_driver_that_cannot_hold_is_not_asked_again_and_one_that_does_not_hold_is(
    status: int, retryable: bool
) -> None:
    server = await asyncio.start_server(Steered(status), "127.0.0.1", 0)
    async with open_session() as session, server:
        with pytest.raises(DriverUnreachable, match=str(status)) as failed:
            await steer(HttpDrivers(session), f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert failed.value.retryable is retryable
