"""Removes the headers of values, and groups the messages by the version that they were written with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from kappa_pipelines.protobuf.indexes import FIRST, WireError, read_indexes
from kappa_pipelines.protobuf.messages import Fault
from kappa_pipelines.protobuf.versions import Version

_HEADER = 5  # bytes before the array of message indexes
_START = _HEADER + 1  # with an array that is a single 0

NO_VALUE = Fault("value is null")
NO_SCHEMA = Fault("value names no schema that is known")
"""The plan explains it in more detail, as for other formats."""


@dataclass
class Group:
    """Messages of one version: their bytes, and their indexes among the values."""

    version: Version | None
    indexes: Sequence[int]
    payloads: Sequence[bytes]


@dataclass
class Sorted:
    """The values of a batch: messages by version, and the faults by index."""

    groups: list[Group]
    faults: dict[int, Fault]


def sort_bare(values: Sequence[bytes | None]) -> Sorted:
    """Group values without headers."""
    if None not in values:
        return Sorted([Group(None, range(len(values)), cast(Sequence[bytes], values))], {})
    indexes = [index for index, value in enumerate(values) if value is not None]
    faults = {index: NO_VALUE for index, value in enumerate(values) if value is None}
    return Sorted([Group(None, indexes, [value for value in values if value is not None])], faults)


class Frames:
    """Groups values that name their schema, for one message type."""

    def __init__(self, versions: Sequence[Version], message: str) -> None:
        self._message = message
        self._versions = {each.id.to_bytes(_HEADER, "big"): each for each in versions}
        self._starts = {  # the most frequent headers: an id, and the 0 for the first message
            header + b"\0": version
            for header, version in self._versions.items()
            if version.messages.get(FIRST) == message and version.conflict is None
        }

    def sort(self, values: Sequence[bytes | None]) -> Sorted:
        """Group the values of a batch."""
        faults: dict[int, Fault] = {}
        found: dict[int, list[tuple[int, bytes]]] = {}
        for index, value in enumerate(values):
            opened = self._open(value)
            if isinstance(opened, Fault):
                faults[index] = opened
            else:
                found.setdefault(opened[0].id, []).append((index, opened[1]))
        versions = {version.id: version for version in self._versions.values()}
        return Sorted(
            [Group(versions[id_], *zip(*pairs, strict=True)) for id_, pairs in found.items()], faults
        )

    def _open(self, value: bytes | None) -> tuple[Version, bytes] | Fault:
        """Return a value's version and message."""
        if value is None:
            return NO_VALUE
        version = self._starts.get(value[:_START])
        if version is not None:
            return version, value[_START:]
        version = self._versions.get(value[:_HEADER])
        return NO_SCHEMA if version is None else self._open_message(version, value)

    def _open_message(self, version: Version, value: bytes) -> tuple[Version, bytes] | Fault:
        try:
            indexes, start = read_indexes(value, _HEADER)
        except WireError as error:
            return Fault(f"after the schema id {version.id}: {error}")
        message = version.messages.get(indexes)
        if message is None:
            return Fault(f"{version.name} has no message with the index {list(indexes)}")
        if message != self._message:
            return Fault(f"value is a {message}, but the source reads {self._message}")
        if version.conflict is not None:
            return Fault(f"{version.name} cannot be read: {version.conflict}")
        return version, value[start:]
