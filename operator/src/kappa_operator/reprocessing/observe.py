"""Reads what decisions about a reprocessing need: its Pipeline, the drivers of both runs with their reports, and the proof of the log."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from kappa_crds.pipeline_status import Run
from kappa_crds.reprocessing import ENDS, WANTS_SHADOW, WANTS_SOAKING, ReprocessingPhase
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key
from kappa_operator.engine.plan import Failure
from kappa_operator.engine.recent import SHORT
from kappa_operator.errors import KappaError
from kappa_operator.kafkacluster.connection import connect, resolve_cluster
from kappa_operator.log.eta import Eta, estimate
from kappa_operator.log.facts import Edge, Known
from kappa_operator.log.proof import LogProof
from kappa_operator.log.prove import prove
from kappa_operator.log.uses import build_questions
from kappa_operator.pipeline.dependencies import resolve_topics
from kappa_operator.pipeline.objects import PipelineResource
from kappa_operator.pipeline.observe import observe_drivers, observe_progress
from kappa_operator.reprocessing.catch_up import list_positions
from kappa_operator.reprocessing.model import Driver, ReprocessingObserved
from kappa_operator.reprocessing.objects import ReprocessingResource


def forget_reprocessing(context: OperatorContext, key: Key) -> None:
    """Forget the samples of a reprocessing that is gone."""
    context.replays.forget(key)


def find_reprocessed(cache: ResourceCache, key: Key) -> Iterator[Key]:
    """Yield the Pipeline of a reprocessing, which acts on its phase."""
    yield from (each for each in cache.find_named(key) if each.kind == "Pipeline")


async def observe_reprocessing(
    context: OperatorContext, key: Key, failures: tuple[Failure, ...]
) -> ReprocessingObserved | None:
    """Return what a decision about the reprocessing needs, or None where it is gone."""
    resource: ReprocessingResource | None = context.cache.read(key)
    if resource is None:
        return None
    pipeline: PipelineResource | None = context.cache.get(
        Key("Pipeline", key.namespace, resource.spec.pipeline_ref)
    )
    observed = ReprocessingObserved(resource, pipeline, failures=failures)
    if pipeline is None or not observed.is_controlled or observed.phase in ENDS:
        context.replays.forget(key)
        return observed
    if observed.phase in (*WANTS_SHADOW, *WANTS_SOAKING):
        observed = await _observe_drivers(context, pipeline, observed)
    if observed.phase is ReprocessingPhase.CATCHING_UP:
        return replace(observed, eta=_estimate(context, key, observed))
    if observed.phase is ReprocessingPhase.PROVING:
        return await _observe_log(context, pipeline, observed)
    return observed


async def _observe_drivers(
    context: OperatorContext, pipeline: PipelineResource, observed: ReprocessingObserved
) -> ReprocessingObserved:
    pods = await observe_drivers(context, pipeline, SHORT)

    async def find(run: Run | None) -> Driver | None:
        if run is None:
            return None
        pod = next((pod for pod in pods if pod.generation == run.generation), None)
        return Driver(run, pod, await observe_progress(context, pipeline, pods, run.generation))

    own = (run for run in pipeline.status.sides if run.reprocessing == observed.resource.metadata.name)
    return replace(observed, active=await find(pipeline.status.active), side=await find(next(own, None)))


def _estimate(context: OperatorContext, key: Key, observed: ReprocessingObserved) -> Eta | None:
    if observed.side is None or observed.side.progress is None:
        return None
    now = context.now()
    return estimate(context.replays.add(key, list_positions(observed.side.progress, now)), now)


async def _observe_log(
    context: OperatorContext, pipeline: PipelineResource, observed: ReprocessingObserved
) -> ReprocessingObserved:
    """Prove that the log reaches back to the start of all sources, which the new version reads from their first record."""
    try:
        return replace(observed, proof=await read_proof(context, pipeline, context.now()))
    except KappaError as error:
        return replace(observed, problem=error.message)


async def read_proof(context: OperatorContext, pipeline: PipelineResource, now: datetime) -> LogProof:
    """Return the proof for all sources from their start; raise KappaError where it cannot be read."""
    namespace = pipeline.metadata.namespace
    cluster = resolve_cluster(context.cache, namespace, pipeline.spec.cluster_ref)
    topics = await resolve_topics(context, cluster, pipeline)
    questions = build_questions(pipeline.spec, topics, Edge.EARLIEST)
    return prove(await context.kafka.read_log(await connect(context, cluster), questions, Known()))
