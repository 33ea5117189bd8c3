"""Gathers what is known of a Pipeline that is being applied: its own text, what it refers to, and the revision that runs.

Neither drivers nor Kafka are asked: a user waits for the answer, and a replica that does not lead has no clients of its own.
"""

from typing import Any

from kappa_crds.kinds import find_kind
from kappa_crds.revision import Revision
from kappa_operator.engine.context import OperatorContext
from kappa_operator.pipeline.dependencies import observe_dependencies
from kappa_operator.pipeline.model import PipelineObserved
from kappa_operator.pipeline.objects import PipelineResource
from kappa_operator.pipeline.observe import build_images, read_revision


async def observe_applied(
    context: OperatorContext, body: dict[str, Any]
) -> tuple[PipelineObserved, Revision | None]:
    """Return the pipeline as it would be stored, with the revision that runs; raise pydantic.ValidationError for a bad spec."""
    resource: PipelineResource = find_kind("Pipeline").parse(body)
    runs = resource.status.active.revision
    observed = PipelineObserved(
        resource=resource,
        dependencies=await observe_dependencies(context, resource, ask_kafka=False),
        pods=(),
        images=build_images(context.settings),
    )
    old = None if runs is None else await read_revision(context, resource.metadata.namespace, runs)
    return observed, old
