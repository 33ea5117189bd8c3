"""Hosts that something is sent to, and the patterns that allow them: `host`, `host:port`, `*.domain`, `*.domain:port`, or `*` for all.

A name is compared as text and never resolved. A name with characters that no host has matches no pattern, so that no pattern can be
evaded by what parsers of addresses disagree about.
"""

import ipaddress
import re
from collections.abc import Iterable
from typing import NamedTuple, Self

from yarl import URL

_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")
EVERY = "*"


class Host(NamedTuple):
    """A host and its port."""

    name: str
    port: int | None

    @classmethod
    def of_url(cls, url: str) -> Self:
        """Return the host of an http or https address; raise ValueError where it has none, or has a user."""
        found = URL(url)
        if found.scheme not in ("http", "https") or not found.host or found.user or found.password:
            raise ValueError(f"{url!r} is not an http or https address")
        return cls(_check_name(found.host), found.port)

    @classmethod
    def of_server(cls, server: str) -> Self:
        """Return the host of a `host:port`; raise ValueError."""
        name, _, port = server.rpartition(":")
        return cls(_check_name(name), int(port))

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port is None else f"{name}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Return whether it is the pod itself, so that nothing goes over the network."""
        try:
            return ipaddress.ip_address(self.name).is_loopback
        except ValueError:
            return self.name == "localhost"

    def is_in(self, patterns: Iterable[str]) -> bool:
        """Return whether one of the patterns allows the host. A pattern without a port allows every port."""
        return any(self._matches(pattern.lower()) for pattern in patterns)

    def _matches(self, pattern: str) -> bool:
        if pattern == EVERY:
            return True
        name, port = _split(pattern)
        if port is not None and port != str(self.port):
            return False
        if name.startswith("*."):
            return self.name.endswith(name[1:]) and len(self.name) > len(name) - 1
        return self.name == name


def _split(pattern: str) -> tuple[str, str | None]:
    """Return the name and the port of a pattern, whose IPv6 address is in brackets."""
    name, closes, rest = pattern.removeprefix("[").partition("]")
    if closes:
        return name, rest.removeprefix(":") or None
    name, _, port = pattern.partition(":")
    return name, port or None


def _check_name(name: str) -> str:
    known = name.lower().rstrip(".")
    try:
        return str(ipaddress.ip_address(known.strip("[]")))
    except ValueError:
        if _NAME.fullmatch(known):
            return known
    raise ValueError(f"{name!r} is not a host")
