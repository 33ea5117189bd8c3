"""Reads what decisions about a reprocessing need: its Pipeline, the drivers of both runs with their reports, and the proof of the log."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from kappa_crds.pipeline_status import AT_WORK, Run
from kappa_crds.reprocessing import ENDS, WANTS_SHADOW, WANTS_SOAKING, ReprocessingPhase
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key
from kappa_operator.engine.plan import Failure
from kappa_operator.engine.recent import LONGEST, MINUTE, SHORT
from kappa_operator.errors import AuthorizationFailed, KappaError
from kappa_operator.kafka.model import Producer, Rate
from kappa_operator.kafkacluster.connection import connect, resolve_cluster
from kappa_operator.log.eta import Eta, estimate
from kappa_operator.log.facts import Edge
from kappa_operator.log.hold import Holds, name_holder
from kappa_operator.log.overtake import Overtake, find_overtakes
from kappa_operator.pipeline.driver import DriverPod
from kappa_operator.pipeline.log import observe_pipeline_log, plan_holds, plan_release, prove_pipeline
from kappa_operator.pipeline.objects import PipelineResource, build_token_ref
from kappa_operator.pipeline.observe import observe_drivers, observe_progress
from kappa_operator.pipeline.shadow.model import BESIDE
from kappa_operator.reprocessing.catch_up import list_positions
from kappa_operator.reprocessing.model import Driver, Reader, ReplayQuota, ReprocessingObserved
from kappa_operator.reprocessing.objects import ReprocessingResource, name_replay_client
from kappa_operator.reprocessing.quota import find_wanted_quota
from kappa_operator.reprocessing.race import list_races, list_settings
from kappa_operator.reprocessing.readers import find_readers, list_readers


def forget_reprocessing(context: OperatorContext, key: Key) -> None:
    """Forget the samples of a reprocessing that is gone."""
    _forget_replay(context, key)
    context.soaks.forget(key)


def _forget_replay(context: OperatorContext, key: Key) -> None:
    context.replays.forget(key)
    context.races.forget(key)


def find_reprocessed(cache: ResourceCache, key: Key) -> Iterator[Key]:
    """Yield the Pipeline of a reprocessing, which acts on its phase."""
    yield from (each for each in cache.find_named(key) if each.kind == "Pipeline")


def find_moving(cache: ResourceCache, key: Key) -> Iterator[Key]:
    """Yield the Pipeline of a reprocessing with a cut, and those that read its outputs: all are ready, and their drivers hold."""
    resource: ReprocessingResource | None = cache.get(key)
    if resource is None or (resource.status.cut is None and resource.status.rollback_cut is None):
        return
    for each in find_reprocessed(cache, key):
        pipeline: PipelineResource | None = cache.get(each)
        if pipeline is not None:
            yield each
            yield from (Key.of(reader) for reader in list_readers(cache, pipeline))


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
        _forget_replay(context, key)
        released = plan_release(context, pipeline, name_holder(key.name))
        observed = replace(observed, holds=Holds(released))
    if observed.phase in (*WANTS_SHADOW, *WANTS_SOAKING):
        observed = await _observe_drivers(context, pipeline, observed)
    if (
        observed.phase is ReprocessingPhase.SOAKING
        and observed.active is not None
        and observed.side is not None
    ):
        new, old = observed.active.progress, observed.side.progress
        behind = context.soaks.add(key, new, old, context.now())
        observed = replace(observed, falling_behind=behind)
    if find_wanted_quota(resource) is not None or resource.status.replay_quota is not None:
        observed = replace(observed, quota=await _observe_quota(context, resource, pipeline))
    if observed.phase is ReprocessingPhase.CATCHING_UP:
        observed = replace(observed, eta=_estimate(context, key, observed))
        observed = replace(observed, overtakes=await _find_overtakes(context, key, pipeline, observed))
    if observed.phase in (ReprocessingPhase.PROVING, *WANTS_SHADOW):
        observed = await _observe_log(context, key, pipeline, observed)
    return observed


async def _observe_drivers(
    context: OperatorContext, pipeline: PipelineResource, observed: ReprocessingObserved
) -> ReprocessingObserved:
    pods = await observe_drivers(context, pipeline, SHORT)

    own = (run for run in pipeline.status.sides if run.reprocessing == observed.resource.metadata.name)
    side, active = next(own, None), pipeline.status.active
    observed = replace(
        observed,
        active=await _observe_driver(context, pipeline, pods, active),
        side=None if side is None else await _observe_driver(context, pipeline, pods, side),
    )
    is_cutting = observed.phase is ReprocessingPhase.CUTTING_OVER and not observed.has_cut_over
    is_rolling_back = observed.phase is ReprocessingPhase.ROLLING_BACK and observed.has_cut_over
    if not is_cutting and not is_rolling_back:
        return observed
    found = [await _observe_reader(context, each) for each in find_readers(context.cache, pipeline)]
    observed = replace(observed, readers=tuple(found))
    return await _observe_groups(context, pipeline, observed) if observed.resource.spec.groups else observed


async def _observe_groups(
    context: OperatorContext, pipeline: PipelineResource, observed: ReprocessingObserved
) -> ReprocessingObserved:
    """Read the consumer groups of the spec; for a rollback those that were moved at the cut."""
    names = observed.resource.spec.groups
    if observed.phase is ReprocessingPhase.ROLLING_BACK:
        names = () if observed.status.cut is None else observed.status.cut.groups
    namespace = pipeline.metadata.namespace
    try:
        resource = resolve_cluster(context.cache, namespace, pipeline.spec.cluster_ref)
        cluster = await connect(context, resource)
        groups = [await context.kafka.read_group(cluster, name) for name in names]
    except KappaError as error:
        return replace(observed, group_problem=error.message)
    return replace(observed, groups=tuple(groups), cluster=cluster)


async def _observe_driver(
    context: OperatorContext, pipeline: PipelineResource, pods: tuple[DriverPod, ...], run: Run
) -> Driver:
    pod = next((pod for pod in pods if pod.generation == run.generation), None)
    progress = await observe_progress(context, pipeline, pods, run.generation)
    return Driver(run, build_token_ref(pipeline), pod, progress)


async def _observe_reader(context: OperatorContext, pipeline: PipelineResource) -> Reader:
    status = pipeline.status
    pods = await observe_drivers(context, pipeline, SHORT)
    change = status.upgrade
    is_changing = change is not None and change.phase in (*AT_WORK, *BESIDE)
    driver = await _observe_driver(context, pipeline, pods, status.active)
    return Reader(pipeline.metadata.name, driver, is_changing or status.active.stopping_since is not None)


async def _observe_quota(
    context: OperatorContext, resource: ReprocessingResource, pipeline: PipelineResource
) -> ReplayQuota | None:
    """Return the quota of the replay; None where Kafka cannot be reached or does not let the operator read it."""
    metadata = resource.metadata
    client = Producer(name_replay_client(metadata, resource.spec.pipeline_ref))
    try:
        cluster = await connect(
            context, resolve_cluster(context.cache, metadata.namespace, pipeline.spec.cluster_ref)
        )
        read = partial(context.kafka.read_quota, cluster, client, Rate.CONSUMER)
        rate = await context.reads.read(("replay-quota", Key.of(resource)), MINUTE, read)
    except AuthorizationFailed:
        rate = None  # the attempt to set it reports what is missing
    except KappaError:
        return None
    return ReplayQuota(cluster, client, rate)


def _estimate(context: OperatorContext, key: Key, observed: ReprocessingObserved) -> Eta | None:
    if observed.side is None or observed.side.progress is None:
        return None
    now = context.now()
    return estimate(context.replays.add(key, list_positions(observed.side.progress, now)), now)


async def _find_overtakes(
    context: OperatorContext, key: Key, pipeline: PipelineResource, observed: ReprocessingObserved
) -> tuple[Overtake, ...]:
    """Return the partitions that retention reaches before the replay; none where the log cannot be read now."""
    if observed.side is None or observed.side.progress is None:
        return ()
    read = partial(observe_pipeline_log, context, pipeline, Edge.EARLIEST)
    try:
        facts = await context.reads.read(("race", key), MINUTE, read)
    except KappaError:
        return ()
    now = context.now()
    races = context.races.add(key, list_races(observed.side.progress, facts, now))
    return find_overtakes(races, list_settings(facts), now, observed.eta)


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
