"""Gathers all that a decision about a pipeline needs.

Whether a driver is alive must not depend on how fast events arrive: see `observe_driver`. The driver's own progress is
fetched when its pod has an address.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from functools import lru_cache, partial

import structlog

from kappa_crds.conversion import convert
from kappa_crds.pipeline_status import NEEDS_SAVEPOINT, UpgradePhase
from kappa_crds.progress import DriverState, Progress
from kappa_crds.revision import REVISION_KEY, Revision
from kappa_operator.engine.actions import KeepControlSecret
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.network import read_network
from kappa_operator.engine.ownership import is_controlled
from kappa_operator.engine.plan import Failure, Verdict
from kappa_operator.engine.recent import LONGEST, SHORT
from kappa_operator.engine.references import find_users
from kappa_operator.errors import DriverUnreachable, SecretProblem
from kappa_operator.pipeline.control import forget_control, read_control
from kappa_operator.pipeline.dependencies import find_connected_since, observe_dependencies
from kappa_operator.pipeline.driver import DriverPod
from kappa_operator.pipeline.log import plan_backfill_holds
from kappa_operator.pipeline.model import Inputs, KeptRevision, PipelineObserved
from kappa_operator.pipeline.objects import (
    DRIVER_ROLE,
    EXECUTOR_ROLE,
    PIPELINE_LABEL,
    REVISION_LABEL,
    PipelineResource,
    build_token_ref,
)
from kappa_operator.pipeline.pods import Body, explain_executor, parse_driver
from kappa_operator.pipeline.progress_cache import Samples
from kappa_operator.pipeline.revision import Dependencies, Images, replace_image
from kappa_operator.pipeline.savepoints import concerns_savepoint
from kappa_operator.pipeline.shadow.model import NO_SIDE, SideObserved
from kappa_operator.pipeline.shadow.observe import complete_side, concerns_side, may_have_side
from kappa_operator.pipeline.upgrade.handover import would_start
from kappa_operator.pipeline.user import DROPS, KEEPS
from kappa_operator.pipeline.user_reads import observe_unused, observe_user
from kappa_operator.reprocessing.chain import find_joinable
from kappa_operator.reprocessing.readers import find_inputs
from kappa_operator.savepoint.objects import SavepointResource
from kappa_operator.settings import Settings
from kappa_operator.statestore.users import find_deleting_stores

log = structlog.get_logger(__name__)
_KEPT_PARSED = 200
"""Revisions that are kept parsed, by their text: a reconcile reads the same several times."""


def build_images(settings: Settings) -> Images:
    """Return the settings of the operator for pods."""
    return Images(
        settings.runtime_image,
        settings.image_pull_policy,
        settings.java_options,
        settings.allow_python_views,
        read_network(settings.network_policies, settings.namespace),
        settings.pods,
        settings.encrypt_local_data,
    )


def forget_pipeline(context: OperatorContext, key: Key) -> None:
    """Forget the samples and the revision of a pipeline that is gone."""
    context.progress.forget(key)
    context.replays.forget(key)
    context.soaks.forget(key)
    context.revisions.pop(key, None)


async def observe_pipeline(
    context: OperatorContext, key: Key, failures: tuple[Failure, ...]
) -> PipelineObserved | None:
    """Return what a decision about the pipeline needs; None where the pipeline is gone."""
    resource: PipelineResource | None = context.cache.read(key)
    if resource is None:
        return None
    pods, progress = await observe_driver(context, resource)
    if progress is not None and not context.progress.has_room(key, progress):
        log.warning("report left out: those of the namespace have too many offsets", resource=str(key))
        progress = None
    samples = _record(context, key, resource, progress)
    settings, cache = context.settings, context.cache
    unrenewed = tuple(failure for failure in failures if isinstance(failure.action, KeepControlSecret))
    found = await observe_dependencies(context, resource)
    user = await observe_user(context, resource, found, failures)
    is_running, is_deleted = progress is not None, resource.metadata.deletion_timestamp is not None
    others = tuple(
        failure
        for failure in failures
        if not concerns_savepoint(failure)
        and not (is_running and failure in unrenewed)
        and (is_deleted or not isinstance(failure.action, KEEPS + DROPS))
    )
    beside = tuple(each for each in others if concerns_side(each, resource, pods))
    others = tuple(each for each in others if each not in beside)
    savepoints = () if resource.spec.savepoints is None else tuple(_find_savepoints(cache, key))
    observed = PipelineObserved(
        resource=resource,
        dependencies=user if isinstance(user, Verdict) else found,
        pods=pods,
        images=build_images(settings),
        progress=progress,
        samples=samples,
        standby=await observe_standby(context, resource, pods),
        previous=await observe_previous(context, resource),
        savepoint=find_change_savepoint(context, resource),
        savepoints=savepoints,
        restored=frozenset(name for each in savepoints for name in _find_restored(cache, each)),
        revisions=await observe_revisions(context, resource),
        shortage=await observe_shortage(context, resource, progress),
        refused=any(concerns_savepoint(failure) for failure in failures),
        certificate=None if unrenewed or not is_running else await _read_certificate(context, resource),
        failures=others,
        user=None if isinstance(user, Verdict) else user,
        unused_users=await observe_unused(context, resource, found, failures),
        refused_drop=any(isinstance(failure.action, DROPS) for failure in failures),
        drivers=len(context.progress),
        connected_since=find_connected_since(context, resource),
        known=context.revisions.get(key),
        holds=() if others or beside else await plan_backfill_holds(context, resource, progress),
        side=await observe_side(context, resource, found, pods, beside),
        inputs=_choose_inputs(cache, resource, found),
    )
    if observed.built is not None:
        context.revisions[key] = observed.built
    if not would_start(observed):
        return observed
    most, upgrades = settings.concurrent_changes, cache.list_excerpts("Pipeline")
    return replace(
        observed, known=observed.built, has_slot=context.rollouts.has_slot(key, upgrades, most, context.now())
    )


def _record(
    context: OperatorContext, key: Key, resource: PipelineResource, progress: Progress | None
) -> Samples | None:
    """Record the sample; return the samples of the driver, None where there is no driver."""
    if progress is None and resource.status.active.driver is None:
        return None
    return context.progress.record(key, resource.status.active.generation, context.now(), progress)


async def observe_driver(
    context: OperatorContext, resource: PipelineResource
) -> tuple[tuple[DriverPod, ...], Progress | None]:
    """Return all driver pods of the pipeline and the report of the current driver.

    A list from before is enough where the driver of the current generation answers for itself that it runs, or where there is none
    and none is expected. Everything else is looked up in a list of this moment, give or take some seconds. A plan with actions is always
    decided again on a list of this very moment (see `reconcile`): none starts a driver, or counts one as gone, by a list from before.
    """
    pods = await observe_drivers(context, resource, LONGEST)
    progress = await observe_progress(context, resource, pods)
    if _is_confirmed(resource, pods, progress):
        return pods, progress
    newer = await observe_drivers(context, resource, SHORT)
    return newer, progress if newer == pods else await observe_progress(context, resource, newer)


def _is_confirmed(resource: PipelineResource, pods: tuple[DriverPod, ...], progress: Progress | None) -> bool:
    if progress is None:
        return not pods and resource.status.active.driver is None
    return progress.state is DriverState.RUNNING and progress.generation == resource.status.active.generation


async def observe_drivers(
    context: OperatorContext, resource: PipelineResource, age: float = 0.0
) -> tuple[DriverPod, ...]:
    """Return all driver pods of the pipeline as of at most `age` seconds ago, oldest generation first."""
    key = Key.of(resource)
    return await context.reads.read(key, age, partial(_list_drivers, context, key))


async def _list_drivers(context: OperatorContext, pipeline: Key) -> tuple[DriverPod, ...]:
    """Return the pods now. Labels are not enough: a driver has a Pipeline of this name as its controller, this one or one that was deleted a moment ago."""
    labels = {PIPELINE_LABEL: pipeline.name, **DRIVER_ROLE}
    bodies = await context.cluster.list_objects("v1", "Pod", pipeline.namespace, labels)
    own = [body for body in bodies if is_controlled(body, "Pipeline", pipeline.name)]
    return tuple(sorted(map(parse_driver, own), key=lambda pod: pod.generation))


async def observe_progress(
    context: OperatorContext,
    resource: PipelineResource,
    pods: tuple[DriverPod, ...],
    generation: int | None = None,
) -> Progress | None:
    """Return the report of the driver of a generation, or else of the current one; None while it does not answer.

    Raises KubernetesError where its token cannot be read: that is no verdict on the driver.
    """
    wanted = resource.status.active.generation if generation is None else generation
    pod = next((pod for pod in pods if pod.generation == wanted), None)
    if pod is None or pod.finished or not pod.started or pod.address is None:
        return None
    ref = build_token_ref(resource)
    try:
        access = await read_control(context, ref, LONGEST)
        return await context.drivers.fetch_progress(pod.address, access, namespace=ref.namespace)
    except (DriverUnreachable, SecretProblem):
        forget_control(context, ref)  # it may be another one now
        return None


async def _read_certificate(context: OperatorContext, resource: PipelineResource) -> str | None:
    """Return the certificate of the control port; None where there is none yet, as of release 0.1."""
    try:
        access = await read_control(context, build_token_ref(resource), LONGEST)
    except SecretProblem:
        return None
    return next(iter(access.certificates), None)


async def observe_standby(
    context: OperatorContext, resource: PipelineResource, pods: tuple[DriverPod, ...]
) -> Progress | None:
    """Return the report of the standby driver."""
    run = resource.status.standby
    if run is None or run.generation <= resource.status.active.generation:
        return None
    return await observe_progress(context, resource, pods, run.generation)


async def observe_side(
    context: OperatorContext,
    resource: PipelineResource,
    found: Dependencies | Verdict,
    pods: tuple[DriverPod, ...],
    failures: tuple[Failure, ...],
) -> SideObserved:
    """Return what there is of a run beside the active one; nothing where there can be none."""
    joins = find_joinable(context.cache, resource)
    if not may_have_side(resource):
        return NO_SIDE if joins is None else replace(NO_SIDE, joins=joins)
    status, namespace = resource.status, resource.metadata.namespace
    run, active = next(iter(status.sides), None), status.active.revision
    stored = None if run is None else run.revision
    side = SideObserved(
        joins=joins,
        running=None if active is None else await read_revision(context, namespace, active),
        revision=None if stored is None else await read_revision(context, namespace, stored),
        progress=None if run is None else await observe_progress(context, resource, pods, run.generation),
    )
    return await complete_side(context, resource, found, failures, side)


async def observe_previous(context: OperatorContext, resource: PipelineResource) -> Revision | None:
    """Return the previous revision of a change that is not done; None without one, or where it is lost.

    Where the spec was given up, that is the active one, if nothing else is known.
    """
    change = resource.status.upgrade
    if change is None or change.phase is UpgradePhase.DONE:
        return None
    name = change.previous if change.given_up is None else change.previous or resource.status.active.revision
    return None if name is None else await read_revision(context, resource.metadata.namespace, name)


async def observe_revisions(context: OperatorContext, resource: PipelineResource) -> tuple[KeptRevision, ...]:
    """Return the kept revisions while a change is watched: those that are not needed are deleted at its end."""
    change = resource.status.upgrade
    if change is None or change.phase is not UpgradePhase.WATCHING:
        return ()
    name, labels = resource.metadata.name, {PIPELINE_LABEL: resource.metadata.name}
    bodies = await context.cluster.list_objects("v1", "ConfigMap", resource.metadata.namespace, labels)
    own = (body for body in bodies if is_controlled(body, "Pipeline", name))
    return tuple(_parse_kept(body) for body in own if REVISION_LABEL in body["metadata"]["labels"])


def _parse_kept(body: Body) -> KeptRevision:
    metadata = body["metadata"]
    ref = ObjectRef("v1", "ConfigMap", metadata["namespace"], metadata["name"])
    return KeptRevision(ref, metadata["uid"], datetime.fromisoformat(metadata["creationTimestamp"]))


async def read_revision(context: OperatorContext, namespace: str, name: str) -> Revision | None:
    """Return a revision by its name; None where it is lost, or where another version of the operator wrote it with other fields."""
    body = await context.read_recent(ObjectRef("v1", "ConfigMap", namespace, name), LONGEST)
    if body is None:
        return None
    try:
        revision, is_present = _parse_revision(body["data"][REVISION_KEY])
    except ValueError:
        return None
    # A runtime of an earlier release cannot read the present names, so what is restarted gets the present runtime.
    is_custom = is_present or revision.spec.image is not None
    return revision if is_custom else replace_image(revision, context.settings.runtime_image)


@lru_cache(_KEPT_PARSED)
def _parse_revision(text: str) -> tuple[Revision, bool]:
    """Return the stored revision, and whether it was stored with the present names; raise ValueError if it is bad."""
    stored = json.loads(text)
    present = convert("Pipeline", stored) if isinstance(stored, dict) else stored
    return Revision.model_validate(present), present is stored


def find_change_savepoint(context: OperatorContext, resource: PipelineResource) -> SavepointResource | None:
    """Return the savepoint that is taken before the last change, if it exists."""
    change = resource.status.upgrade
    if change is None or change.savepoint is None:
        return None
    savepoint: SavepointResource | None = context.cache.get(
        Key("Savepoint", resource.metadata.namespace, change.savepoint)
    )
    return savepoint


async def observe_shortage(
    context: OperatorContext, resource: PipelineResource, progress: Progress | None
) -> str | None:
    """Return why executors of the active driver do not start, as the scheduler or the kubelet reports it, while it waits."""
    if progress is None or progress.state not in (DriverState.STARTING, DriverState.WAITING_FOR_EXECUTORS):
        return None
    labels = {PIPELINE_LABEL: resource.metadata.name, **EXECUTOR_ROLE}
    bodies = await context.cluster.list_objects("v1", "Pod", resource.metadata.namespace, labels)
    driver = resource.status.active.driver
    own = (body for body in bodies if driver in _list_owners(body))
    return next(filter(None, map(explain_executor, own)), None)


def _choose_inputs(cache: ResourceCache, resource: PipelineResource, found: Dependencies | Verdict) -> Inputs:
    """Return the versions of topics that sources have to read: those of before where dependencies are missing."""
    if isinstance(found, Verdict):
        return Inputs(resource.status.inputs)
    return find_inputs(cache, resource, found.topics)


def _list_owners(body: Body) -> list[str]:
    """Return the names of the owners of a pod: Spark makes the driver that of its executors."""
    return [each["name"] for each in body["metadata"].get("ownerReferences", ())]


def find_held_by_pipeline(cache: ResourceCache, pipeline: Key) -> Iterator[Key]:
    """Yield the stores and savepoints whose deletion may wait for a pipeline."""
    yield from find_deleting_stores(cache, pipeline)
    named = cache.find_named(pipeline)
    yield from (each for each in named if each.kind == "Savepoint" and cache.is_deleting(each))


def _find_savepoints(cache: ResourceCache, pipeline: Key) -> Iterator[SavepointResource]:
    for key in find_users(cache, pipeline, "Savepoint"):
        savepoint: SavepointResource | None = cache.get(key)
        if savepoint is not None and savepoint.spec.pipeline_ref == pipeline.name:
            yield savepoint


def _find_restored(cache: ResourceCache, savepoint: SavepointResource) -> Iterator[str]:
    """Yield the savepoint's name where a pipeline is restored from it, or may be by a rollback."""
    name = savepoint.metadata.name
    for key in find_users(cache, Key("Savepoint", savepoint.metadata.namespace, name), "Pipeline"):
        body = cache.get_body(key) or {}
        change = body.get("status", {}).get("upgrade") or {}
        restores = (body.get("spec", {}).get("restore") or {}).get("savepoint") == name
        if restores or (change.get("savepoint") == name and change["phase"] in NEEDS_SAVEPOINT):
            yield name
