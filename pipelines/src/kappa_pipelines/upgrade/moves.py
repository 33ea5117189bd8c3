"""Moves a checkpoint from one version of a topic to another one, with its state.

The Pipeline that writes the topic was reprocessed, and this one has read the old version exactly up to the cut. So the end of
its last batch is written again with the new topic at the offset that stands for the same input. Spark continues there as after any restart.
Nothing else in the checkpoint names a topic, but for the fingerprints of the queries. See ADR 72.
"""

from collections.abc import Iterator, Mapping

import structlog

from kappa_crds.inputs import TopicMove
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_pipelines.checkpoint.format.offsets import (
    Entry,
    SourceOffset,
    read_committed_batch,
    read_entry,
    read_planned_batch,
    replace_ends,
)
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.upgrade.fingerprints import rename_topic

log = structlog.get_logger()


def move_checkpoint(files: Folder, revision: Revision) -> None:
    """Continue in the new topics of a revision; LostDataError, and nothing is written, where a query is not at the cut.

    Doing so again changes nothing: a query that was moved does not read the old topic.
    """
    sinks = [sink.name for sink in revision.spec.sinks]
    sources = {source.name for source in revision.spec.sources if source.topic_pattern is None}
    for move in revision.moves:
        entries = {(sink, batch): entry for sink in sinks for batch, entry in _read_last(files, sink)}
        for (sink, batch), entry in entries.items():
            if batch >= read_committed_batch(files, sink):
                _check(sink, entry, sources, move)
        for (sink, batch), entry in sorted(entries.items()):
            ends = {name: _move(end, move) if name in sources else end for name, end in entry.ends.items()}
            if ends != entry.ends:
                log.info("moving to another version of a topic", sink=sink, batch=batch, topic=move.new)
                replace_ends(files, sink, batch, ends)
        rename_topic(files, sinks, sources, move.old, move.new)


def _read_last(files: Folder, sink: str) -> Iterator[tuple[int, Entry]]:
    """Yield the last entries of an offset log, from the one before the last committed batch, where that begins."""
    committed, planned = read_committed_batch(files, sink), read_planned_batch(files, sink)
    for batch in range(max(committed - 1, 0), planned + 1):
        entry = read_entry(files, sink, batch)
        if entry is not None:
            yield batch, entry


def _check(sink: str, entry: Entry, sources: set[str], move: TopicMove) -> None:
    until = {int(part): offset for part, offset in move.until.items()}
    for name, end in entry.ends.items():
        if name not in sources or move.old not in end:
            continue
        found = {int(part): int(offset) for part, offset in end[move.old].items()}
        for part in sorted(found.keys() | until.keys()):
            if found.get(part, 0) != until.get(part, 0):
                message = (
                    f"sink {sink!r}: source {name!r} has read partition {part} of topic {move.old} up to offset {found.get(part, 0)}, and"
                    f" Reprocessing {move.reprocessing} moved its readers to {move.new} at offset {until.get(part, 0)}; to read {move.new}"
                    " from its start with empty state, set spec.upgrade.mode to Reprocess and change spec.restartNonce"
                )
                raise LostDataError(Reason.INPUT_NOT_AT_CUT, message)


def _move(end: SourceOffset, move: TopicMove) -> SourceOffset:
    if move.old not in end:
        return end
    begin: Mapping[str, int] = move.begin
    return {**{topic: parts for topic, parts in end.items() if topic != move.old}, move.new: dict(begin)}
