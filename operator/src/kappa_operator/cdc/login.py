"""The log-in of a database in the files of a pod: username, password and, with TLS, ca.crt."""

from pathlib import Path
from typing import Protocol

from kappa_operator.cdc.address import Address, DatabaseKind
from kappa_operator.cdc.work import CA_FILE


class Server(Protocol):
    """What a request has about the server."""

    @property
    def host(self) -> str: ...  # noqa: D102
    @property
    def port(self) -> int: ...  # noqa: D102
    @property
    def database(self) -> str: ...  # noqa: D102
    @property
    def tls(self) -> bool: ...  # noqa: D102


def build_address(server: Server, login: Path, kind: DatabaseKind = DatabaseKind.POSTGRESQL) -> Address:
    """Return the address with its log-in."""
    return Address(
        kind=kind,
        host=server.host,
        port=server.port,
        user=read_text(login / "username"),
        database=server.database,
        password=read_text(login / "password"),
        tls=server.tls,
        ca_file=str(login / CA_FILE) if server.tls else "",
    )


def read_text(file: Path) -> str:
    """Return the text of a file, without the line end that some tools add."""
    return file.read_text().rstrip("\r\n")
