"""What an installation lets a pod template have, by the lists of its chart."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from kappa_crds.pod_template import PodTemplate
from kappa_operator.errors import NotAllowed
from kappa_operator.settings import Settings


def check_template(template: PodTemplate, settings: Settings) -> None:
    """Raise NotAllowed where a template has what the installation does not allow."""
    refused = next(_find_refused(template, settings), None)
    if refused is not None:
        what, value, allowed = refused
        raise NotAllowed(
            f"this installation does not allow {what} in a podTemplate; its chart allows pipelines.{value}:"
            f" {', '.join(allowed) or 'none'}"
        )


def _find_refused(template: PodTemplate, settings: Settings) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield what is not allowed, with the chart's value about it."""
    spec = template.spec
    kinds, sources = settings.allowed_volumes, settings.allowed_variable_sources
    names, taints = settings.allowed_variables, settings.allowed_tolerations
    priorities, runtimes = settings.allowed_priority_classes, settings.allowed_runtime_classes
    for volume in spec.volumes:
        if volume.kind not in kinds:
            yield f"volume {volume.name} of kind {volume.kind}", "allowedVolumes", kinds
        if volume.secrets and "secret" not in kinds:
            yield f"volume {volume.name} with a Secret", "allowedVolumes", kinds
    for variable in template.env:
        if variable.value_from is not None and variable.value_from.kind not in sources:
            what = f"variable {variable.name} from {variable.value_from.kind}"
            yield what, "allowedVariableSources", sources
        if not is_allowed(variable.name, names):
            yield f"variable {variable.name}", "allowedVariables", names
    for toleration in spec.tolerations:
        if not is_allowed(toleration.key, taints):
            yield f"a toleration of {toleration.key}", "allowedTolerations", taints
    if spec.priority_class_name and spec.priority_class_name not in priorities:
        yield f"priorityClassName {spec.priority_class_name}", "allowedPriorityClasses", priorities
    if spec.runtime_class_name and spec.runtime_class_name not in runtimes:
        yield f"runtimeClassName {spec.runtime_class_name}", "allowedRuntimeClasses", runtimes


def is_allowed(name: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a name matches one of the patterns, and none of those with `!`."""
    refusals = [each[1:] for each in patterns if each.startswith("!")]
    matches = any(fnmatchcase(name, each) for each in patterns)
    return matches and not any(fnmatchcase(name, each) for each in refusals)
