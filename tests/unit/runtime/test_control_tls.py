"""The control port with TLS: it serves the certificate of the mounted Secret, a renewed one too, and metrics nowhere else."""

import http.client
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from kappa_operator.errors import DriverUnreachable
from kappa_operator.pipeline.drivers import ControlAccess, HttpDrivers, open_session
from kappa_pipelines.reporting.certificate import build_context, has_certificate
from kappa_pipelines.reporting.control import ControlServer
from lab.pki import make_authority, make_certificate
from unit.runtime.test_control import Doors


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_authority(tmp_path, "test")
    make_certificate(tmp_path, "tls", "/CN=driver", "DNS:driver")
    (tmp_path / "token").write_text("right")
    return tmp_path


@pytest.fixture
def port(folder: Path) -> Iterator[int]:
    app = Starlette(routes=[Route("/", lambda _: PlainTextResponse("ok"))])
    server = ControlServer(app, 0, host="127.0.0.1", tls=build_context(folder))
    server.start()
    yield server.port
    server.close()


def request(port: int) -> bytes:
    """Send a request by a new connection, as the operator does without a name; return the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10)
    connection.request("GET", "/")
    assert connection.getresponse().status == 200
    found = connection.sock.getpeercert(binary_form=True)
    connection.close()
    assert found is not None
    return found


def read(folder: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert((folder / "tls.crt").read_text())


def test_a_renewed_certificate_is_served_without_a_restart_and_without_a_failed_request(
    folder: Path, port: int
) -> None:
    first = read(folder)
    assert {request(port) for _ in range(3)} == {first}
    make_certificate(folder, "tls", "/CN=driver", "DNS:driver")
    assert read(folder) != first
    assert {request(port) for _ in range(3)} == {read(folder)}


@pytest.mark.parametrize("broken", ["key of another", "no text", "gone"])
def test_while_the_files_do_not_fit_the_last_certificate_is_served(
    folder: Path, port: int, broken: str
) -> None:
    first = read(folder)
    key = (folder / "tls.key").read_bytes()
    make_certificate(folder, "tls", "/CN=driver", "DNS:driver")
    second = (folder / "tls.key").read_bytes()
    match broken:
        case "key of another":
            (folder / "tls.key").write_bytes(key)
        case "no text":
            (folder / "tls.key").write_bytes(b"\x00")
        case _:
            (folder / "tls.key").unlink()
    assert request(port) == first
    (folder / "tls.key").write_bytes(second)
    assert request(port) == read(folder)


def test_without_a_certificate_there_is_no_port_with_tls(tmp_path: Path) -> None:
    assert not has_certificate(tmp_path)
    with pytest.raises(OSError):
        build_context(tmp_path)


def test_plain_metrics_are_for_the_loopback_address_where_there_is_a_certificate(folder: Path) -> None:
    doors = Doors(folder / "token", has_certificate=True)
    assert doors.ask("/metrics").status == 403
    assert doors.ask("/metrics", scheme="https").status == 200
    assert Doors(folder / "token", host="127.0.0.1", has_certificate=True).ask("/metrics").status == 200
    assert [doors.ask(path).status for path in ("/healthz", "/readyz")] == [200, 200]


def test_an_operator_of_release_0_1_reaches_the_driver_during_an_upgrade(folder: Path) -> None:
    doors = Doors(folder / "token", has_certificate=True)
    assert doors.ask("/progress", "Bearer right").status == 200
    assert doors.ask("/progress").status == 401


async def test_the_operator_and_a_driver_agree_over_a_renewal(folder: Path) -> None:
    doors = Doors(folder / "token", has_certificate=True)
    server = ControlServer(doors.app, 0, host="127.0.0.1", tls=build_context(folder))
    server.start()
    address = f"https://127.0.0.1:{server.port}"
    first = (folder / "tls.crt").read_text()
    try:
        async with open_session() as session:
            client = HttpDrivers(session)
            assert (await client.fetch_progress(address, ControlAccess("right", (first,)))).pipeline == "p"
            make_certificate(folder, "next", "/CN=driver", "DNS:driver")
            second = (folder / "next.crt").read_text()
            renewed = ControlAccess("right", (second, first))
            await client.stop(address, renewed, 1.0)
            for end in ("crt", "key"):
                (folder / f"next.{end}").rename(folder / f"tls.{end}")
            await client.stop(address, renewed, 1.0)
            with pytest.raises(DriverUnreachable, match="does not serve the certificate"):
                await client.stop(address, ControlAccess("right", (first,)), 1.0)
            with pytest.raises(DriverUnreachable, match="401"):
                await client.stop(address, ControlAccess("wrong", (second,)), 1.0)
    finally:
        server.close()
    assert doors.stops == 2
