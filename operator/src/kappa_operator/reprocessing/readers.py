"""Finds the Pipelines that read what another one writes, and where each of them has to read (ADR 72). Reads the cache only."""

from collections.abc import Iterator, Mapping

from kappa_crds.alias import Move, resolve_alias
from kappa_crds.inputs import InputTopic, TopicMove
from kappa_crds.permissions import name_version
from kappa_crds.pipeline_status import UpgradePhase
from kappa_crds.reprocessing import Cut, ReprocessingPhase, ReprocessingStatus
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.keys import Key
from kappa_operator.errors import KappaError
from kappa_operator.kafkacluster.connection import resolve_cluster
from kappa_operator.pipeline.model import Inputs
from kappa_operator.pipeline.objects import PipelineResource
from kappa_operator.pipeline.revision import list_read
from kappa_operator.pipeline.shadow.model import BESIDE
from kappa_operator.reprocessing.objects import ReprocessingResource, view_reprocessing

Phase = ReprocessingPhase
Statuses = tuple[tuple[str, ReprocessingStatus], ...]
"""The Reprocessings of a Pipeline, by name."""


def list_readers(cache: ResourceCache, pipeline: PipelineResource) -> Iterator[PipelineResource]:
    """Yield the other Pipelines of the namespace that have run and read an output of this one, in whatever version."""
    names = {each.name for each in pipeline.status.outputs}
    for key in cache.find("Pipeline", pipeline.metadata.namespace) if names else ():
        other: PipelineResource | None = cache.get(key)
        if other is None or other.metadata.name == pipeline.metadata.name:
            continue
        if other.metadata.deletion_timestamp is not None or other.status.active.revision is None:
            continue
        if list_read(other.spec) & names and _is_same_cluster(cache, pipeline, other):
            yield other


def find_readers(cache: ResourceCache, pipeline: PipelineResource) -> Iterator[PipelineResource]:
    """Yield those that read an output in its present version."""
    outputs = {each.name: each.topic for each in pipeline.status.outputs}
    suffix = name_version(pipeline.status.active.outputs)
    for other in list_readers(cache, pipeline):
        known = {each.name: each.topic for each in other.status.inputs}
        names = list_read(other.spec) & outputs.keys()
        if any(known.get(name, outputs[name].removesuffix(suffix)) == outputs[name] for name in names):
            yield other


def find_moving_readers(cache: ResourceCache, pipeline: PipelineResource, name: str) -> tuple[str, ...]:
    """Return the readers at the cuts of a reprocessing that have not left the topics that are not written any more."""
    key = Key("Reprocessing", pipeline.metadata.namespace, name)
    found = view_reprocessing(cache.get(key), pipeline)
    if found is None:
        return ()
    present = {each.topic for each in pipeline.status.outputs}
    left = {
        topic.topic
        for cut in (found.status.cut, found.status.rollback_cut)
        for topic in (() if cut is None else (*cut.old, *cut.new))
    } - present
    names = {each for cut in (found.status.cut, found.status.rollback_cut) if cut for each in cut.readers}
    return tuple(
        reader.metadata.name
        for reader in list_readers(cache, pipeline)
        if reader.metadata.name in names and _is_moving(reader, left)
    )


def _is_moving(reader: PipelineResource, left: set[str]) -> bool:
    """Return whether a reader still has to record its move from one of these topics, or to stop the driver that reads there."""
    change = reader.status.upgrade
    is_stopping = change is not None and change.phase is UpgradePhase.HANDING_OVER
    return any(
        each.topic in left or (is_stopping and each.move is not None and each.move.old in left)
        for each in reader.status.inputs
    )


def find_inputs(cache: ResourceCache, resource: PipelineResource, topics: Mapping[str, str]) -> Inputs:
    """Return the versions that a pipeline has to read; `topics` has the topics of version 0 in Kafka by their names."""
    status, name = resource.status, resource.metadata.name
    known = {each.name: each for each in status.inputs}
    is_new, change = status.active.revision is None, status.upgrade
    is_member = change is not None and change.phase in BESIDE and change.reprocessing is not None
    awaited, behind = "", []
    for writer, found in _find_writers(cache, resource, is_new=is_new):
        if is_member and change is not None and change.reprocessing in dict(found):
            continue  # it exchanges its own runs, which read the old and the new outputs already
        awaited = awaited or next((each for each, at in found if _is_awaited(writer, at, name)), "")
        for output in writer.status.outputs:
            alias = resolve_alias(output.name, writer.status, found)
            if alias is None or output.name not in list_read(resource.spec) & topics.keys():
                continue
            current = known[output.name].topic if output.name in known else topics[output.name]
            if alias.topic == current:
                continue
            move = next((each for each in reversed(alias.moves) if _fits(each, current, found, name)), None)
            if is_new:
                known[output.name] = InputTopic(name=output.name, topic=alias.topic)
            elif move is not None and move.new == alias.topic:
                known[output.name] = InputTopic(name=output.name, topic=move.new, move=_write(move))
            else:
                behind.append(f"{current} is read, and {alias.topic} is written now")
    return Inputs(tuple(known[each] for each in sorted(known)), awaited, "; ".join(behind))


def _find_writers(
    cache: ResourceCache, resource: PipelineResource, *, is_new: bool
) -> Iterator[tuple[PipelineResource, Statuses]]:
    """Yield the Pipelines that write a topic of the sources and have Reprocessings. For a new pipeline also those without: it has no state to move."""
    namespace, wanted = resource.metadata.namespace, list_read(resource.spec)
    found: dict[str, list[ReprocessingResource]] = {}
    for key in cache.find("Reprocessing", namespace) if wanted else ():
        each: ReprocessingResource | None = cache.get(key)
        if each is not None:
            for name in (each.spec.pipeline_ref, *(member.pipeline_ref for member in each.status.members)):
                found.setdefault(name, []).append(each)
    keys = cache.find("Pipeline", namespace) if is_new and wanted else ()
    for name in sorted({*found, *(key.name for key in keys)} - {resource.metadata.name}):
        writer: PipelineResource | None = cache.get(Key("Pipeline", namespace, name))
        if writer is None or not wanted & {each.name for each in writer.status.outputs}:
            continue
        if _is_same_cluster(cache, writer, resource):
            views = (view_reprocessing(each, writer) for each in found.get(name, ()))
            yield writer, tuple((each.metadata.name, each.status) for each in views if each is not None)


def _is_same_cluster(cache: ResourceCache, one: PipelineResource, other: PipelineResource) -> bool:
    try:
        found = [
            resolve_cluster(cache, each.metadata.namespace, each.spec.cluster_ref) for each in (one, other)
        ]
    except KappaError:
        return False
    return found[0].metadata.name == found[1].metadata.name


def _is_awaited(writer: PipelineResource, status: ReprocessingStatus, reader: str) -> bool:
    """Return whether a cut with this reader is recorded, and its versions are not exchanged."""
    cut = {Phase.CUTTING_OVER: status.cut, Phase.ROLLING_BACK: status.rollback_cut}.get(status.phase)
    if cut is None or reader not in cut.readers:
        return False
    return not {each.topic for each in cut.new} & {each.topic for each in writer.status.outputs}


def _fits(move: Move, current: str, found: Statuses, reader: str) -> bool:
    """Return whether a reader stood at the cut of this move."""
    status = dict(found)[move.reprocessing]
    cuts: tuple[Cut | None, ...] = (status.cut, status.rollback_cut)
    at_cut = any(cut is not None and cut.taken == move.at and reader in cut.readers for cut in cuts)
    return move.old == current and bool(move.until) and at_cut


def _write(move: Move) -> TopicMove:
    until, begin = (
        {str(part): offsets[part] for part in sorted(offsets)} for offsets in (move.until, move.begin)
    )
    return TopicMove(old=move.old, new=move.new, until=until, begin=begin, reprocessing=move.reprocessing)
