"""Runs the dead-letter scans in the background and stores their position.

Delivery is at least once: a position advances only after its dead letters are written, and a start scans everything between the
stored position and the committed offsets of the query. A failed scan is counted and retried without limit, and never stops the
pipeline. A clean stream costs one small file every ten seconds.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from confluent_kafka import KafkaException

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.format.offsets import (
    Malformed,
    Offsets,
    nest_offsets,
    read_initial_offsets,
    read_oldest_offsets,
)
from kappa_pipelines.errors import UnavailableError
from kappa_pipelines.kafka.subscription import Subscription
from kappa_pipelines.side_outputs.background import BackgroundOutput, OutputContext
from kappa_pipelines.side_outputs.dead_letters.position import Position, read_position, write_position
from kappa_pipelines.side_outputs.dead_letters.ranges import Ledger, Span

MAX_SCAN = 1_000_000  # offsets of one job; bounds the repetition after a crash

log = structlog.get_logger()


@dataclass(frozen=True)
class Owned:
    """A source with dead letters. The progress of the sink `owner` determines them."""

    name: str
    subscription: Subscription
    owner: str

    def restrict(self, offsets: Offsets) -> Offsets:
        """Return the offsets of the topics of the source."""
        return {at: offset for at, offset in offsets.items() if self.subscription.covers(at[0])}


class DeadLetters(BackgroundOutput):
    """The background scans, with a ledger per source."""

    def __init__(
        self,
        context: OutputContext,
        sources: tuple[Owned, ...],
        scan: Callable[[str, Span], int],
    ) -> None:
        super().__init__("dead letters", context)
        self._sources = {source.name: source for source in sources}
        self._scan = scan
        self._ledgers: dict[str, Ledger] = {}
        self._stored: dict[str, Offsets] = {}

    def start(self, committed: dict[str, Offsets]) -> None:
        """Load the stored positions; `committed` are the owners' offsets by source. Call this before the queries start."""
        for source in self._sources.values():
            self._ledgers[source.name] = self._load(source, committed.get(source.name, {}))
        if self._sources:
            self._thread.start()

    def _load(self, source: Owned, committed: Offsets) -> Ledger:
        topic, stored = str(source.subscription), read_position(self._files, source.name)
        if stored is None and committed:
            stored = Position(topic, self._find_lost(source))
        if stored is None or not stored.is_enabled:
            write_position(self._files, source.name, Position(topic, committed, is_initial=not committed))
            return Ledger.at(committed)
        position = stored.offsets
        if stored.is_initial:
            position = read_initial_offsets(self._files, source.owner, source.name) or {}
        if stored.topic != topic:  # the source has changed: new topics start at the committed offsets
            known = {topic for topic, _ in position}
            position |= {at: offset for at, offset in committed.items() if at[0] not in known}
            position, committed = (source.restrict(offsets) for offsets in (position, committed))
        return Ledger.at(position).with_batch(
            position, committed, malformed=None if committed else Malformed(0)
        )

    def _find_lost(self, source: Owned) -> Offsets:
        """Return the start of the scan for a lost position: the oldest offsets in the offset log."""
        start = read_oldest_offsets(self._files, source.owner).get(source.name, {})
        log.error(
            "the position of dead letters was lost; scanning from the oldest batch of the checkpoint",
            source=source.name,
            start=nest_offsets(start),
        )
        return start

    def note(self, sink: str, source: str, start: Offsets, end: Offsets, malformed: Malformed | None) -> None:
        """Add a committed batch of a sink's query; `malformed` is None if they are not counted."""
        if source not in self._ledgers or self._sources[source].owner != sink or not end:
            return
        if not start:
            start = read_initial_offsets(self._files, sink, source) or {}
        new = self._find_new(source, start)
        with self._changed:
            ledger = self._ledgers[source].with_partitions(new)
            self._ledgers[source] = ledger.with_batch(start, end, malformed)
            self._changed.notify()

    def _find_new(self, source: str, start: Offsets) -> Offsets:
        """Return the first offsets of new partitions whose first progress event was lost."""
        seen = self._ledgers[source].seen
        new = {at for at, offset in start.items() if seen and at not in seen and offset > 0}
        try:
            first = self._context.first_offsets(source) if new else {}
        except KafkaException:
            first = {}
        return {at: min(first.get(at, 0), start[at]) for at in new}

    def finish(self, committed: dict[str, Offsets], timeout: float) -> bool:
        """Scan up to the committed offsets and end the thread; False after the timeout."""
        deadline = time.monotonic() + timeout
        for source, end in committed.items():
            if source in self._ledgers:
                self._note_unseen(source, end)
        return self._end(deadline - time.monotonic())

    def _note_unseen(self, source: str, end: Offsets) -> None:
        """Add committed batches without a progress event."""
        seen = self._ledgers[source].seen
        if any(offset > seen.get(part, -1) for part, offset in end.items()):
            self.note(self._sources[source].owner, source, dict(seen), end, malformed=None)

    def _work(self, ending: bool) -> None:
        with self._changed:
            work = self._pending()
        for source, span in work.items():
            self._scan_span(source, span)
        if self._is_write_due(ending):
            for source in self._ledgers:
                self._write_position(source)

    def _is_pending(self) -> bool:
        return bool(self._pending())

    def _pending(self) -> dict[str, Span]:
        spans = {source: ledger.pending() for source, ledger in self._ledgers.items()}
        return {source: span for source, span in spans.items() if span is not None}

    def _scan_span(self, source: str, span: Span) -> None:
        part = span.first(MAX_SCAN)
        left = self._drop_deleted(source, part)
        self._context.check_fence()
        if left.size > 0:
            written = self._scan(source, left)
            self.totals.written += written
            log.info(
                "dead letters written",
                source=source,
                written=written,
                scanned=left.size,
                start=nest_offsets(left.start),
                end=nest_offsets(left.end),
            )
        with self._changed:
            self._ledgers[source] = self._ledgers[source].after_scan(part)
        self._write_position(source)

    def _drop_deleted(self, source: str, span: Span) -> Span:
        """Return the span without records that retention has deleted; they are counted as lost."""
        first = self._context.first_offsets(source)
        known = {topic for topic, _ in first}
        absent = sorted(at for at in span.end if at not in first and at[0] in known)
        if absent:  # Kafka's metadata is older than the partition; the scan is retried
            topic, partition = absent[0]
            raise UnavailableError(
                Reason.BROKER_UNREACHABLE,
                f"partition {partition} of topic {topic} is not in Kafka's metadata yet",
            )
        start = {at: max(span.start.get(at, 0), first.get(at, end)) for at, end in span.end.items()}
        left = Span(start, {at: max(end, start[at]) for at, end in span.end.items()})
        if left.size < span.size:
            self.totals.lost += span.size - left.size
            log.error(
                "retention deleted records before they were scanned",
                source=source,
                offsets=span.size - left.size,
            )
        return left

    def _write_position(self, source: str) -> None:
        position = self._ledgers[source].position
        if position and position != self._stored.get(source):
            write_position(self._files, source, Position(str(self._sources[source].subscription), position))
            self._stored[source] = position
