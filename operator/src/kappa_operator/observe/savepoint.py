"""Looks at a savepoint's pipeline: its driver, and what that says of the savepoint."""

from kappa_crds.progress import DriverState
from kappa_operator.keys import Key
from kappa_operator.observe.pipeline import observe_drivers, observe_progress
from kappa_operator.plan.model import Failure
from kappa_operator.plan.savepoint import SavepointObserved
from kappa_operator.resources.pipeline import PipelineResource
from kappa_operator.resources.savepoint import SavepointResource
from kappa_operator.world import World


async def observe_savepoint(
    world: World, key: Key, failures: tuple[Failure, ...]
) -> SavepointObserved | None:
    """Return what there is to know of the savepoint, or None where it is gone."""
    resource: SavepointResource | None = world.mirror.get(key)
    if resource is None:
        return None
    if resource.status.taken is not None:
        return SavepointObserved(resource)
    pipeline: PipelineResource | None = world.mirror.get(
        Key("Pipeline", key.namespace, resource.spec.pipeline_ref)
    )
    if pipeline is None:
        return SavepointObserved(resource, failures=failures)
    pods = await observe_drivers(world, pipeline)
    progress = await observe_progress(world, pipeline, pods)
    if progress is None or progress.state is not DriverState.RUNNING:
        return SavepointObserved(resource, pipeline, failures=failures)
    driver = next((pod for pod in pods if pod.generation == progress.generation), None)
    return SavepointObserved(resource, pipeline, driver, progress, failures)
