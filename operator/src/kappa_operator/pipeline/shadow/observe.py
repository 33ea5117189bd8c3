"""Reads what decisions about the side run need: nothing, where the pipeline has none and can get none."""

from collections.abc import Iterator
from dataclasses import replace

from kappa_crds import API_VERSION
from kappa_crds.permissions import name_version
from kappa_crds.pipeline_status import RunRole
from kappa_crds.reprocessing import WANTS_SHADOW
from kappa_crds.topic import TopicSpec
from kappa_crds.upgrade import SHADOW_MODES
from kappa_operator.archive.sources import find_archives
from kappa_operator.engine.actions import ApplyObject, CreateObject, DeleteObject, SetDriverRole, StopDriver
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.plan import Failure, Verdict
from kappa_operator.errors import KappaError
from kappa_operator.kafkacluster.connection import connect, resolve_cluster
from kappa_operator.pipeline.backfill import list_added_topics
from kappa_operator.pipeline.driver import DriverPod
from kappa_operator.pipeline.objects import SIDE_ANNOTATION, PipelineResource
from kappa_operator.pipeline.revision import Dependencies
from kappa_operator.pipeline.shadow.model import BESIDE, SideObserved, VersionedTopic
from kappa_operator.pipeline.shadow.topics import COPIED, copy_spec, copy_view
from kappa_operator.pipeline.upgrade.change import next_checkpoint
from kappa_operator.reprocessing.chain import find_new_inputs, find_side_readers
from kappa_operator.reprocessing.objects import (
    ReprocessingResource,
    is_controlled_by,
    name_reprocessing,
    view_reprocessing,
)
from kappa_operator.reprocessing.readers import find_moving_readers
from kappa_operator.topic.checks import TopicResource

_MOST_SKIPPED = 20


def may_have_side(resource: PipelineResource) -> bool:
    """Return whether the pipeline has a side run or may get one, or a change adds a topic to its version of the outputs."""
    status = resource.status
    is_beside = status.upgrade is not None and status.upgrade.phase in BESIDE
    is_in_mode = resource.spec.upgrade.mode in SHADOW_MODES
    return is_in_mode or is_beside or bool(status.sides or list_added_topics(status, resource.spec))


def find_reprocessing(
    context: OperatorContext, resource: PipelineResource
) -> tuple[ReprocessingResource | None, bool]:
    """Return the Reprocessing of the present change, and whether one that the pipeline does not control has its name."""
    change = resource.status.upgrade
    if change is None or change.phase not in BESIDE or change.intent is None:
        return None, False
    metadata = resource.metadata
    name = change.reprocessing or name_reprocessing(metadata.name, change.intent)
    found: ReprocessingResource | None = context.cache.get(Key("Reprocessing", metadata.namespace, name))
    if change.reprocessing is not None:
        return view_reprocessing(found, resource), False
    if found is None:
        return None, False
    is_own = is_controlled_by(found, resource)
    return (found if is_own else None), not is_own


def find_versioned(
    context: OperatorContext, resource: PipelineResource, version: int
) -> Iterator[VersionedTopic]:
    """Yield the Topics of a version of the outputs that the pipeline controls."""
    suffix, namespace = name_version(version), resource.metadata.namespace
    for key in context.cache.find("Topic", namespace):
        topic: TopicResource | None = context.cache.get(key) if key.name.endswith(suffix) else None
        owner = None if topic is None else topic.metadata.controller
        if topic is None or owner is None or owner.uid != resource.metadata.uid:
            continue
        yield VersionedTopic(
            ref=ObjectRef(API_VERSION, "Topic", namespace, key.name),
            uid=topic.metadata.uid,
            topic=topic.spec.topic_name or key.name,
            is_there=topic.status.topic_id is not None,
            policy=topic.spec.deletion_policy,
            is_deleting=topic.metadata.deletion_timestamp is not None,
        )


async def complete_side(
    context: OperatorContext,
    resource: PipelineResource,
    found: Dependencies | Verdict,
    failures: tuple[Failure, ...],
    side: SideObserved,
) -> SideObserved:
    """Return the side with the Reprocessing, the topics of its version, and what is needed to begin one."""
    reprocessing, is_taken = find_reprocessing(context, resource)
    run, outputs = next(iter(resource.status.sides), None), find_outputs(resource, found)
    change = resource.status.upgrade
    side = replace(
        side,
        reprocessing=reprocessing,
        is_name_taken=is_taken,
        archives=find_archives(context.cache, resource.metadata.namespace, resource.spec),
        topics=()
        if run is None or not run.outputs
        else tuple(find_versioned(context, resource, run.outputs)),
        readers=()
        if run is None or run.reprocessing is None
        else (
            *find_moving_readers(context.cache, resource, run.reprocessing),
            *find_side_readers(context.cache, resource, run.reprocessing),
        ),
        inputs=None
        if run is not None or change is None or change.reprocessing is None
        else find_new_inputs(context.cache, resource, change.reprocessing),
        failure=failures[-1].error.message if failures else None,
    )
    added = {
        name: outputs[name] for name in list_added_topics(resource.status, resource.spec) if name in outputs
    }
    try:
        if run is None and added:
            topics = tuple(find_versioned(context, resource, resource.status.active.outputs))
            return replace(side, topics=topics, templates=await read_templates(context, resource, added))
        if run is None and outputs and side.phase in WANTS_SHADOW:
            return replace(side, number=await find_number(context, resource, outputs))
        if run is not None and run.role is RunRole.SHADOW and len(side.topics) < len(outputs):
            return replace(side, templates=await read_templates(context, resource, outputs))
    except KappaError as error:
        return replace(side, failure=error.message)
    return side


async def read_templates(
    context: OperatorContext, resource: PipelineResource, outputs: dict[str, str]
) -> dict[str, TopicSpec]:
    """Return what the versions of topics are copied from, by their names in the spec: Topic resources, or Kafka itself."""
    namespace, found = resource.metadata.namespace, {}
    for name, topic in outputs.items():
        declared: TopicResource | None = context.cache.get(Key("Topic", namespace, name))
        if declared is not None:
            found[name] = copy_spec(declared.spec)
            continue
        cluster = await connect(context, resolve_cluster(context.cache, namespace, resource.spec.cluster_ref))
        view = await context.kafka.describe_topic(cluster, topic, COPIED)
        if view is not None:
            found[name] = copy_view(view, resource.spec.cluster_ref)
    return found


async def find_number(context: OperatorContext, resource: PipelineResource, outputs: dict[str, str]) -> int:
    """Return the number of a new version: that of a new checkpoint, of which no topic is in Kafka from an earlier pipeline of this name."""
    cluster = await connect(
        context, resolve_cluster(context.cache, resource.metadata.namespace, resource.spec.cluster_ref)
    )
    first = next_checkpoint(resource.status)
    for number in range(first, first + _MOST_SKIPPED):
        names = [f"{topic}{name_version(number)}" for topic in outputs.values()]
        if not any([await context.kafka.describe_topic(cluster, name) for name in names]):
            return number
    return first + _MOST_SKIPPED


def find_outputs(resource: PipelineResource, found: Dependencies | Verdict) -> dict[str, str]:
    """Return the written topics in Kafka by their names in the spec, without a version."""
    if isinstance(found, Verdict):
        return {}
    return {topic: found.topics[topic] for _, topic in resource.spec.written if topic in found.topics}


def concerns_side(failure: Failure, resource: PipelineResource, pods: tuple[DriverPod, ...]) -> bool:
    """Return whether something failed that was done for the side run.

    While there may be one and the active driver is alive, nothing else creates objects.
    """
    run, action = next(iter(resource.status.sides), None), failure.action
    match action:
        case CreateObject(manifest) if manifest["kind"] in ("Topic", "Reprocessing"):
            return True
        case CreateObject(manifest) if SIDE_ANNOTATION in manifest["metadata"].get("annotations", {}):
            return True
        case ApplyObject(manifest, _) if manifest["kind"] == "Topic":
            return True
        case StopDriver(pod) | SetDriverRole(pod):
            return isinstance(action, SetDriverRole) or (run is not None and pod.name == run.driver)
        case DeleteObject(ref):
            return ref.kind == "Topic" or (run is not None and ref.name == run.driver)
        case ApplyObject() | CreateObject():
            return may_have_side(resource) and _is_active_alive(resource, pods) and _is_beside(resource)
        case _:
            return False


def _is_beside(resource: PipelineResource) -> bool:
    change = resource.status.upgrade
    return change is not None and change.phase in BESIDE


def _is_active_alive(resource: PipelineResource, pods: tuple[DriverPod, ...]) -> bool:
    generation = resource.status.active.generation
    return any(pod.generation == generation and not pod.finished for pod in pods)
