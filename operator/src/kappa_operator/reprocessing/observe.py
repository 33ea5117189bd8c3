"""Reads what a decision about a reprocessing needs."""

from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key
from kappa_operator.engine.plan import Failure
from kappa_operator.pipeline.objects import PipelineResource
from kappa_operator.reprocessing.model import ReprocessingObserved
from kappa_operator.reprocessing.objects import ReprocessingResource


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
    return ReprocessingObserved(resource, pipeline, failures)
