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
from kappa_pipelines.savepoint.query import read_points
from kappa_pipelines.sinks.marks import Mark
from kappa_pipelines.sinks.publisher import Publisher, Publishers
from kappa_pipelines.upgrade.repartition import count_partitions

_FOLDER = "_writers"

TakeOver = Callable[[Publisher, "Begun", str], Mapping[int, Mark]]
"""Takes all writers of a sink over from older drivers, also of the topic that it had before, and returns their marks."""


@dataclass(frozen=True)
class Begun:
    """What a checkpoint says of a sink's query: the life that its batches are counted in, the last one planned and the last committed.

    A query that was never started has no life.
    """

    life: str | None
    planned: int
    committed: int

    def is_written_in_part(self, marks: Mapping[int, Mark]) -> bool:
        """Return whether a writer has written its share of a batch that is to be repeated."""
        last = (mark.written.get(self.life or "", -1) for mark in marks.values())
        return self.planned > self.committed and max(last, default=-1) >= self.planned


def settle_publishers(files: Folder, wanted: Publishers, take_over: TakeOver) -> dict[str, Publisher]:
    """Take over the writers of all sinks, and return each with the number of writers that it is to have.

    LostDataError where a batch was written in part by other views: then nothing has changed but that older drivers can write no more.
    """
    settled = {}
    for name, each in wanted.items():
        kept, begun = _read_kept(files, each), _read_begun(files, each)
        marks = take_over(replace(each, writers=max(each.writers, kept.writers)), begun, kept.topic)
        partly = begun.is_written_in_part(marks)
        if partly and kept.definition != each.definition:
            raise _refuse(name, begun, "the views, sources or the sink were changed", "the spec before")
        settled[name] = replace(each, writers=kept.writers if partly else each.writers, is_partly=partly)
        _keep(files, settled[name])
    return settled


def check_division(files: Folder, publishers: Publishers, wanted: int) -> None:
    """Raise LostDataError where state is to be divided anew while a batch of its query is written in part."""
    partly = [name for name, each in publishers.items() if each.is_partly]
    for point in read_points(files, partly):
        had = count_partitions(point)
        if had not in (None, wanted):
            begun = Begun(None, point.batch + 1, point.batch)
            changed = f"the state is to be divided from {had} into {wanted} partitions"
            raise _refuse(point.sink, begun, changed, f"statePartitions: {had}")


def _refuse(sink: str, begun: Begun, changed: str, before: str) -> LostDataError:
    return LostDataError(
        Reason.STATE_INCOMPATIBLE,
        f"sink {sink!r}: batch {begun.planned} was written in part when its driver ended, and {changed} since, so it could not be"
        f" completed without rows twice or lost; go back to {before} until a batch was committed, then change it",
    )


def _read_begun(files: Folder, publisher: Publisher) -> Begun:
    sink, held = publisher.sink, files.read(f"{publisher.sink}/metadata")
    life = None if held is None else publisher.name_life(str(json.loads(held)["id"]))
    return Begun(life, read_planned_batch(files, sink), read_committed_batch(files, sink))


def _read_kept(files: Folder, wanted: Publisher) -> Publisher:
    held = files.read(f"{_FOLDER}/{wanted.sink}")
    return wanted if held is None else replace(wanted, **json.loads(held))


def _keep(files: Folder, publisher: Publisher) -> None:
    """Write down how the rows of the next batches are spread."""
    kept = ("writers", "definition", "topic")
    held = json.dumps({name: getattr(publisher, name) for name in kept}).encode()
    if files.read(f"{_FOLDER}/{publisher.sink}") != held:
        files.write(f"{_FOLDER}/{publisher.sink}", held)
