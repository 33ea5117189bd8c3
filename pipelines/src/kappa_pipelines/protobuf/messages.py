"""Parses the bytes of many values in a few calls of Google's runtime.

The values are joined as the repeated field of one large message, which is parsed at once: that takes an eighth of the time of
separate parses. Values are parsed one by one only where that fails, and checked one by one only where one has
a field that the schema does not have.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError, Message

from kappa_pipelines.protobuf.faults import FaultFinder
from kappa_pipelines.protobuf.schema import Types


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a value is not a message."""

    text: str


class MessageReader:
    """Reads messages of one type."""

    def __init__(self, types: Types) -> None:
        self._types = types
        self._faults = FaultFinder(types.descriptor)

    def read(self, payloads: Sequence[bytes], written: Types | None = None) -> list[Message | Fault]:
        """Return the message in each payload, or its fault.

        `written` is the type in the version that the payloads were written with, if it is another one: fields of that version
        are not unknown.
        """
        joined = self._types.payloads(rows=payloads).SerializeToString()
        try:
            batch = self._types.batch.FromString(joined)
        except DecodeError:
            return [self._read_one(payload) for payload in payloads]
        if not batch.IsInitialized():
            return [self._read_one(payload) for payload in payloads]
        rows: list[Message | Fault] = list(batch.rows)
        if _is_known(batch) if written is None else _is_known_to(written, joined):
            return rows
        whole = self._types.batch.FromString(joined)  # with the unknown fields
        found = zip(payloads, rows, map(self._faults.find, whole.rows), strict=True)
        return [row if fault is None else self._fail(payload, fault) for payload, row, fault in found]

    def _read_one(self, payload: bytes) -> Message | Fault:
        try:
            message = self._types.message.FromString(payload)
        except DecodeError as error:
            cause = str(error).rpartition(": ")[2]
            return self._fail(payload, cause[:1].lower() + cause[1:])
        if not message.IsInitialized():
            missing = ", ".join(message.FindInitializationErrors())
            return self._fail(payload, f"there is no value for the required {missing}")
        fault = self._faults.find(message)
        message.DiscardUnknownFields()
        return message if fault is None else self._fail(payload, fault)

    def _fail(self, payload: bytes, what: str) -> Fault:
        return Fault(f"the {len(payload)} bytes are no {self._types.descriptor.full_name}: {what}")


def _is_known_to(types: Types, joined: bytes) -> bool:
    """Return whether a batch has no unknown fields by these types."""
    try:
        return _is_known(types.batch.FromString(joined))
    except DecodeError:
        return False


def _is_known(message: Any) -> bool:
    """Return whether a message has no unknown field at any depth, and discard unknown fields."""
    size = message.ByteSize()
    message.DiscardUnknownFields()
    return bool(message.ByteSize() == size)
