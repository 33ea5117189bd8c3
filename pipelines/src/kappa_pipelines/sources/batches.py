"""A batch in the offset log: what it read of each source, and the watermark below which its rows were late.

An entry has the watermark with which the batch started. Rows are compared with the watermark of the previous batch: what the batch
itself closes is not late yet (Spark: `WatermarkPropagator.getInputWatermarkForLateEvents`).
"""

import json
import re
from dataclasses import dataclass, field, replace
from typing import Any

from kappa_pipelines.checkpoint.format.offsets import Offsets, nest_offsets, parse_kafka_offsets
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.sources.kafka import RECORD_SCHEMA

JUDGED_SCHEMA = f"{RECORD_SCHEMA}, watermark TIMESTAMP"
"""Records of batches that are read again, each with the watermark that it was compared with."""
_LINE = re.compile(r"^([A-Za-z0-9_]+):(\{.*\})$")
_METADATA = re.compile(r'^\{.*"batchWatermarkMs":(\d+).*\}$')

SourceOffset = dict[str, Any]
"""An offset in the log, in the format of its source."""


@dataclass(frozen=True)
class Entry:
    """One entry of an offset log: where each source ends, and the watermark in milliseconds since the epoch."""

    ends: dict[str, SourceOffset]
    watermark: int


@dataclass(frozen=True)
class Batch:
    """A batch. `starts` lacks sources of which nothing was read before; its rows were compared with `watermark`."""

    number: int
    watermark: int
    ends: dict[str, SourceOffset]
    starts: dict[str, SourceOffset] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, which `parse_batch` reads."""
        return {
            "number": self.number,
            "watermark": self.watermark,
            "starts": self.starts,
            "ends": self.ends,
        }


def parse_batch(stored: dict[str, Any]) -> Batch:
    """Return the batch that `to_json` wrote."""
    return Batch(stored["number"], stored["watermark"], stored["ends"], stored["starts"])


def parse_entry(text: str) -> Entry:
    """Return an entry of an offset log of version 2."""
    lines = text.splitlines()
    ends = {match[1]: json.loads(match[2]) for match in map(_LINE.match, lines) if match}
    watermarks = [int(match[1]) for match in map(_METADATA.match, lines) if match]
    return Entry(ends, watermarks[0] if watermarks else 0)


def read_batch(files: Folder, sink: str, number: int) -> Batch | None:
    """Return a batch of a sink's query; None if the log no longer has it."""
    own, before = (_read_entry(files, sink, each) for each in (number, number - 1))
    if own is None or (before is None and number > 0):
        return None
    starts = _read_first(files, sink, own) if before is None else before.ends
    return Batch(number, 0 if before is None else before.watermark, own.ends, starts)


def _read_entry(files: Folder, sink: str, number: int) -> Entry | None:
    held = files.read(f"{sink}/offsets/{number}") if number >= 0 else None
    return None if held is None else parse_entry(held.decode())


def _read_first(files: Folder, sink: str, entry: Entry) -> dict[str, SourceOffset]:
    """Return the known initial offsets of a query."""
    texts = {name: (files.read(f"{sink}/sources/{name}/0") or b"").decode() for name in entry.ends}
    offsets = {name: text[text.index("{") :] for name, text in texts.items() if _is_offset(text)}
    return {name: json.loads(text) for name, text in offsets.items()}


def _is_offset(text: str) -> bool:
    """Return whether a source's log has its initial offset; a file source has file names there, and starts at the first."""
    return "{" in text and '"path"' not in text


def without_lost(batch: Batch, source: str, first: Offsets) -> tuple[Batch, int]:
    """Return the batch without records that Kafka has deleted, and their number. `first` are the first available offsets."""
    start, end = read_span(batch, source)
    there = {at: max(start.get(at, 0), first.get(at, until)) for at, until in end.items()}
    left = {at: max(until, there[at]) for at, until in end.items()}
    lost = sum(min(until, there[at]) - min(until, start.get(at, 0)) for at, until in end.items())
    if lost == 0:
        return batch, 0
    starts = {**batch.starts, source: nest_offsets(there)}
    return replace(batch, starts=starts, ends={**batch.ends, source: nest_offsets(left)}), lost


def read_span(batch: Batch, source: str) -> tuple[Offsets, Offsets]:
    """Return the start and end offsets of a batch in a Kafka source."""
    return parse_kafka_offsets(batch.starts.get(source)), parse_kafka_offsets(batch.ends.get(source))


def count_offsets(batch: Batch, sources: tuple[str, ...]) -> int:
    """Return the number of offsets of a batch in some Kafka sources."""
    spans = (read_span(batch, source) for source in sources)
    return sum(max(0, until - start.get(at, 0)) for start, end in spans for at, until in end.items())
