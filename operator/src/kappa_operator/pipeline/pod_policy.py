"""What an installation lets pod templates of pipelines have: kinds of volumes, sources of variables, placement, identities, and Secrets that agree."""

from kappa_crds.pod_template import NO_TEMPLATE
from kappa_crds.reasons import Reason
from kappa_operator.consent import PREFIX, read_patterns
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.pod_template import find_unknown_mounts, select_template
from kappa_operator.engine.recent import MINUTE
from kappa_operator.errors import NotAllowed, SecretProblem
from kappa_operator.pipeline.objects import PipelineResource
from kappa_operator.pod_rules import check_template, is_allowed
from kappa_operator.settings import Settings

PODS = "pods"
PODS_ANNOTATION = PREFIX + PODS
"""Of a Secret: patterns of the pipelines whose pods may have it by a template, with commas."""


def check_templates(resource: PipelineResource, settings: Settings) -> None:
    """Raise NotAllowed where a template of the pipeline has what the installation does not allow, or mounts what it does not declare."""
    spec = resource.spec
    for field, role in (("driver", spec.driver), ("executors", spec.executors)):
        own = select_template(NO_TEMPLATE, spec.pod_template, role)
        check_template(own, settings)
        unknown = find_unknown_mounts(select_template(settings.pod_template, spec.pod_template, role))
        if unknown:
            raise NotAllowed(
                f"the podTemplate of {field} mounts {', '.join(unknown)}, which is none of its volumes; add it to volumes"
            )
    _check_annotations(resource, settings)


def _check_annotations(resource: PipelineResource, settings: Settings) -> None:
    """An annotation can give an identity of a cloud: only those that the installation grants this namespace are allowed."""
    if resource.spec.service_account is None:
        return
    metadata, allowed = resource.metadata, settings.allowed_account_annotations
    patterns = tuple(
        each.replace("{namespace}", metadata.namespace).replace("{pipeline}", metadata.name)
        for each in allowed
    )
    for key, value in sorted(resource.spec.service_account.annotations.items()):
        if not is_allowed(f"{key}={value}", patterns):
            raise NotAllowed(
                f"this installation does not allow the annotation {key}={value} of spec.serviceAccount; its chart allows"
                f" pipelines.allowedServiceAccountAnnotations: {', '.join(allowed) or 'none'}"
            )


def list_secrets(resource: PipelineResource) -> list[str]:
    """Return the names of the Secrets whose content pods of the pipeline have by a template."""
    spec, found = resource.spec, set()
    for role in (spec.driver, spec.executors):
        template = select_template(NO_TEMPLATE, spec.pod_template, role)
        found |= {name for volume in template.spec.volumes for name in volume.secrets}
        sources = (each.value_from for each in template.env if each.value_from is not None)
        found |= {each.secret_key_ref.name for each in sources if each.secret_key_ref is not None}
    return sorted(found)


async def check_template_secrets(context: OperatorContext, resource: PipelineResource) -> None:
    """Raise SecretProblem where a Secret of a template does not name the pipeline in its annotation."""
    namespace, pipeline = resource.metadata.namespace, resource.metadata.name
    for name in list_secrets(resource):
        ref = ObjectRef("v1", "Secret", namespace, name)
        body = await context.read_recent(ref, MINUTE)
        if body is None:
            raise SecretProblem(
                f'Secret "{name}" of podTemplate not found in namespace "{namespace}"; create it'
            )
        annotations = body.get("metadata", {}).get("annotations") or {}
        patterns = tuple(read_patterns(annotations.get(PODS_ANNOTATION, "")))
        if context.settings.require_opt_in and not is_allowed(pipeline, patterns):
            context.reads.drop(ref)  # a user may correct it
            raise SecretProblem(
                f"Secret {name} does not allow pods of pipeline {pipeline}; if they may have it, run"
                f" `kubectl annotate secret {name} -n {namespace} --overwrite {PODS_ANNOTATION}={pipeline}`",
                reason=Reason.SECRET_NOT_ALLOWED,
            )
