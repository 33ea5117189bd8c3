"""Gathers all that a decision about a pipeline needs.

Driver pods are read from the API server at each look, not from a watch: whether a driver is alive must not depend on
how fast events arrive. The driver's own progress is asked for when its pod has an address.
"""

from dataclasses import replace
from datetime import datetime

from pydantic import ValidationError

from kappa_crds.progress import DriverState, Progress
from kappa_crds.revision import REVISION_KEY, Revision
from kappa_crds.upgrade import TAKEN_BACK, UpgradePhase
from kappa_operator.engine.apply import read_secret_key
from kappa_operator.engine.context import World
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.plan import Failure
from kappa_operator.errors import DriverUnreachable, SecretProblem
from kappa_operator.pipeline.dependencies import observe_dependencies
from kappa_operator.pipeline.driver import DriverPod
from kappa_operator.pipeline.model import KeptRevision, PipelineObserved
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
from kappa_operator.pipeline.revision import Images
from kappa_operator.pipeline.upgrade.decide import would_begin
from kappa_operator.savepoint.objects import SavepointResource


async def observe_pipeline(world: World, key: Key, failures: tuple[Failure, ...]) -> PipelineObserved | None:
    """Return what there is to know of the pipeline, or None where it is gone."""
    resource: PipelineResource | None = world.mirror.read(key)
    if resource is None:
        world.progress.forget(key)
        return None
    pods = await observe_drivers(world, resource)
    progress = await observe_progress(world, resource, pods)
    samples = _record(world, key, resource, progress)
    settings = world.settings
    observed = PipelineObserved(
        resource=resource,
        dependencies=await observe_dependencies(world, resource),
        pods=pods,
        images=Images(settings.runtime_image, settings.image_pull_policy, settings.java_options),
        progress=progress,
        samples=samples,
        standby=await observe_standby(world, resource, pods),
        previous=await observe_previous(world, resource),
        savepoint=find_change_savepoint(world, resource),
        revisions=await observe_revisions(world, resource),
        shortage=await observe_shortage(world, resource, progress),
        failures=failures,
    )
    return replace(observed, has_turn=_ask_for_turn(world, key)) if would_begin(observed) else observed


def _ask_for_turn(world: World, key: Key) -> bool:
    """Return whether a change may begin. The mirror has every status as it was written last."""
    most = world.settings.concurrent_changes
    return world.turns.ask(key, world.mirror.list_upgrades(), most, world.now())


def _record(world: World, key: Key, resource: PipelineResource, progress: Progress | None) -> Samples | None:
    """Record the sample; return the samples of the driver, None where there is no driver."""
    if progress is None and resource.status.driver is None:
        world.progress.forget(key)
        return None
    return world.progress.record(key, resource.status.generation, world.now(), progress)


async def observe_drivers(world: World, resource: PipelineResource) -> tuple[DriverPod, ...]:
    """Return all driver pods of the pipeline, oldest generation first."""
    labels = {PIPELINE_LABEL: resource.metadata.name, **DRIVER_ROLE}
    bodies = await world.cluster.list_objects("v1", "Pod", resource.metadata.namespace, labels)
    return tuple(sorted(map(parse_driver, bodies), key=lambda pod: pod.generation))


async def observe_progress(
    world: World, resource: PipelineResource, pods: tuple[DriverPod, ...], generation: int | None = None
) -> Progress | None:
    """Return the report of the driver of a generation, or else of the current one; None while it does not answer.

    Raises KubernetesError where its token cannot be read: that is no verdict on the driver.
    """
    wanted = resource.status.generation if generation is None else generation
    pod = next((pod for pod in pods if pod.generation == wanted), None)
    if pod is None or pod.finished or not pod.started or pod.address is None:
        return None
    try:
        token = await read_secret_key(world, build_token_ref(resource), "token")
        return await world.drivers.fetch_progress(pod.address, token)
    except (DriverUnreachable, SecretProblem):
        return None


async def observe_standby(
    world: World, resource: PipelineResource, pods: tuple[DriverPod, ...]
) -> Progress | None:
    """Return what the driver that is to take over says of itself."""
    change = resource.status.upgrade
    if change is None or change.generation <= resource.status.generation:
        return None
    return await observe_progress(world, resource, pods, change.generation)


async def observe_previous(world: World, resource: PipelineResource) -> Revision | None:
    """Return the revision before a change that is watched, was refused or failed; None where there is none, or it is lost."""
    change = resource.status.upgrade
    if change is None or change.previous is None or change.phase not in (UpgradePhase.WATCHING, *TAKEN_BACK):
        return None
    return await read_revision(world, resource.metadata.namespace, change.previous)


async def observe_revisions(world: World, resource: PipelineResource) -> tuple[KeptRevision, ...]:
    """Return the revisions that there are, while a change is watched: what is not needed then is dropped at its end."""
    change = resource.status.upgrade
    if change is None or change.phase is not UpgradePhase.WATCHING:
        return ()
    labels = {PIPELINE_LABEL: resource.metadata.name}
    bodies = await world.cluster.list_objects("v1", "ConfigMap", resource.metadata.namespace, labels)
    return tuple(_parse_kept(body) for body in bodies if REVISION_LABEL in body["metadata"]["labels"])


def _parse_kept(body: Body) -> KeptRevision:
    metadata = body["metadata"]
    ref = ObjectRef("v1", "ConfigMap", metadata["namespace"], metadata["name"])
    return KeptRevision(ref, metadata["uid"], datetime.fromisoformat(metadata["creationTimestamp"]))


async def read_revision(world: World, namespace: str, name: str) -> Revision | None:
    """Return a revision by its name; None where it is lost, or where another version of the operator wrote it with other fields."""
    body = await world.cluster.get(ObjectRef("v1", "ConfigMap", namespace, name))
    try:
        return None if body is None else Revision.model_validate_json(body["data"][REVISION_KEY])
    except ValidationError:
        return None


def find_change_savepoint(world: World, resource: PipelineResource) -> SavepointResource | None:
    """Return the savepoint that is taken before the last change, if it is there."""
    change = resource.status.upgrade
    if change is None or change.savepoint is None:
        return None
    savepoint: SavepointResource | None = world.mirror.get(
        Key("Savepoint", resource.metadata.namespace, change.savepoint)
    )
    return savepoint


async def observe_shortage(world: World, resource: PipelineResource, progress: Progress | None) -> str | None:
    """Return what keeps executors from starting, as far as the scheduler or the kubelet says, while the driver waits."""
    if progress is None or progress.state not in (DriverState.STARTING, DriverState.WAITING_FOR_EXECUTORS):
        return None
    labels = {PIPELINE_LABEL: resource.metadata.name, **EXECUTOR_ROLE}
    bodies = await world.cluster.list_objects("v1", "Pod", resource.metadata.namespace, labels)
    return next(filter(None, map(explain_executor, bodies)), None)
