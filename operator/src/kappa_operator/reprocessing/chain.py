"""Finds the Pipelines that are reprocessed as one: the first, those that read its outputs, those that read theirs, and so on (ADR 77). Reads the cache only."""

import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from kappa_crds.inputs import InputTopic
from kappa_crds.permissions import name_version
from kappa_crds.pipeline_status import Run, RunRole, UpgradePhase
from kappa_crds.reprocessing import WANTS_SHADOW, MemberStatus, ReprocessingStatus
from kappa_crds.reprocessing_policy import Downstream
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.keys import Key
from kappa_operator.engine.references import find_users
from kappa_operator.pipeline.objects import PipelineResource
from kappa_operator.pipeline.revision import list_read
from kappa_operator.reprocessing.objects import ReprocessingResource, view_reprocessing
from kappa_operator.reprocessing.readers import find_readers

AT_REST = (UpgradePhase.DONE, UpgradePhase.WITHDRAWN)
"""Phases of a change in which a pipeline runs the revision of its spec, and may become a member."""


class NoChain(Exception):
    """The dependent pipelines cannot be reprocessed as one; the message is for people."""


def find_members(
    cache: ResourceCache, first: PipelineResource, reprocessing: ReprocessingResource
) -> tuple[MemberStatus, ...]:
    """Return the members of a reprocessing, each after those that it reads from; raise NoChain."""
    if reprocessing.spec.downstream is not Downstream.REPROCESS:
        return ()
    found, after = {first.metadata.name: first}, dict[str, set[str]]()
    waiting = [first]
    while waiting:
        writer = waiting.pop()
        for reader in find_readers(cache, writer):
            name = reader.metadata.name
            after.setdefault(name, set()).add(writer.metadata.name)
            if name not in found:
                found[name] = reader
                waiting.append(reader)
    try:
        order = [name for name in TopologicalSorter(after).static_order() if name != first.metadata.name]
    except CycleError as error:
        names = " -> ".join(error.args[1])
        raise NoChain(f"Pipelines read the outputs of each other ({names}), so none is the last") from None
    topics = {output.topic for each in found.values() for output in each.status.outputs}
    for name in order:
        _check(found[name], topics)
    return tuple(
        MemberStatus(pipeline_ref=name, uid=found[name].metadata.uid, after=tuple(sorted(after[name])))
        for name in order
    )


def _check(member: PipelineResource, topics: set[str]) -> None:
    """Raise NoChain for a pipeline that cannot be a member now."""
    name, change = member.metadata.name, member.status.upgrade
    if change is not None and change.phase not in AT_REST:
        raise NoChain(f"Pipeline {name} has a change in phase {change.phase}; that has to end first")
    if member.status.sides:
        raise NoChain(f"Pipeline {name} has a run of another reprocessing, which has to end first")
    if member.spec.suspend:
        raise NoChain(f"Pipeline {name} is suspended; set spec.suspend to false, or let it be moved instead")
    for source in member.spec.sources:
        fits = {each for each in topics if _matches(source.topic_pattern, each)}
        if fits:
            raise NoChain(
                f"source {source.name} of Pipeline {name} has a topicPattern that fits {min(fits)} and its new version:"
                " name the topics in spec.sources.topics instead"
            )


def _matches(pattern: str | None, topic: str) -> bool:
    try:
        return pattern is not None and re.fullmatch(pattern, f"{topic}.r1") is not None
    except re.error:
        return True  # Java reads more than Python; what is not known is not read


def find_joinable(cache: ResourceCache, pipeline: PipelineResource) -> ReprocessingResource | None:
    """Return the Reprocessing of another Pipeline that this one is a member of, while its new version is wanted."""
    name = pipeline.metadata.name
    for key in find_users(cache, Key.of(pipeline), "Reprocessing"):
        found: ReprocessingResource | None = cache.get(key)
        if found is None or found.spec.pipeline_ref == name or found.status.phase not in WANTS_SHADOW:
            continue
        if found.metadata.deletion_timestamp is None and found.status.cut is None:
            view = view_reprocessing(found, pipeline)
            if view is not None and view.status.members:
                return view
    return None


def find_new_inputs(
    cache: ResourceCache, pipeline: PipelineResource, reprocessing: str
) -> tuple[InputTopic, ...] | None:
    """Return what the new version of a member reads; None until each new version that it reads from has caught up."""
    namespace = pipeline.metadata.namespace
    found: ReprocessingResource | None = cache.get(Key("Reprocessing", namespace, reprocessing))
    member = None if found is None else _find_member(found.status, pipeline.metadata.name)
    if found is None or member is None:
        return None
    known = {each.name: InputTopic(name=each.name, topic=each.topic) for each in pipeline.status.inputs}
    for name in member.after:
        writer: PipelineResource | None = cache.get(Key("Pipeline", namespace, name))
        run = None if writer is None else find_side(writer, reprocessing)
        of_writer = found.status if name == found.spec.pipeline_ref else found.status.view_member(name)
        if writer is None or run is None or of_writer is None or of_writer.caught_up_since is None:
            return None
        known |= {each.name: each for each in _list_versions(writer, run)}
    read = list_read(pipeline.spec)
    return tuple(known[name] for name in sorted(known) if name in read)


def _find_member(status: ReprocessingStatus, name: str) -> MemberStatus | None:
    return next((each for each in status.members if each.pipeline_ref == name), None)


def find_side(pipeline: PipelineResource, reprocessing: str) -> Run | None:
    """Return the run of the new version of a pipeline, for a reprocessing."""
    runs = (run for run in pipeline.status.sides if run.reprocessing == reprocessing)
    return next((run for run in runs if run.role is RunRole.SHADOW), None)


def _list_versions(writer: PipelineResource, run: Run) -> Iterator[InputTopic]:
    present = name_version(writer.status.active.outputs)
    for each in writer.status.outputs:
        yield InputTopic(name=each.name, topic=each.topic.removesuffix(present) + name_version(run.outputs))


def find_side_readers(cache: ResourceCache, pipeline: PipelineResource, reprocessing: str) -> tuple[str, ...]:
    """Return the members that still have a side run that reads topics of the side run of this pipeline."""
    found: ReprocessingResource | None = cache.get(
        Key("Reprocessing", pipeline.metadata.namespace, reprocessing)
    )
    names = () if found is None else found.status.members
    readers = (
        cache.get(Key("Pipeline", pipeline.metadata.namespace, each.pipeline_ref))
        for each in names
        if pipeline.metadata.name in each.after
    )
    return tuple(
        each.metadata.name
        for each in readers
        if each is not None and any(run.reprocessing == reprocessing for run in each.status.sides)
    )
