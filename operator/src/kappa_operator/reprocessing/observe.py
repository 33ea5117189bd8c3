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
from kappa_operator.log.proof import join_proofs
from kappa_operator.pipeline.driver import DriverPod
from kappa_operator.pipeline.log import observe_pipeline_log, plan_holds, plan_release, prove_pipeline
from kappa_operator.pipeline.objects import PipelineResource, build_token_ref
from kappa_operator.pipeline.observe import observe_drivers, observe_progress
from kappa_operator.pipeline.shadow.model import BESIDE
from kappa_operator.pipeline.shadow.topics import name_topic_resource
from kappa_operator.reprocessing.catch_up import list_positions
from kappa_operator.reprocessing.chain import NoChain, find_members
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
    if resource is None:
        return
    if resource.status.cut is None and resource.status.rollback_cut is None:
        if resource.status.members:
            yield from find_reprocessed(cache, key)
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
    members = tuple(_view_members(context.cache, resource))
    observed = ReprocessingObserved(resource, pipeline, members=members, failures=failures)
    if pipeline is None or not observed.is_controlled:
        return observed
    if observed.phase is ReprocessingPhase.PENDING:
        observed = _find_chain(context.cache, pipeline, observed)
    if observed.phase in (*ENDS, *WANTS_SOAKING):
        _forget_replay(context, key)
        for party in observed.members:
            _forget_replay(context, _name_samples(party))
            if observed.phase in ENDS:
                context.soaks.forget(_name_samples(party))
        released = plan_release(context, pipeline, name_holder(key.name))
        observed = replace(observed, holds=Holds(released))
    if observed.phase in (*WANTS_SHADOW, *WANTS_SOAKING):
        observed = await _observe_parties(context, pipeline, observed)
    if observed.phase is ReprocessingPhase.SOAKING:
        others = (_judge_soak(context, _name_samples(each), each) for each in observed.members)
        observed = replace(_judge_soak(context, key, observed), members=tuple(others))
    if find_wanted_quota(resource) is not None or resource.status.replay_quota is not None:
        observed = replace(observed, quota=await _observe_quota(context, resource, pipeline))
    if observed.phase is ReprocessingPhase.CATCHING_UP:
        estimated = (
            replace(each, eta=_estimate(context, _name_samples(each), each)) for each in observed.members
        )
        observed = replace(observed, eta=_estimate(context, key, observed), members=tuple(estimated))
        observed = replace(observed, overtakes=await _find_overtakes(context, key, pipeline, observed))
    if observed.phase in (ReprocessingPhase.PROVING, *WANTS_SHADOW):
        observed = await _observe_log(context, key, pipeline, observed)
    return observed


def _view_members(cache: ResourceCache, resource: ReprocessingResource) -> Iterator[ReprocessingObserved]:
    """Yield each member, with the reprocessing as it is for it. One that was created again is another Pipeline."""
    for member in resource.status.members:
        found: PipelineResource | None = cache.get(
            Key("Pipeline", resource.metadata.namespace, member.pipeline_ref)
        )
        pipeline = found if found is not None and found.metadata.uid == member.uid else None
        status = resource.status.view_member(member.pipeline_ref)
        if status is None:
            raise AssertionError("a member has a status")
        yield ReprocessingObserved(resource.replace(status=status), pipeline, member=member)


def _find_chain(
    cache: ResourceCache, pipeline: PipelineResource, observed: ReprocessingObserved
) -> ReprocessingObserved:
    try:
        return replace(observed, found=find_members(cache, pipeline, observed.resource))
    except NoChain as problem:
        return replace(observed, chain_problem=str(problem))


async def _observe_parties(
    context: OperatorContext, pipeline: PipelineResource, observed: ReprocessingObserved
) -> ReprocessingObserved:
    members = [await _observe_drivers(context, each) for each in observed.members]
    observed = replace(await _observe_drivers(context, observed), members=tuple(members))
    is_cutting = observed.phase is ReprocessingPhase.CUTTING_OVER and not observed.has_cut_over
    is_rolling_back = observed.phase is ReprocessingPhase.ROLLING_BACK and observed.has_cut_over
    if observed.is_chain:  # the first pipeline may have exchanged its runs before the others
        is_cutting = observed.phase is ReprocessingPhase.CUTTING_OVER
        is_rolling_back = observed.phase is ReprocessingPhase.ROLLING_BACK
    if not is_cutting and not is_rolling_back:
        return observed
    observed = replace(observed, readers=await _observe_readers(context, observed))
    return await _observe_groups(context, pipeline, observed) if observed.resource.spec.groups else observed


async def _observe_drivers(context: OperatorContext, observed: ReprocessingObserved) -> ReprocessingObserved:
    """Return one party with the drivers of its runs; as it is where its pipeline is gone."""
    pipeline = observed.pipeline
    if pipeline is None:
        return observed
    pods = await observe_drivers(context, pipeline, SHORT)
    own = (run for run in pipeline.status.sides if run.reprocessing == observed.resource.metadata.name)
    side, active = next(own, None), pipeline.status.active
    return replace(
        observed,
        active=await _observe_driver(context, pipeline, pods, active),
        side=None if side is None else await _observe_driver(context, pipeline, pods, side),
    )


async def _observe_readers(context: OperatorContext, observed: ReprocessingObserved) -> tuple[Reader, ...]:
    """Return the Pipelines that read outputs of a party, and are none themselves."""
    found: dict[str, PipelineResource] = {}
    reads: dict[str, list[str]] = {}
    for party in observed.parties:
        for reader in () if party.pipeline is None else find_readers(context.cache, party.pipeline):
            found[reader.metadata.name] = reader
            reads.setdefault(reader.metadata.name, []).append(party.name)
    others = found.keys() - {party.name for party in observed.parties}
    return tuple([await _observe_reader(context, found[name], tuple(reads[name])) for name in sorted(others)])


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


async def _observe_reader(
    context: OperatorContext, pipeline: PipelineResource, reads: tuple[str, ...]
) -> Reader:
    status = pipeline.status
    pods = await observe_drivers(context, pipeline, SHORT)
    change = status.upgrade
    is_changing = change is not None and change.phase in (*AT_WORK, *BESIDE)
    driver = await _observe_driver(context, pipeline, pods, status.active)
    is_changing = is_changing or status.active.stopping_since is not None
    return Reader(pipeline.metadata.name, driver, is_changing, reads)


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


def _judge_soak(context: OperatorContext, key: Key, party: ReprocessingObserved) -> ReprocessingObserved:
    """Return a party with how far its new version falls behind the one that soaks."""
    if party.active is None or party.side is None:
        return party
    behind = context.soaks.add(key, party.active.progress, party.side.progress, context.now())
    return replace(party, falling_behind=behind)


def _name_samples(party: ReprocessingObserved) -> Key:
    return Key("Pipeline", party.resource.metadata.namespace, party.name)


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
    logs = [pipeline, *_list_own_logs(observed)]
    if observed.phase is ReprocessingPhase.PROVING:
        start = observed.resource.spec.start or Edge.EARLIEST
        proofs = [await prove_pipeline(context, each, start) for each in logs]
        observed = replace(observed, proof=join_proofs(proofs))

    async def plan() -> Holds:
        read = (*logs, *_list_new_logs(observed))
        found = [await plan_holds(context, each, name_holder(key.name)) for each in read]
        actions = {
            (each.manifest["kind"], each.manifest["metadata"]["name"]): each
            for holds in found
            for each in holds.actions
        }
        return Holds(
            tuple(actions.values()), tuple(dict.fromkeys(each for holds in found for each in holds.unheld))
        )

    try:
        holds = await context.reads.read(("holds", key), LONGEST, plan)
    except KappaError:
        return observed  # the proof or the drivers report it
    return replace(observed, holds=holds)


def _list_new_logs(observed: ReprocessingObserved) -> Iterator[PipelineResource]:
    """Yield the members with the new versions of what they read, once those topics are there."""
    for party in observed.members:
        if party.pipeline is None or party.member is None:
            continue
        names: dict[str, str] = {}
        for each in observed.parties:
            is_read = each.name in party.member.after and each.pipeline is not None
            if is_read and each.side is not None and each.side.run.revision is not None and each.pipeline:
                version, outputs = each.side.run.outputs, each.pipeline.status.outputs
                names |= {output.name: name_topic_resource(output.name, version) for output in outputs}
        spec = party.pipeline.spec
        read = [tuple(names[name] for name in source.topic_names if name in names) for source in spec.sources]
        sources = tuple(
            source.replace(topic=None, topics=topics)
            for source, topics in zip(spec.sources, read, strict=True)
            if topics
        )
        if sources:
            yield party.pipeline.replace(spec=spec.replace(sources=sources))


def _list_own_logs(observed: ReprocessingObserved) -> Iterator[PipelineResource]:
    """Yield the members with the sources that no pipeline of the reprocessing writes: what it writes is computed from its start."""
    pipelines = [party.pipeline for party in observed.parties if party.pipeline is not None]
    written = {each.name for pipeline in pipelines for each in pipeline.status.outputs}
    for member in pipelines[1:]:
        own = tuple(each for each in member.spec.sources if written.isdisjoint(each.topic_names))
        if own:
            yield member.replace(spec=member.spec.replace(sources=own))
