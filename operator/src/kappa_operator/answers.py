"""Reads what others answer, within limits: the only way to the body of an HTTP response.

Servers of tenants may be hostile. So a body has a limit of bytes, is never decompressed, and counts against a budget of its namespace
while it is in memory. The time for a whole call is the session's (`aiohttp.ClientTimeout.total`), so that a slow server gains nothing.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import aiohttp

PLAIN = {"Accept-Encoding": "identity"}
"""The header of requests whose responses `read_body` reads."""
SMALL = 16 * 1024
"""Bytes that are not counted: nearly all answers are smaller, and must not fail because of large ones."""
_BUDGET = 64 * 2**20
_MOST_CONTAINERS, _MOST_VALUES = 10_000, 50_000


class AnswerRefused(Exception):
    """An answer is beyond a limit; the text names it, and has nothing of the answer."""


class Body(Protocol):
    """The bytes of one answer that are counted."""

    def add(self, size: int) -> None:
        """Count bytes; raise AnswerRefused where they are too many."""


@dataclass(slots=True)
class AnswerBudget:
    """Bytes of answers that are in memory at the same time. A namespace may hold no more than what is free."""

    total: int = _BUDGET
    _held: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def hold(self, namespace: str, most: int) -> Iterator[Body]:
        """Count one answer of a namespace, at most so many bytes, until the end of the block."""
        body = _Counted(self, namespace, most)
        try:
            yield body
        finally:
            self._held[namespace] -= body.counted
            if not self._held[namespace]:
                del self._held[namespace]

    def take(self, namespace: str, size: int) -> None:
        """Count bytes; raise AnswerRefused where the namespace would hold more than what is free."""
        if self._held[namespace] + size > self.total - self._held.total() - size:
            raise AnswerRefused(f"answers to namespace {namespace} are too large together; it is retried")
        self._held[namespace] += size


@dataclass(slots=True)
class _Counted:
    budget: AnswerBudget
    namespace: str
    most: int
    size: int = 0
    counted: int = 0

    def add(self, size: int) -> None:
        if self.size + size > self.most:
            raise AnswerRefused(f"the answer has more than {self.most} bytes")
        self.size += size
        wanted = self.size if self.size > SMALL else 0
        if wanted > self.counted:
            self.budget.take(self.namespace, wanted - self.counted)
            self.counted = wanted


def open_plain_session(
    timeout: aiohttp.ClientTimeout, connector: aiohttp.BaseConnector
) -> aiohttp.ClientSession:
    """Return a session that decompresses nothing, keeps no cookies and reads in small pieces."""
    return aiohttp.ClientSession(
        connector=connector, timeout=timeout, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar(),
        headers=PLAIN, read_bufsize=SMALL, max_headers=32, max_line_size=1024, max_field_size=4096,
    )  # fmt: skip


async def read_body(response: aiohttp.ClientResponse, body: Body) -> bytes:
    """Return the body of a response; raise AnswerRefused where it is compressed or beyond a limit. The connection is closed then."""
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        response.close()
        raise AnswerRefused("the answer is compressed")
    held = bytearray()
    try:
        async for piece in response.content.iter_any():
            body.add(len(piece))
            held += piece
    except AnswerRefused:
        response.close()
        raise
    return bytes(held)


def check_json(held: bytes) -> None:
    """Raise AnswerRefused for a JSON text with more values than any honest one: parsed, each may take a hundred times its bytes.

    Characters in texts count, too, which makes no difference. The depth is bounded by the parser, which refuses more than 200 levels.
    """
    containers = held.count(b"{") + held.count(b"[")
    if containers > _MOST_CONTAINERS or held.count(b",") > _MOST_VALUES:
        raise AnswerRefused(f"the answer has more than {_MOST_CONTAINERS} objects or {_MOST_VALUES} values")
