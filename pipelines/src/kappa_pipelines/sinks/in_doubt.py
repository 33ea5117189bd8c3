"""Resolves in-doubt writes of sinks that write exactly once, before a driver's first batch.

A planned batch without a commit is repeated, and rows that some writers have written stay. So the repetition needs the same number
of writers and the same views. The state must not be repartitioned either: that uses the number of the batch, so its rows would come in the
next one. If no writer has written a part of the batch, none of this applies.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.format.offsets import read_committed_batch, read_planned_batch
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.sinks.commit_marker import CommitMarker
from kappa_pipelines.sinks.publisher import Publisher, Publishers

_FOLDER = "_writers"

FenceWriters = Callable[[Publisher, "BatchState", str], Mapping[int, CommitMarker]]
"""Fences off older drivers from all writers of a sink, also on its previous topic, and returns their commit markers."""


@dataclass(frozen=True)
class BatchState:
    """State of a sink's query in its checkpoint: the checkpoint incarnation, the last planned and the last committed batch.

    A query that has never started has no incarnation.
    """

    incarnation: str | None
    planned: int
    committed: int

    def is_in_doubt(self, markers: Mapping[int, CommitMarker]) -> bool:
        """Return whether a writer has written its part of a batch that will be repeated."""
        last = (marker.written.get(self.incarnation or "", -1) for marker in markers.values())
        return self.planned > self.committed and max(last, default=-1) >= self.planned


def resolve_in_doubt(files: Folder, wanted: Publishers, fence_writers: FenceWriters) -> dict[str, Publisher]:
    """Fence off older drivers from the writers of all sinks, and return each publisher with its number of writers.

    LostDataError if other views wrote a part of a batch: then nothing has changed, except that older drivers cannot write.
    """
    resolved = {}
    for name, each in wanted.items():
        stored, state = _read_stored(files, each), _read_state(files, each)
        all_writers = replace(each, writers=max(each.writers, stored.writers))
        is_in_doubt = state.is_in_doubt(fence_writers(all_writers, state, stored.topic))
        if is_in_doubt and stored.definition != each.definition:
            raise refuse_change(
                name, state.planned, "views, sources or the sink have changed", "restore the previous spec"
            )
        writers = stored.writers if is_in_doubt else each.writers
        resolved[name] = replace(each, writers=writers, is_in_doubt=is_in_doubt)
        _store(files, resolved[name])
    return resolved


def refuse_change(sink: str, batch: int, changed: str, remedy: str) -> LostDataError:
    """Return the error for a change that a batch in doubt does not allow."""
    return LostDataError(
        Reason.STATE_INCOMPATIBLE,
        f"sink {sink!r}: batch {batch} was written in part before its driver ended, and {changed} since. A repetition would"
        f" duplicate or lose rows: {remedy} until a batch is committed, then change it",
    )


def _read_state(files: Folder, publisher: Publisher) -> BatchState:
    sink, held = publisher.sink, files.read(f"{publisher.sink}/metadata")
    incarnation = None if held is None else publisher.name_incarnation(str(json.loads(held)["id"]))
    return BatchState(incarnation, read_planned_batch(files, sink), read_committed_batch(files, sink))


def _read_stored(files: Folder, wanted: Publisher) -> Publisher:
    held = files.read(f"{_FOLDER}/{wanted.sink}")
    return wanted if held is None else replace(wanted, **json.loads(held))


def _store(files: Folder, publisher: Publisher) -> None:
    """Store how the rows of the next batches are distributed to writers."""
    stored = ("writers", "definition", "topic")
    held = json.dumps({name: getattr(publisher, name) for name in stored}).encode()
    if files.read(f"{_FOLDER}/{publisher.sink}") != held:
        files.write(f"{_FOLDER}/{publisher.sink}", held)
