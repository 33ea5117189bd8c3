"""What an installation lets the authors of pipelines choose: images, settings of Spark, Python of their own, and the namespace."""

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.reasons import Reason
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.recent import MINUTE
from kappa_operator.errors import NotAllowed
from kappa_operator.pod_rules import is_allowed
from kappa_operator.settings import Settings

_LEVEL = "pod-security.kubernetes.io/enforce"


def check_choices(spec: PipelineSpec, settings: Settings) -> None:
    """Raise NotAllowed where a spec chooses what the installation does not allow."""
    if spec.python and not settings.allow_python_views:
        message = (
            f"this installation allows no Python of pipelines: {', '.join(spec.python)}; write it in SQL"
        )
        raise NotAllowed(message, reason=Reason.PYTHON_FORBIDDEN)
    if spec.image is not None and not is_allowed(spec.image, settings.allowed_images):
        _refuse(f"spec.image {spec.image}", "allowedImages", settings.allowed_images)
    keys = [key for key in sorted(spec.spark_conf) if not is_allowed(key, settings.allowed_spark_conf)]
    if keys:
        _refuse(f"spec.sparkConf with {', '.join(keys)}", "allowedSparkConf", settings.allowed_spark_conf)


async def check_namespace(context: OperatorContext, namespace: str) -> None:
    """Raise NotAllowed where pods of the namespace may be more than the restricted standard allows."""
    if not context.settings.require_restricted:
        return
    body = await context.read_recent(ObjectRef("v1", "Namespace", "", namespace), MINUTE)
    labels = (body or {}).get("metadata", {}).get("labels") or {}
    if labels.get(_LEVEL) != "restricted":
        raise NotAllowed(
            f'namespace "{namespace}" does not enforce the restricted Pod Security Standard; run'
            f" `kubectl label namespace {namespace} {_LEVEL}=restricted --overwrite`",
            reason=Reason.NAMESPACE_NOT_RESTRICTED,
            retryable=True,
        )


def _refuse(choice: str, value: str, patterns: tuple[str, ...]) -> None:
    allowed = ", ".join(patterns)
    raise NotAllowed(
        f"this installation does not allow {choice}; its chart allows pipelines.{value}: {allowed}"
    )
