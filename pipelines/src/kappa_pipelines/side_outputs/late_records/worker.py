"""Writes late records in the background and stores which batches must be read again.

Delivery is at least once: a batch that dropped rows is stored as pending immediately, and removed after its late records are written. A
start reads each committed batch again that the stored ledger does not cover. A stream without late rows costs one small file every
ten seconds.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog

from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.plan.late_rows import LateRecordView
from kappa_pipelines.side_outputs.background import BackgroundOutput, OutputContext
from kappa_pipelines.side_outputs.late_records.ledger import Ledger
from kappa_pipelines.sources.batches import Batch, parse_batch, read_batch, without_lost

MAX_SCAN = 1_000_000
"""Offsets after which a job takes no further batch."""
_WRITE_BATCHES = 50  # the offset log has 100
_FOLDER = "stragglers"  # the name of earlier releases, with one file per query

log = structlog.get_logger()


class LateRecordOutput(BackgroundOutput):
    """The background jobs, with a ledger per query."""

    def __init__(
        self,
        context: OutputContext,
        views: Sequence[LateRecordView],
        scan: Callable[[LateRecordView, Sequence[Batch]], int],
    ) -> None:
        super().__init__("late records", context)
        self._views = {
            sink: [v for v in views if v.owner == sink] for sink in sorted({v.owner for v in views})
        }
        self._scan = scan
        self._ledgers: dict[str, Ledger] = {}
        self._stored: dict[str, Ledger] = {}

    def start(self, committed: Mapping[str, int]) -> None:
        """Load the stored ledgers; `committed` are the last batches of the queries. Call this before the queries start."""
        for sink in self._views:
            last = committed[sink]
            stored = read_ledger(self._files, sink) or Ledger(last)
            self._ledgers[sink] = stored.up_to(last)
            self._note(sink, last, late=None)
            self._write(sink)
        if self._views:
            self._thread.start()

    def note(self, sink: str, number: int, late: int | None) -> None:
        """Add a committed batch and the number of rows that it dropped; None if they are not counted."""
        if sink not in self._views:
            return
        with self._changed:
            if self._note(sink, number, late):
                self._write(sink)  # immediately: the offset log deletes old batches
                self._changed.notify()

    def finish(self, committed: Mapping[str, int], timeout: float) -> bool:
        """Write everything up to the last committed batches; False after the timeout."""
        for sink in self._views:
            if committed[sink] > self._ledgers[sink].seen:
                self.note(sink, committed[sink], late=None)
        return self._end(timeout)

    def _is_pending(self) -> bool:
        return any(each.pending for each in self._ledgers.values())

    def _note(self, sink: str, number: int, late: int | None) -> bool:
        """Return whether a batch became pending."""
        ledger = self._ledgers[sink]
        wanted = ledger.find_new(number, late)
        read = [read_batch(self._files, sink, each) for each in wanted]
        found = tuple(batch for batch in read if batch is not None)
        if len(found) < len(wanted):
            self.totals.lost += len(wanted) - len(found)
            log.error(
                "the offset log deleted batches before their late records were found",
                sink=sink,
                batches=wanted,
            )
        self._ledgers[sink] = ledger.with_batches(number, found)
        return bool(found)

    def _work(self, ending: bool) -> None:
        for sink in self._views:
            sources = tuple(dict.fromkeys(name for view in self._views[sink] for name in view.sources))
            while part := self._ledgers[sink].next_part(sources, MAX_SCAN):
                self._read_again(sink, part, sources)
        is_due = self._is_write_due(ending)
        with self._changed:
            for sink, ledger in self._ledgers.items():
                if is_due or ledger.seen >= self._stored[sink].seen + _WRITE_BATCHES:
                    self._write(sink)

    def _read_again(self, sink: str, part: tuple[Batch, ...], sources: tuple[str, ...]) -> None:
        left = [self._drop_deleted(batch, sources) for batch in part]
        self._context.check_fence()
        for view in self._views[sink]:
            written = self._scan(view, left)
            self.totals.written += written
            log.info(
                "late records written", view=view.name, written=written, batches=[b.number for b in part]
            )
        with self._changed:
            self._ledgers[sink] = self._ledgers[sink].without(part)
            self._write(sink)

    def _drop_deleted(self, batch: Batch, sources: tuple[str, ...]) -> Batch:
        """Return the batch without records that retention has deleted; they are counted as lost."""
        for source in sources:
            batch, lost = without_lost(batch, source, self._context.first_offsets(source))
            if lost:
                self.totals.lost += lost
                log.error(
                    "retention deleted records before they were read again", source=source, offsets=lost
                )
        return batch

    def _write(self, sink: str) -> None:
        ledger = self._ledgers[sink]
        if ledger != self._stored.get(sink):
            stored = {"seen": ledger.seen, "pending": [batch.to_json() for batch in ledger.pending]}
            self._files.write(f"{_FOLDER}/{sink}.json", json.dumps(stored).encode())
            self._stored[sink] = ledger


def read_ledger(files: Folder, sink: str) -> Ledger | None:
    """Return the stored ledger of a query; None if it had no late records output."""
    held = files.read(f"{_FOLDER}/{sink}.json")
    if held is None:
        return None
    stored = json.loads(held)
    return Ledger(stored["seen"], tuple(map(parse_batch, stored["pending"])))


def delete_ledgers(files: Folder, sinks: Iterable[str]) -> None:
    """Delete the ledgers of queries without late records output: records of this time are never written."""
    for sink in sinks:
        files.delete(f"{_FOLDER}/{sink}.json")
