"""Reads what decisions about a reprocessing need: its Pipeline, the drivers of both runs with their reports, and the proof of the log."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from kappa_crds.pipeline_status import Run
from kappa_crds.reprocessing import ENDS, WANTS_SHADOW, WANTS_SOAKING, ReprocessingPhase
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key
from kappa_operator.engine.plan import Failure
from kappa_operator.engine.recent import LONGEST, SHORT
from kappa_operator.errors import KappaError
from kappa_operator.log.eta import Eta, estimate
from kappa_operator.log.facts import Edge
from kappa_operator.log.hold import Holds, name_holder
from kappa_operator.pipeline.log import plan_holds, plan_release, prove_pipeline
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
    if pipeline is None or not observed.is_controlled:
        return observed
    if observed.phase in (*ENDS, *WANTS_SOAKING):
        context.replays.forget(key)
        released = plan_release(context, pipeline, name_holder(key.name))
        observed = replace(observed, holds=Holds(released))
    if observed.phase in (*WANTS_SHADOW, *WANTS_SOAKING):
        observed = await _observe_drivers(context, pipeline, observed)
    if observed.phase is ReprocessingPhase.CATCHING_UP:
        observed = replace(observed, eta=_estimate(context, key, observed))
    if observed.phase in (ReprocessingPhase.PROVING, *WANTS_SHADOW):
        observed = await _observe_log(context, key, pipeline, observed)
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
    context: OperatorContext, key: Key, pipeline: PipelineResource, observed: ReprocessingObserved
) -> ReprocessingObserved:
    """Plan what holds the retention of the sources until the cutover; prove first that their log reaches back to its start."""
    if observed.phase is ReprocessingPhase.PROVING:
        proof = await prove_pipeline(context, pipeline, Edge.EARLIEST)
        observed = replace(observed, proof=proof)
    plan = partial(plan_holds, context, pipeline, name_holder(key.name))
    try:
        holds = await context.reads.read(("holds", key), LONGEST, plan)
    except KappaError:
        return observed  # the proof or the drivers report it
    return replace(observed, holds=holds)
