"""Frames of Kafka's protocol over aiokafka, within limits: brokers are not trusted.

aiokafka reads whatever length a broker announces. Here a frame has a limit of bytes by its request and a limit of time, and counts
against the budget of its namespace while it is read.
"""

import asyncio
import struct
from contextvars import ContextVar
from typing import Any

from aiokafka import conn
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaConnectionError

from kappa_operator.answers import AnswerBudget, AnswerRefused, Body

SMALL_FRAME, LARGE_FRAME = 2**20, 8 * 2**20
"""Bytes. Only requests with a fast decoder may have large responses: others would hold up the event loop."""
MOST_BYTES = "MOST_BYTES"
"""The attribute of a request that has the limit of its response."""
MALFORMED = (TypeError, ValueError, LookupError, AttributeError, OverflowError, struct.error)
"""What aiokafka raises for responses that make no sense."""
_SECONDS = 30.0
_PIECE = 64 * 1024
NAMESPACE: ContextVar[str] = ContextVar("namespace", default="")
"""The namespace whose KafkaCluster a connection belongs to."""
_BUDGET = AnswerBudget()


class FrameRefused(KafkaConnectionError):  # type: ignore[misc]
    """A broker sent a frame beyond a limit."""


class BoundedConnection(AIOKafkaConnection):  # type: ignore[misc]
    """A connection that reads frames within limits."""

    async def connect(self) -> Any:
        """Connect and log in; raise FrameRefused where the responses make no sense."""
        try:
            return await super().connect()
        except MALFORMED as error:
            self.close()
            raise FrameRefused("the broker does not respond as Kafka does") from error

    @staticmethod
    async def _read(self_ref: Any) -> None:
        """Read frames until the connection ends, as in the base class, which keeps no reference to the connection while it waits."""
        connection = self_ref()
        if connection is None:
            return
        reader = connection._reader
        del connection
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            connection = self_ref()
            if connection is None:
                return
            most = _find_limit(connection._requests)
            del connection
            try:
                frame = await read_frame(reader, size, most)
            except AnswerRefused as error:
                _fail(self_ref(), error)
                raise FrameRefused(str(error)) from error
            connection = self_ref()
            if connection is None:
                return
            connection._handle_frame(frame)
            del connection, frame


def _find_limit(requests: Any) -> int:
    """Return the limit of the response that comes next; without a request there is none to come."""
    if not requests:
        return 0
    _, request, _ = requests[0]
    return int(getattr(request, MOST_BYTES, SMALL_FRAME))


def _fail(connection: Any, error: AnswerRefused) -> None:
    """Let the request that waits for the frame end with the cause; the connection is closed after that."""
    if connection is not None and connection._requests:
        future = connection._requests[0][2]
        if not future.done():
            future.set_exception(FrameRefused(str(error)))


async def read_frame(reader: asyncio.StreamReader, size: int, most: int) -> bytes:
    """Return a frame of the announced size; raise AnswerRefused where it is beyond a limit."""
    if not 0 <= size <= most:
        raise AnswerRefused(f"a response of {size} bytes is announced, and at most {most} are read")
    with _BUDGET.hold(NAMESPACE.get(), most) as body:
        try:
            async with asyncio.timeout(_SECONDS):
                return await _read_pieces(reader, size, body)
        except TimeoutError:
            raise AnswerRefused(f"a response took more than {_SECONDS:.0f} s") from None


async def _read_pieces(reader: asyncio.StreamReader, size: int, body: Body) -> bytes:
    held = bytearray()
    while len(held) < size:
        piece = await reader.read(min(_PIECE, size - len(held)))
        if not piece:
            raise asyncio.IncompleteReadError(b"", size)
        body.add(len(piece))
        held += piece
    return bytes(held)


def bound_frames() -> None:
    """Let aiokafka make bounded connections: its client has no other place to choose their class."""
    setattr(conn, "AIOKafkaConnection", BoundedConnection)  # noqa: B010 - the module's type does not allow it
