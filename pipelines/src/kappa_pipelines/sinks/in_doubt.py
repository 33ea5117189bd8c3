"""What writes each sink exactly once, settled before a driver's first batch.

A batch that was planned and not committed is repeated, and what some of its writers have written stays written. So it has to be spread over as
many writers as before, and be made by the same views; and its state cannot be divided anew, which would take the batch's number and
leave its rows to the next one. Where no writer has written anything of it, the driver is free to do all that.
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
"""Takes all writers of a sink over from older drivers, also of the topic that it had before, and returns their marks."""


@dataclass(frozen=True)
class BatchState:
    """What a checkpoint says of a sink's query: the life that its batches are counted in, the last one planned and the last committed.

    A query that was never started has no life.
    """

    life: str | None
    planned: int
    committed: int

    def is_in_doubt(self, marks: Mapping[int, CommitMarker]) -> bool:
        """Return whether a writer has written its share of a batch that is to be repeated."""
        last = (mark.written.get(self.life or "", -1) for mark in marks.values())
        return self.planned > self.committed and max(last, default=-1) >= self.planned


def resolve_in_doubt(files: Folder, wanted: Publishers, take_over: FenceWriters) -> dict[str, Publisher]:
    """Take over the writers of all sinks, and return each with the number of writers that it is to have.

    LostDataError where a batch was written in part by other views: then nothing has changed but that older drivers can write no more.
    """
    settled = {}
    for name, each in wanted.items():
        kept, begun = _read_kept(files, each), _read_begun(files, each)
        marks = take_over(replace(each, writers=max(each.writers, kept.writers)), begun, kept.topic)
        partly = begun.is_in_doubt(marks)
        if partly and kept.definition != each.definition:
            raise refuse_change(name, begun, "the views, sources or the sink were changed", "the spec before")
        settled[name] = replace(each, writers=kept.writers if partly else each.writers, is_in_doubt=partly)
        _keep(files, settled[name])
    return settled


def refuse_change(sink: str, begun: BatchState, changed: str, before: str) -> LostDataError:
    """Return the error for a change that a batch in doubt does not allow."""
    return LostDataError(
        Reason.STATE_INCOMPATIBLE,
        f"sink {sink!r}: batch {begun.planned} was written in part when its driver ended, and {changed} since, so it could not be"
        f" completed without rows twice or lost; go back to {before} until a batch was committed, then change it",
    )


def _read_begun(files: Folder, publisher: Publisher) -> BatchState:
    sink, held = publisher.sink, files.read(f"{publisher.sink}/metadata")
    life = None if held is None else publisher.name_incarnation(str(json.loads(held)["id"]))
    return BatchState(life, read_planned_batch(files, sink), read_committed_batch(files, sink))


def _read_kept(files: Folder, wanted: Publisher) -> Publisher:
    held = files.read(f"{_FOLDER}/{wanted.sink}")
    return wanted if held is None else replace(wanted, **json.loads(held))


def _keep(files: Folder, publisher: Publisher) -> None:
    """Write down how the rows of the next batches are spread."""
    kept = ("writers", "definition", "topic")
    held = json.dumps({name: getattr(publisher, name) for name in kept}).encode()
    if files.read(f"{_FOLDER}/{publisher.sink}") != held:
        files.write(f"{_FOLDER}/{publisher.sink}", held)
