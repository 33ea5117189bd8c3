"""The address of a database: a URL without a password, which would be visible in the list of processes."""

import ipaddress
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import unquote, urlsplit

_DEFAULT_PORTS = {"postgresql": 5432, "mysql": 3306}
_SCHEMES = {"postgresql": "postgresql", "postgres": "postgresql", "mysql": "mysql", "mariadb": "mysql"}


class DatabaseKind(StrEnum):
    """The protocols; MariaDB has that of MySQL."""

    POSTGRESQL = "postgresql"
    MYSQL = "mysql"


@dataclass(frozen=True)
class Address:
    """Where a database is, and how to connect. Without `ca_file` the certificate of the server is not verified."""

    kind: DatabaseKind
    host: str
    port: int
    user: str
    database: str
    password: str = field(default="", repr=False)
    tls: bool = True
    ca_file: str = ""

    @property
    def is_loopback(self) -> bool:
        """Return whether the host is this machine."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address or localhost."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def parse_address(url: str, kind: str | None = None) -> Address:
    """Return the address of `postgresql://USER@HOST[:PORT]/DATABASE`; `kind` is for a URL without a scheme. Raise ValueError."""
    parts = urlsplit(url if "://" in url else f"{kind}://{url}" if kind else url)
    found = _SCHEMES.get(parts.scheme)
    if found is None:
        raise ValueError("the URL starts with none of postgresql://, mysql:// and mariadb://; or add --kind")
    if kind is not None and kind != found:
        raise ValueError(f"the URL is of {found}, not of {kind}")
    if parts.password is not None:
        raise ValueError(
            "the URL has a password, which other users of this machine can read; see --password-file"
        )
    if parts.query or parts.fragment:
        raise ValueError("the URL has parameters; only USER, HOST, PORT and DATABASE are read")
    database = unquote(parts.path.removeprefix("/"))
    if not parts.hostname or not parts.username or (not database and found == "postgresql"):
        raise ValueError("the URL lacks a part of USER@HOST/DATABASE")
    port = parts.port or _DEFAULT_PORTS[found]
    return Address(DatabaseKind(found), parts.hostname, port, unquote(parts.username), database)
