"""Offsets in a query's checkpoint: those of the last committed batch, and the initial ones.

An entry of the offset log (version 2) has a line of JSON with the metadata of its batch, and a line
`name:{"topic":{"partition":offset}}` for each source. `commits/N` commits batch N; then `offsets/N` has the next offsets to read.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kappa_pipelines.checkpoint.store.folder import Folder

TopicPartition = tuple[str, int]
"""A topic's name in Kafka and one of its partitions."""
Offsets = dict[TopicPartition, int]
SourceOffset = dict[str, Any]
"""An offset in the log, in the format of its source."""
PARTITION_SHIFT = 44
"""A position in a topic is one number: the partition, and in its lowest bits the offset. No partition has 17 trillion records."""

_LINE = re.compile(r"^(?:([A-Za-z0-9_]+):)?(\{.*\})$")


@dataclass(frozen=True)
class Malformed:
    """The malformed records of a batch. `first` and `last` are their positions, where they are observed."""

    count: int
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True)
class Entry:
    """One entry of an offset log: the metadata of its batch, and where each source ends."""

    metadata: dict[str, Any]
    ends: dict[str, SourceOffset]

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings that the batch keeps."""
        found: dict[str, str] = self.metadata.get("conf", {})
        return found

    @property
    def watermark(self) -> int:
        """Return the watermark with which the batch started, in milliseconds since the epoch."""
        return int(self.metadata.get("batchWatermarkMs", 0))

    @property
    def offsets(self) -> dict[str, Offsets]:
        """Return the next offsets of each source; empty for a source that is not Kafka."""
        return {source: parse_kafka_offsets(end) for source, end in self.ends.items()}


def parse_entry(text: str) -> Entry:
    """Return an entry of an offset log of version 2."""
    lines = {match[1]: json.loads(match[2]) for match in map(_LINE.match, text.splitlines()) if match}
    return Entry(lines.pop(None, {}), lines)


def read_entry(files: Folder, sink: str, batch: int) -> Entry | None:
    """Return the entry of a batch; None if the log does not have it."""
    held = files.read(f"{sink}/offsets/{batch}") if batch >= 0 else None
    return None if held is None else parse_entry(held.decode(errors="replace"))


def replace_ends(files: Folder, sink: str, batch: int, ends: Mapping[str, SourceOffset]) -> None:
    """Write the entry of a batch again, with other ends of its sources. Spark accepts one without a checksum, and its own is of the former one."""
    path = f"{sink}/offsets/{batch}"
    lines = (files.read(path) or b"").decode().splitlines()
    changed = [_replace_line(line, ends) for line in lines]
    files.delete(f"{path}.crc")
    files.write(path, "\n".join(changed).encode())


def _replace_line(line: str, ends: Mapping[str, SourceOffset]) -> str:
    found = _LINE.match(line)
    if found is None or found[1] not in ends:
        return line
    return f"{found[1]}:{json.dumps(ends[found[1]], separators=(',', ':'))}"


def read_committed_offsets(files: Folder, sink: str) -> dict[str, Offsets]:
    """Return, for each source, the next offset of each partition after the sink's last committed batch; empty before the first."""
    return _read_offsets(files, sink, read_committed_batch(files, sink))


def read_planned_offsets(files: Folder, sink: str) -> dict[str, Offsets]:
    """Return, for each source, the next offset of each partition after the sink's last batch, committed or not."""
    return _read_offsets(files, sink, read_planned_batch(files, sink))


def read_oldest_offsets(files: Folder, sink: str) -> dict[str, Offsets]:
    """Return, for each source, the next offsets after the oldest batch in the offset log, or the initial ones if that is the first batch."""
    oldest = min((int(name) for name in files.names(f"{sink}/offsets") if name.isdigit()), default=-1)
    found = _read_offsets(files, sink, oldest)
    if oldest > 0:
        return found
    return {source: read_initial_offsets(files, sink, source) or {} for source in found}


def read_committed_batch(files: Folder, sink: str) -> int:
    """Return the number of the sink's last committed batch; -1 before the first."""
    return _find_last(files, sink, "commits")


def read_planned_batch(files: Folder, sink: str) -> int:
    """Return the number of the last planned batch, committed or not; -1 before the first."""
    return _find_last(files, sink, "offsets")


def _find_last(files: Folder, sink: str, folder: str) -> int:
    return max((int(name) for name in files.names(f"{sink}/{folder}") if name.isdigit()), default=-1)


def _read_offsets(files: Folder, sink: str, batch: int) -> dict[str, Offsets]:
    entry = read_entry(files, sink, batch)
    return {} if entry is None else entry.offsets


def parse_kafka_offsets(value: object) -> Offsets:
    """Return the offsets in Spark's form `{"topic": {"0": 12}}`; empty for a source that is not Kafka."""
    if not isinstance(value, dict):
        return {}
    return {
        (topic, int(part)): int(offset)
        for topic, parts in value.items()
        if isinstance(parts, dict)
        for part, offset in parts.items()
    }


def nest_offsets(offsets: Offsets) -> dict[str, dict[int, int]]:
    """Return the offsets by topic and partition, the form that `parse_kafka_offsets` reads."""
    nested: dict[str, dict[int, int]] = {}
    for (topic, part), offset in sorted(offsets.items()):
        nested.setdefault(topic, {})[part] = offset
    return nested


def read_initial_offsets(files: Folder, sink: str, source: str) -> Offsets | None:
    """Return the initial offsets of a source in a query, or None before it has read the source."""
    held = files.read(f"{sink}/sources/{source}/0")
    if held is None or b"{" not in held:
        return None
    return parse_kafka_offsets(json.loads(held[held.index(b"{") :]))
