"""The proof that the log of a pipeline is whole, as it is now."""

from functools import partial

from kappa_crds.progress import Progress
from kappa_operator.archive.sources import find_archived
from kappa_operator.engine.actions import ApplyObject
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key
from kappa_operator.engine.recent import LONGEST
from kappa_operator.engine.references import is_meant
from kappa_operator.errors import KafkaFailure, KappaError, ReferenceProblem, SecretProblem
from kappa_operator.kafkacluster.connection import connect, resolve_cluster
from kappa_operator.kafkacluster.decide import KafkaClusterResource
from kappa_operator.lag.groups import name_group
from kappa_operator.log.facts import Edge, Known, LogFacts, Start
from kappa_operator.log.hold import Holdable, Holds, decide_holds, release_holds
from kappa_operator.log.proof import LogProof
from kappa_operator.log.prove import prove
from kappa_operator.log.uses import build_questions
from kappa_operator.pipeline.backfill import has_backfill, reads_history
from kappa_operator.pipeline.dependencies import resolve_topics
from kappa_operator.pipeline.objects import PipelineResource
from kappa_operator.topic.checks import TopicResource
from kappa_operator.topic.retention import name_hold


async def prove_pipeline(
    context: OperatorContext, resource: PipelineResource, start: Start | None = None
) -> LogProof:
    """Return the proof for all sources; `start` is where a run starts, None for what the spec has. Where nothing can be read it has a problem."""
    try:
        return prove(await observe_pipeline_log(context, resource, start))
    except (ReferenceProblem, SecretProblem, KafkaFailure) as error:
        return LogProof(at=context.now(), problem=error.message)


async def observe_pipeline_log(
    context: OperatorContext, resource: PipelineResource, start: Start | None = None
) -> LogFacts:
    """Return the facts of the logs of all sources; raise ReferenceProblem, SecretProblem or KafkaFailure."""
    cluster = resolve_cluster(context.cache, resource.metadata.namespace, resource.spec.cluster_ref)
    key = await connect(context, cluster)
    topics = await resolve_topics(context, cluster, resource)
    questions = build_questions(resource.spec, topics, start)
    return await context.kafka.read_log(key, questions, find_known(context, cluster, resource))


async def plan_holds(context: OperatorContext, resource: PipelineResource, holder: str) -> Holds:
    """Return how the topics of all sources are held for the next two hours; to be repeated before half of that has passed.

    Raises ReferenceProblem, SecretProblem or KafkaFailure.
    """
    cluster = resolve_cluster(context.cache, resource.metadata.namespace, resource.spec.cluster_ref)
    facts = await observe_pipeline_log(context, resource, Edge.EARLIEST)
    return decide_holds(facts, find_holdable(context, cluster, holder), holder, context.now())


async def plan_backfill_holds(
    context: OperatorContext, resource: PipelineResource, progress: Progress | None
) -> tuple[ApplyObject, ...]:
    """Return what holds the topics while the query of an added sink reads their logs, or what gives them back; none where nothing can be read now."""
    holder = f"backfill.{resource.metadata.name}"
    if not has_backfill(resource.status):
        return ()
    if not reads_history(resource.status, progress):
        return plan_release(context, resource, holder)
    plan = partial(plan_holds, context, resource, holder)
    try:
        return (await context.reads.read(("backfill", Key.of(resource)), LONGEST, plan)).actions
    except KappaError:
        return ()  # the next reconcile tries it again, and the driver reports what it cannot read


def plan_release(
    context: OperatorContext, resource: PipelineResource, holder: str
) -> tuple[ApplyObject, ...]:
    """Return the actions that give back all that the holder holds, none where the KafkaCluster is gone."""
    try:
        cluster = resolve_cluster(context.cache, resource.metadata.namespace, resource.spec.cluster_ref)
    except ReferenceProblem:
        return ()
    return release_holds(find_holdable(context, cluster, holder).values(), holder)


def find_holdable(
    context: OperatorContext, cluster: KafkaClusterResource, holder: str
) -> dict[str, Holdable]:
    """Return the Topics of the namespace that stand for topics of the cluster, by their names in Kafka."""
    key, annotation = Key.of(cluster), name_hold(holder)
    found: dict[str, Holdable] = {}
    for each in context.cache.find("Topic", key.namespace):
        topic: TopicResource | None = context.cache.get(each)
        if topic is not None and is_meant(context.cache, key, topic.spec.cluster_ref):
            metadata = topic.metadata
            held = metadata.annotations.get(annotation, "")
            found[topic.spec.topic_name or each.name] = Holdable(
                each.name, each.namespace, metadata.uid, held
            )
    return found


def find_known(context: OperatorContext, cluster: KafkaClusterResource, resource: PipelineResource) -> Known:
    """Return what is recorded of the logs: ids in the status of Topics, and offsets of the pipeline's group in the last lag sample."""
    metadata = resource.metadata
    ids: dict[str, str] = {}
    for key in context.cache.find("Topic", metadata.namespace):
        status = (context.cache.get_body(key) or {}).get("status") or {}
        if (
            status.get("cluster") == cluster.metadata.name
            and status.get("topicId")
            and status.get("topicName")
        ):
            ids[status["topicName"]] = status["topicId"]
    archived = find_archived(context.cache, metadata.namespace, resource.spec)
    sampled = context.get_lag(Key.of(cluster))
    if sampled is None:
        return Known(ids, archived=archived)
    group = name_group(metadata.namespace, metadata.name)
    committed = {
        pair.partition: sample.committed
        for pair, sample in sampled.samples.items()
        if pair.group == group and sample.committed is not None
    }
    return Known(ids, committed, archived)
