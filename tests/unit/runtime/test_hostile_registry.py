"""A schema registry is a server of a tenant: its answers have limits of bytes, time, depth and number, and end a start with a reason."""

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from kappa_crds.format import SchemaRegistry
from kappa_crds.reasons import Reason
from kappa_crds.revision import RegistrySecrets
from kappa_pipelines.errors import DriverError
from kappa_pipelines.registry import client as client_module
from kappa_pipelines.registry import subject
from kappa_pipelines.registry.client import RegistryClient
from kappa_pipelines.registry.subject import fetch_subject
from lab.registry import RegistryDouble

Write = Callable[[socket.socket], None]
OK = b"HTTP/1.1 200 OK\r\n"


@contextmanager
def serve(write: Write) -> Iterator[str]:
    """Answer every connection by `write`."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def run() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, suppress(OSError):
                        connection.recv(65536)
                        write(connection)

        threading.Thread(target=run, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def send(*parts: bytes) -> Write:
    return lambda connection: connection.sendall(b"".join(parts))


def send_endlessly(connection: socket.socket) -> None:
    connection.sendall(OK + b"Connection: close\r\n\r\n")
    while True:
        connection.sendall(b"[" + b" " * 65536)


def send_endless_headers(connection: socket.socket) -> None:
    connection.sendall(OK)
    while True:
        connection.sendall(b"X-Header: value\r\n" * 100)


def drip(connection: socket.socket) -> None:
    connection.sendall(OK + b"Content-Length: 100000\r\n\r\n")
    while True:
        connection.sendall(b" ")
        time.sleep(0.02)


BOMB = gzip.compress(b"[" + b" " * 2**26 + b"]")
HOSTILE = {
    "an endless body": send_endlessly,
    "endless headers": send_endless_headers,
    "a slow drip": drip,
    "a gzip bomb": send(OK, b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB), BOMB),
    "deep JSON": send(OK, b"Content-Length: 200000\r\n\r\n", b"[" * 100_000 + b"]" * 100_000),
    "a deep error": send(b"HTTP/1.1 500 No\r\nContent-Length: 2000\r\n\r\n", b"[" * 2000),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_answer_is_a_registry_that_is_unavailable(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_TOTAL_SECONDS", 0.5)
    with serve(HOSTILE[case]) as url, pytest.raises(DriverError) as raised:
        fetch_subject(
            RegistryClient(SchemaRegistry(url=url), RegistrySecrets()), "readings", None, (), "AVRO"
        )
    assert raised.value.reason is Reason.REGISTRY_UNAVAILABLE


def test_schemas_that_refer_to_more_and_more_others_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "_MOST", 20)
    with RegistryDouble() as registry:
        for number in range(30):
            other = [{"name": "next", "subject": f"s{number + 1}", "version": 1}]
            registry.register(f"s{number}", '"int"', references=other)
        with pytest.raises(DriverError) as raised:
            client = RegistryClient(SchemaRegistry(url=registry.url), RegistrySecrets())
            fetch_subject(client, "s0", None, (), "AVRO")
    assert raised.value.reason is Reason.INVALID_SCHEMA and "references" in raised.value.message
