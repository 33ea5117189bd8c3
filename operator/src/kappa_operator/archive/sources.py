"""Archives that a new version of a pipeline can read before the log: those of its sources in its own StateStore, which its pods reach."""

from collections.abc import Iterator, Mapping

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.replay import ArchivedSource
from kappa_crds.source import Source
from kappa_operator.archive.objects import TopicResource, build_location
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.keys import Key
from kappa_operator.engine.references import find_referred
from kappa_operator.errors import ReferenceProblem
from kappa_operator.lag.model import Partition
from kappa_operator.statestore.objects import StateStoreResource, build_storage


def can_read_archives(spec: PipelineSpec) -> bool:
    """Return whether a driver of the spec can read archives: in batches, and without what it would read again from the log.

    Malformed and late records are read again outside of the query, and whole transactions are bounded by the log.
    """
    has_outputs_beside = len(spec.written) > len(spec.sinks)
    return not has_outputs_beside and spec.trigger.real_time is None and not spec.reads_transactions


def find_archives(cache: ResourceCache, namespace: str, spec: PipelineSpec) -> tuple[ArchivedSource, ...]:
    """Return the archives of the sources of a pipeline that its drivers can read."""
    return tuple(
        ArchivedSource(
            source=source.name,
            location=build_location(build_storage(store), namespace),
            topic=topic.status.topic_name or topic.metadata.name,
            topic_id=topic.status.topic_id or "",
        )
        for source, topic, store in _find(cache, namespace, spec)
    )


def find_archived(
    cache: ResourceCache, namespace: str, spec: PipelineSpec
) -> Mapping[Partition, tuple[int, int]]:
    """Return the archived offsets of the partitions of those sources: the first one, and the end."""
    return {
        Partition(topic.status.topic_name or topic.metadata.name, each.partition): (each.first, each.end)
        for _, topic, _ in _find(cache, namespace, spec)
        for each in (topic.status.archive.partitions if topic.status.archive else ())
    }


def _find(
    cache: ResourceCache, namespace: str, spec: PipelineSpec
) -> Iterator[tuple[Source, TopicResource, StateStoreResource]]:
    """Yield the sources with an archive in the store of the pipeline. One of a former topic, or in another store, is none."""
    store = _find_store(cache, namespace, spec)
    if store is None or not can_read_archives(spec):
        return
    for source in spec.sources:
        if len(source.topic_names) != 1 or not source.is_committed:
            continue
        topic: TopicResource | None = cache.get(Key("Topic", namespace, source.topic_names[0]))
        archive = None if topic is None else topic.status.archive
        if topic is None or archive is None or archive.store != store.metadata.name:
            continue
        if archive.topic_id == topic.status.topic_id:
            yield source, topic, store


def _find_store(cache: ResourceCache, namespace: str, spec: PipelineSpec) -> StateStoreResource | None:
    try:
        found: StateStoreResource | None = cache.get(
            find_referred(cache, "StateStore", namespace, spec.state_store_ref)
        )
    except ReferenceProblem:
        return None
    return found
