"""A batch in the offset log: what it read of each source, and the watermark below which its rows were late.

An entry has the watermark with which the batch started. Rows are compared with the watermark of the previous batch: what the batch
itself closes is not late yet (Spark: `WatermarkPropagator.getInputWatermarkForLateEvents`).
"""

from dataclasses import dataclass, field, replace
from typing import Any

from kappa_pipelines.checkpoint.format.offsets import (
    Offsets,
    SourceOffset,
    nest_offsets,
    parse_kafka_offsets,
    read_entry,
    read_initial_offsets,
)
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.sources.kafka import RECORD_SCHEMA

JUDGED_SCHEMA = f"{RECORD_SCHEMA}, watermark TIMESTAMP"
"""Records of batches that are read again, each with the watermark that it was compared with."""


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


def read_batch(files: Folder, sink: str, number: int) -> Batch | None:
    """Return a batch of a sink's query; None if the log no longer has it."""
    own, before = (read_entry(files, sink, each) for each in (number, number - 1))
    if own is None or (before is None and number > 0):
        return None
    if before is not None:
        return Batch(number, before.watermark, own.ends, before.ends)
    first = {source: read_initial_offsets(files, sink, source) for source in own.ends}
    starts = {source: nest_offsets(offsets) for source, offsets in first.items() if offsets}
    return Batch(number, 0, own.ends, starts)


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
