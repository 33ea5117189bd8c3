"""The pod templates of a pipeline: how they are merged, and how the result is added to a pod of ours.

The chart's defaults come first, then the template of the pipeline, then the one of the role. As in a strategic merge patch, maps merge by
key and lists by name; tolerations are appended. What the pod has already stays as it is.
"""

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, TypeVar

from kappa_crds.pod_placement import Affinity
from kappa_crds.pod_template import (
    NO_TEMPLATE,
    PodMetadata,
    PodRole,
    PodTemplate,
    TemplateContainer,
    TemplateSpec,
)
from kappa_operator.engine.actions import Manifest

PINNED_ANNOTATION = "kappa-platform.io/pinned"
"""What the template gives an executor beyond every executor. The Role of the driver names it, and the admission policy compares."""
Item = TypeVar("Item")


def select_template(default: PodTemplate, common: PodTemplate | None, role: PodRole | None) -> PodTemplate:
    """Return the template of a role."""
    own = None if role is None else role.pod_template
    return reduce(merge_templates, (each for each in (common, own) if each is not None), default)


def merge_templates(base: PodTemplate, over: PodTemplate) -> PodTemplate:
    """Return the template with the fields of `over` on those of `base`."""
    metadata = PodMetadata(
        labels=base.metadata.labels | over.metadata.labels,
        annotations=base.metadata.annotations | over.metadata.annotations,
    )
    return PodTemplate(metadata=metadata, spec=_merge_specs(base, over))


def _merge_specs(base: PodTemplate, over: PodTemplate) -> TemplateSpec:
    old, new = base.spec, over.spec
    env = _merge_lists(base.env, over.env, lambda each: each.name)
    mounts = _merge_lists(base.mounts, over.mounts, lambda each: each.mount_path)
    return TemplateSpec(
        containers=(TemplateContainer(env=env, volume_mounts=mounts),) if env or mounts else (),
        volumes=_merge_lists(old.volumes, new.volumes, lambda each: each.name),
        image_pull_secrets=_merge_lists(
            old.image_pull_secrets, new.image_pull_secrets, lambda each: each.name
        ),
        node_selector=old.node_selector | new.node_selector,
        tolerations=tuple(dict.fromkeys((*old.tolerations, *new.tolerations))),
        affinity=_merge_affinity(old.affinity, new.affinity),
        topology_spread_constraints=_merge_lists(
            old.topology_spread_constraints,
            new.topology_spread_constraints,
            lambda each: (each.topology_key, each.when_unsatisfiable),
        ),
        priority_class_name=new.priority_class_name or old.priority_class_name,
        runtime_class_name=new.runtime_class_name or old.runtime_class_name,
    )


def _merge_lists(base: Iterable[Item], over: Iterable[Item], key: Callable[[Item], Any]) -> tuple[Item, ...]:
    """Return the items of both; one of `over` replaces the one with the same key, in its place."""
    return tuple(({key(each): each for each in base} | {key(each): each for each in over}).values())


def _merge_affinity(base: Affinity | None, over: Affinity | None) -> Affinity | None:
    if base is None or over is None:
        return over or base
    return Affinity(**{name: getattr(over, name) or getattr(base, name) for name in Affinity.model_fields})


def find_unknown_mounts(template: PodTemplate) -> list[str]:
    """Return the names of volumes that are mounted and not declared."""
    known = {volume.name for volume in template.spec.volumes}
    return sorted({mount.name for mount in template.mounts} - known)


def apply_template(pod: Manifest, template: PodTemplate) -> Manifest:
    """Return the pod with what the template adds. Fields that the pod has are kept."""
    if template == NO_TEMPLATE:
        return pod
    (container,) = pod["spec"]["containers"]
    spec, given = template.spec, template.spec.to_manifest()
    added = {
        name: given[name]
        for name in ("nodeSelector", "tolerations", "topologySpreadConstraints", "imagePullSecrets")
        if given[name]
    } | {name: given[name] for name in ("priorityClassName", "runtimeClassName") if name in given}
    affinity = _add_affinity(pod["spec"].get("affinity", {}), given.get("affinity", {}))
    return pod | {
        "metadata": _add_metadata(pod["metadata"], template.metadata),
        "spec": added
        | pod["spec"]
        | ({"affinity": affinity} if affinity else {})
        | {
            "containers": [_add_to_container(container, template)],
            "volumes": [*pod["spec"]["volumes"], *(each.to_manifest() for each in spec.volumes)],
        },
    }


def _add_metadata(metadata: Manifest, template: PodMetadata) -> Manifest:
    labels = template.labels | metadata["labels"]
    annotations = template.annotations | metadata.get("annotations", {})
    return metadata | {"labels": labels} | ({"annotations": annotations} if annotations else {})


def _add_to_container(container: Manifest, template: PodTemplate) -> Manifest:
    own = container.get("env", [])
    taken = {each["name"] for each in own}
    env = [each.to_manifest() for each in template.env if each.name not in taken]
    mounts = [each.to_manifest() for each in template.mounts]
    return container | {"env": [*env, *own], "volumeMounts": [*container["volumeMounts"], *mounts]}


def _add_affinity(own: Manifest, given: Manifest) -> Manifest:
    """Return both: terms of pods are combined; of required nodes, ours are the only ones that work."""
    parts = {name: dict(part) for name, part in given.items()}
    for name, part in own.items():
        theirs = parts.setdefault(name, {})
        for kind, terms in part.items():
            theirs[kind] = [*terms, *theirs.get(kind, ())] if isinstance(terms, list) else terms
    return parts


def list_pins(template: PodTemplate, account: str | None) -> list[str]:
    """Return what an executor may have by its template and account, as the admission policy names it of a pod."""
    spec = template.spec
    config_maps = [name for volume in spec.volumes for name in volume.config_maps]
    sources = [each.value_from for each in template.env if each.value_from is not None]
    config_maps += [each.config_map_key_ref.name for each in sources if each.config_map_key_ref is not None]
    projected = [name for each in spec.volumes if each.projected is not None for name in each.secrets]
    pins = {
        *(f"label/{key}={value}" for key, value in template.metadata.labels.items()),
        *(f"nodeSelector/{key}={value}" for key, value in spec.node_selector.items()),
        *(f"toleration/{each.key}/{each.operator}/{each.value}/{each.effect}" for each in spec.tolerations),
        *(f"configMap/{name}" for name in config_maps),
        *(f"secret/{name}" for name in projected),
        *([f"priorityClass/{spec.priority_class_name}"] if spec.priority_class_name else []),
        *([f"runtimeClass/{spec.runtime_class_name}"] if spec.runtime_class_name else []),
        *([f"account/{account}"] if account else []),
    }
    return sorted(pins)
