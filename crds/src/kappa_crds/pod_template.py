"""`podTemplate` of a pipeline: what users may add to the pods of drivers and executors.

It has the form of a PodTemplateSpec of Kubernetes, as in the operators of Flink and Spark, and only those fields that give a pod no more
access than it has. What the platform sets itself is refused, so that nothing is overwritten silently.
"""

import re
from collections.abc import Iterator
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.model import Model, ResourceName, Rule
from kappa_crds.pod_placement import Affinity, LabelValue, SpreadConstraint, Toleration
from kappa_crds.pod_volumes import FieldRef, Volume, VolumeMount

MAIN = "main"
"""Name of the container in templates, for drivers and executors alike."""
_LABELS = "^(app[.]kubernetes[.]io/(name|instance|managed-by)$|([^/]*[.])?kappa-platform[.]io/|spark-)"
_ANNOTATIONS = "^(([^/]*[.])?kappa-platform[.]io/|prometheus[.]io/(scrape|port)$)"
_VARIABLES = (
    "^(KAPPA_.*|SPARK_.*|LD_.*|PYTHON.*|JAVA_.*|_JAVA_.*|JDK_.*|JVM_.*|CLASSPATH|HADOOP_.*|BASH.*|ENV|SHELLOPTS|PS4|IFS|PATH|HOME"
    "|GCONV_PATH|LOCPATH|GLIBC_TUNABLES|OPENSSL_.*|MALLOC_.*|TINI_.*|ROCKSDB_.*"
    "|AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|CONFIG_FILE|SHARED_CREDENTIALS_FILE))$"
)


_KEYS = Rule(
    "self.all(key, key.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",
    "each key must be a name of at most 63 letters, digits, '-', '_' and '.', with an optional prefix such as example.com/",
)


def _refuse_keys(pattern: str, what: str) -> Rule:
    return Rule(
        f"self.all(key, !key.matches('{pattern}'))",
        f"{what} of the platform cannot be set in podTemplate; remove it",
        f"self.filter(key, key.matches('{pattern}'))[0] + ' is one of the {what} of the platform, which podTemplate cannot set; remove it'",
    )


class PodMetadata(Model):
    """Labels and annotations of pods."""

    labels: Annotated[dict[str, LabelValue], Field(max_length=32), _KEYS, _refuse_keys(_LABELS, "labels")] = (
        Field(default_factory=dict)
    )
    """Labels in addition to those of the platform."""
    annotations: Annotated[
        dict[str, Annotated[str, Field(max_length=4096)]],
        Field(max_length=32),
        _KEYS,
        _refuse_keys(_ANNOTATIONS, "annotations"),
    ] = Field(default_factory=dict)
    """Annotations in addition to those of the platform."""


class KeyRef(Model):
    """A key of a ConfigMap or Secret in the same namespace."""

    name: ResourceName
    """Name of the object."""
    key: Annotated[str, Field(min_length=1, max_length=253)]
    """The key."""
    optional: bool = False
    """Start without it."""


class VariableSource(Model):
    """Where the value of a variable comes from. The installation lists the kinds that are allowed."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(has(self.configMapKeyRef) ? 1 : 0) + (has(self.secretKeyRef) ? 1 : 0) + (has(self.fieldRef) ? 1 : 0) == 1",
            "valueFrom has one of configMapKeyRef, secretKeyRef and fieldRef",
        ),
    )
    config_map_key_ref: KeyRef | None = None
    """A key of a ConfigMap."""
    secret_key_ref: KeyRef | None = None
    """A key of a Secret."""
    field_ref: FieldRef | None = None
    """A field of the pod."""

    @property
    def kind(self) -> str:
        """Return the kind, such as configMapKeyRef."""
        return next(iter(self.to_manifest()))


class Variable(Model):
    """A variable of the environment."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("!has(self.value) || !has(self.valueFrom)", "a variable has value or valueFrom, not both"),
    )
    name: Annotated[
        str,
        Field(min_length=1, max_length=128),
        Rule("self.matches('^[A-Za-z_][A-Za-z0-9_]*$')", "must be letters, digits and '_', no digit first"),
        Rule(
            f"!self.matches('{_VARIABLES}')",
            "is a variable of the platform, of Java, Python or the shell, which podTemplate cannot set; remove it",
            "self + ' is a variable of the platform, of Java, Python or the shell, which podTemplate cannot set; remove it'",
        ),
    ]
    """Name of the variable."""
    value: Annotated[str | None, Field(max_length=4096)] = None
    """Its value; `$(NAME)` is replaced as in any pod."""
    value_from: VariableSource | None = None
    """Where its value comes from."""


class TemplateContainer(Model):
    """What is added to the container of the platform."""

    name: Annotated[str, Field(max_length=63), Rule("self == 'main'", "must be main")] = MAIN
    """main, which is the driver in a driver and the executor in an executor."""
    env: Annotated[tuple[Variable, ...], Field(max_length=64)] = ()
    """Variables."""
    volume_mounts: Annotated[tuple[VolumeMount, ...], Field(max_length=16)] = ()
    """Where volumes are mounted."""


class PullSecret(Model):
    """A Secret with which images are pulled."""

    name: ResourceName
    """Name of the Secret."""


class PlacementSpec(Model):
    """Where pods run, and how their images are pulled."""

    image_pull_secrets: Annotated[tuple[PullSecret, ...], Field(max_length=8)] = ()
    """Secrets of the same namespace with which images are pulled."""
    node_selector: Annotated[dict[str, LabelValue], Field(max_length=32)] = Field(default_factory=dict)
    """Labels that nodes must have."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=16)] = ()
    """Taints of nodes that pods tolerate, by the list of the installation."""
    affinity: Affinity | None = None
    """Which nodes are allowed or preferred."""
    topology_spread_constraints: Annotated[tuple[SpreadConstraint, ...], Field(max_length=8)] = ()
    """How evenly pods are spread."""
    priority_class_name: Annotated[str | None, Field(min_length=1, max_length=253)] = None
    """PriorityClass, by the list of the installation."""
    runtime_class_name: Annotated[str | None, Field(min_length=1, max_length=253)] = None
    """RuntimeClass, by the list of the installation."""


class PlacementTemplate(Model):
    """What is added to pods that have nothing else of users, in the form of a PodTemplateSpec."""

    metadata: PodMetadata = PodMetadata()
    """Labels and annotations."""
    spec: PlacementSpec = PlacementSpec()
    """The pod."""

    def to_pod_template(self) -> "PodTemplate":
        """Return it as the template of a pod, without containers and volumes."""
        return PodTemplate(metadata=self.metadata, spec=TemplateSpec(**dict(self.spec)))


class TemplateSpec(PlacementSpec):
    """What is added to the spec of pods."""

    containers: Annotated[tuple[TemplateContainer, ...], Field(max_length=1)] = ()
    """The container main. Others are not available."""
    volumes: Annotated[tuple[Volume, ...], Field(max_length=12)] = ()
    """Volumes."""


class PodTemplate(Model):
    """What is added to pods, in the form of a PodTemplateSpec."""

    metadata: PodMetadata = PodMetadata()
    """Labels and annotations."""
    spec: TemplateSpec = TemplateSpec()
    """The pod."""

    @property
    def env(self) -> tuple[Variable, ...]:
        """Return the variables of the container."""
        return tuple(variable for container in self.spec.containers for variable in container.env)

    @property
    def mounts(self) -> tuple[VolumeMount, ...]:
        """Return the mounts of the container."""
        return tuple(mount for container in self.spec.containers for mount in container.volume_mounts)


def find_reserved(template: PodTemplate) -> Iterator[str]:
    """Yield what the platform sets itself, in a template that no API server has checked."""
    yield from (f"label {key}" for key in template.metadata.labels if re.search(_LABELS, key))
    yield from (f"annotation {key}" for key in template.metadata.annotations if re.search(_ANNOTATIONS, key))
    yield from (f"variable {each.name}" for each in template.env if re.search(_VARIABLES, each.name))


NO_TEMPLATE = PodTemplate()
"""Adds nothing."""


class PodRole(Model):
    """Pods of one role."""

    pod_template: PodTemplate | None = None
    """Added to the pods of this role, after spec.podTemplate."""


class ServiceAccount(Model):
    """The ServiceAccounts of the pods."""

    annotations: Annotated[
        dict[str, Annotated[str, Field(max_length=2048)]],
        Field(max_length=8),
        _KEYS,
        _refuse_keys("^([^/]*[.])?(kappa-platform|kubernetes)[.]io/", "annotations"),
    ] = Field(default_factory=dict)
    """Annotations that give pods an identity of a cloud, by the list of the installation."""
