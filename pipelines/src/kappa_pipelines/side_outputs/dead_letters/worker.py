"""Runs the dead-letter scans beside the queries, and remembers durably how far they are.

At least once: a position moves on only when its dead letters are written, and at a start everything between the
stored position and the query's committed offsets is scanned. A scan that fails is tried again for ever; it is
counted, and never stops the pipeline. A clean stream costs one small file every ten seconds.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from confluent_kafka import KafkaException

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.format.offsets import (
    Offsets,
    nest_offsets,
    read_initial_offsets,
    read_oldest_offsets,
)
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import UnavailableError
from kappa_pipelines.kafka.subscription import Subscription
from kappa_pipelines.side_outputs.background import Background, Totals
from kappa_pipelines.side_outputs.dead_letters.position import (
    Position,
    forget_position,
    read_position,
    write_position,
)
from kappa_pipelines.side_outputs.dead_letters.ranges import Ledger, Span

MAX_SCAN = 1_000_000  # offsets that one job scans; bounds what a crash repeats
_WRITE_SECONDS = 10.0

log = structlog.get_logger()


@dataclass(frozen=True)
class Owned:
    """A source whose dead letters are taken: from the progress of the sink `owner`."""

    name: str
    subscription: Subscription
    owner: str

    def restrict(self, offsets: Offsets) -> Offsets:
        """Return the offsets of the topics that the source reads."""
        return {place: offset for place, offset in offsets.items() if self.subscription.covers(place[0])}


class DeadLetters:
    """The work of scanning, and the ledgers that say what is to be scanned."""

    def __init__(
        self,
        files: Folder,
        sources: tuple[Owned, ...],
        scan: Callable[[str, Span], int],
        check_fence: Callable[[], None],
        first_offsets: Callable[[str], Offsets],
    ) -> None:
        self.totals = Totals()
        self._files = files
        self._sources = {source.name: source for source in sources}
        self._scan = scan
        self._check_fence = check_fence
        self._first_offsets = first_offsets
        self._ledgers: dict[str, Ledger] = {}
        self._stored: dict[str, Offsets] = {}
        self._last_write = time.monotonic()
        self._background = Background(
            "dead letters", lambda: bool(self._pending()), self._work_all, self.totals
        )

    def start(self, committed: dict[str, Offsets]) -> None:
        """Take up the stored positions; `committed` are the owners' offsets by source. Call before the queries start."""
        for source in self._sources.values():
            self._ledgers[source.name] = self._take_up(source, committed.get(source.name, {}))
        self._background.start()

    def _take_up(self, source: Owned, committed: Offsets) -> Ledger:
        topic, stored = str(source.subscription), read_position(self._files, source.name)
        if stored is None and committed:
            stored = Position(topic, self._find_lost(source))
        if stored is None or not stored.taken:
            write_position(self._files, source.name, Position(topic, committed, birth=not committed))
            return Ledger.at(committed)
        position = stored.offsets
        if stored.birth:
            position = read_initial_offsets(self._files, source.owner, source.name) or {}
        if stored.topic != topic:  # the source was changed: topics that it did not have are taken from now on
            known = {place[0] for place in position}
            position |= {place: at for place, at in committed.items() if place[0] not in known}
            position, committed = (source.restrict(offsets) for offsets in (position, committed))
        return Ledger.at(position).with_batch(position, committed, malformed=None if committed else 0)

    def _find_lost(self, source: Owned) -> Offsets:
        """Return where to scan from when the file of a position was lost: where the log of offsets begins."""
        start = read_oldest_offsets(self._files, source.owner).get(source.name, {})
        log.error(
            "the position of dead letters was lost; records are scanned again from the oldest batch of the checkpoint",
            source=source.name,
            start=nest_offsets(start),
        )
        return start

    def note(self, sink: str, source: str, start: Offsets, end: Offsets, malformed: int | None) -> None:
        """Take note of a committed batch of a sink's query; `malformed` is None where nobody has counted."""
        if source not in self._ledgers or self._sources[source].owner != sink or not end:
            return
        if not start:
            start = read_initial_offsets(self._files, sink, source) or {}
        new = self._find_new(source, start)
        with self._background.changed:
            ledger = self._ledgers[source].with_partitions(new)
            self._ledgers[source] = ledger.with_batch(start, end, malformed)
            self._background.changed.notify()

    def _find_new(self, source: str, start: Offsets) -> Offsets:
        """Return the first offsets of partitions that are new and were read before the first progress of them came."""
        seen = self._ledgers[source].seen
        new = {at for at, offset in start.items() if seen and at not in seen and offset > 0}
        try:
            first = self._first_offsets(source) if new else {}
        except KafkaException:
            first = {}
        return {at: min(first.get(at, 0), start[at]) for at in new}

    def finish(self, committed: dict[str, Offsets], timeout: float) -> bool:
        """Scan all that is left up to the committed offsets; False if that took too long. Ends the thread."""
        deadline = time.monotonic() + timeout
        for source, end in committed.items():
            if source in self._ledgers:
                self._note_unseen(source, end)
        return self._background.finish(deadline - time.monotonic())

    def abandon(self) -> None:
        """End the thread; what is left is found at the next start."""
        self._background.abandon()

    def _note_unseen(self, source: str, end: Offsets) -> None:
        """Take note of committed batches whose progress never came."""
        seen = self._ledgers[source].seen
        if any(offset > seen.get(part, -1) for part, offset in end.items()):
            self.note(self._sources[source].owner, source, dict(seen), end, malformed=None)

    def _work_all(self, ending: bool) -> None:
        with self._background.changed:
            work = self._pending()
        for source, span in work.items():
            self._work(source, span)
        self._write_positions(at_once=ending)

    def _pending(self) -> dict[str, Span]:
        spans = {source: ledger.pending() for source, ledger in self._ledgers.items()}
        return {source: span for source, span in spans.items() if span is not None}

    def _work(self, source: str, span: Span) -> None:
        part = span.first(MAX_SCAN)
        whole = self._still_there(source, part)
        self._check_fence()
        if whole.size > 0:
            written = self._scan(source, whole)
            self.totals.written += written
            log.info(
                "dead letters written",
                source=source,
                written=written,
                scanned=whole.size,
                start=nest_offsets(whole.start),
                end=nest_offsets(whole.end),
            )
        with self._background.changed:
            self._ledgers[source] = self._ledgers[source].after_scan(part)
        self._write_position(source)

    def _still_there(self, source: str, span: Span) -> Span:
        """Return the span without what the topic's retention has removed already; that is counted as lost."""
        first = self._first_offsets(source)
        known = {topic for topic, _ in first}
        absent = sorted(at for at in span.end if at not in first and at[0] in known)
        if absent:  # Kafka's metadata is older than the partition; the scan is tried again
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
                "records left the topic before they were scanned",
                source=source,
                offsets=span.size - left.size,
            )
        return left

    def _write_positions(self, *, at_once: bool) -> None:
        if not at_once and time.monotonic() < self._last_write + _WRITE_SECONDS:
            return
        self._last_write = time.monotonic()
        for source in self._ledgers:
            self._write_position(source)

    def _write_position(self, source: str) -> None:
        position = self._ledgers[source].position
        if position and position != self._stored.get(source):
            write_position(self._files, source, Position(str(self._sources[source].subscription), position))
            self._stored[source] = position


def forget_dead_letters(files: Folder, sources: tuple[str, ...]) -> None:
    """Forget all positions, for a pipeline without a dead-letter topic."""
    for source in sources:
        forget_position(files, source)
