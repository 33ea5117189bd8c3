"""Volumes of a pod template, and where the container mounts them: kinds without access to the node only."""

from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.model import Model, ResourceName, Rule, Size

VOLUME_KINDS = ("emptyDir", "configMap", "secret", "persistentVolumeClaim", "projected", "downwardAPI")
_HAS = {kind: f"has(self.{kind})" for kind in VOLUME_KINDS}
_COUNT = " + ".join(f"({has} ? 1 : 0)" for has in _HAS.values())
_SYSTEM = "bin|boot|dev|etc|lib|lib32|lib64|libx32|opt|proc|root|run|sbin|sys|tmp|usr|var"
RelativePath = Annotated[
    str,
    Field(min_length=1, max_length=128),
    Rule("!self.matches('^/|(^|/)[.][.](/|$)')", "must be relative, without .."),
]
VolumeName = Annotated[
    str,
    Field(min_length=1, max_length=63),
    Rule(
        "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')"
        " && !self.matches('^(tmp|revision|control|rpc|state|other|kafka-.*|registry-.*|spark-.*|kappa-.*)$')",
        "must be lower-case letters, digits and '-', and no name of the platform: tmp, revision, control, rpc, state, other,"
        " kafka-…, registry-…, spark-…, kappa-…",
    ),
]


class KeyPath(Model):
    """A key as a file."""

    key: Annotated[str, Field(min_length=1, max_length=253)]
    """The key."""
    path: RelativePath
    """Path of the file in the volume."""


Items = Annotated[tuple[KeyPath, ...], Field(max_length=16)]


class EmptyDir(Model):
    """An empty folder of the pod."""

    medium: Annotated[str, Field(max_length=16)] = ""
    """Memory for a folder in memory, which counts as memory of the container."""
    size_limit: Size | None = None
    """Largest size."""


class ConfigMapFiles(Model):
    """Keys of a ConfigMap."""

    name: ResourceName
    """Name of the ConfigMap."""
    items: Items = ()
    """Keys to mount. Default: all."""
    optional: bool = False
    """Start without it."""


class SecretFiles(Model):
    """Keys of a Secret."""

    secret_name: ResourceName
    """Name of the Secret."""
    items: Items = ()
    """Keys to mount. Default: all."""
    optional: bool = False
    """Start without it."""


class ProjectedSecret(Model):
    """Keys of a Secret."""

    name: ResourceName
    """Name of the Secret."""
    items: Items = ()
    """Keys to mount. Default: all."""
    optional: bool = False
    """Start without it."""


class ClaimMount(Model):
    """A PersistentVolumeClaim."""

    claim_name: ResourceName
    """Name of the PVC."""
    read_only: bool = False
    """Mount it read-only."""


class FieldRef(Model):
    """A field of the pod."""

    field_path: Annotated[
        str,
        Field(min_length=1, max_length=128),
        Rule(
            "self.matches('^(metadata|spec|status)[.][^ ]+$')",
            "must be a field of the pod such as metadata.name",
        ),
    ]
    """The field, such as metadata.namespace."""


class FieldFile(Model):
    """A field of the pod as a file."""

    path: RelativePath
    """Path of the file in the volume."""
    field_ref: FieldRef
    """The field."""


class FieldFiles(Model):
    """Fields of the pod."""

    items: Annotated[tuple[FieldFile, ...], Field(max_length=8)] = ()
    """The files."""


class ProjectedSource(Model):
    """One source of a projected volume."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"({_HAS['configMap']} ? 1 : 0) + ({_HAS['secret']} ? 1 : 0) + ({_HAS['downwardAPI']} ? 1 : 0) == 1",
            "a source of a projected volume has one of configMap, secret and downwardAPI",
        ),
    )
    config_map: ConfigMapFiles | None = None
    """Keys of a ConfigMap."""
    secret: ProjectedSecret | None = None
    """Keys of a Secret."""
    downward_api: Annotated[FieldFiles | None, Field(alias="downwardAPI")] = None
    """Fields of the pod."""


class Projected(Model):
    """Several sources in one volume."""

    sources: Annotated[tuple[ProjectedSource, ...], Field(min_length=1, max_length=8)]
    """The sources."""


class Volume(Model):
    """A volume. The installation lists the kinds that are allowed; nothing of the node is among them."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"{_COUNT} == 1",
            f"a volume of podTemplate has one of {', '.join(VOLUME_KINDS)}; other kinds, such as hostPath, are not available",
        ),
    )
    name: VolumeName
    """Name, by which volumeMounts refer to it."""
    empty_dir: EmptyDir | None = None
    """An empty folder."""
    config_map: ConfigMapFiles | None = None
    """Keys of a ConfigMap."""
    secret: SecretFiles | None = None
    """Keys of a Secret."""
    persistent_volume_claim: ClaimMount | None = None
    """A PVC."""
    projected: Projected | None = None
    """Several sources."""
    downward_api: Annotated[FieldFiles | None, Field(alias="downwardAPI")] = None
    """Fields of the pod."""

    @property
    def kind(self) -> str:
        """Return the kind, such as configMap."""
        return next(kind for kind in VOLUME_KINDS if kind in self.to_manifest())

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the names of the Secrets that it holds."""
        parts = () if self.projected is None else self.projected.sources
        own = () if self.secret is None else (self.secret.secret_name,)
        return (*own, *(part.secret.name for part in parts if part.secret is not None))

    @property
    def config_maps(self) -> tuple[str, ...]:
        """Return the names of the ConfigMaps that it holds."""
        parts = () if self.projected is None else self.projected.sources
        own = () if self.config_map is None else (self.config_map.name,)
        return (*own, *(part.config_map.name for part in parts if part.config_map is not None))


class VolumeMount(Model):
    """Where a volume is mounted."""

    name: VolumeName
    """Name of the volume."""
    mount_path: Annotated[
        str,
        Field(min_length=2, max_length=253),
        Rule(
            f"self.matches('^(/[^/:.][^/:]*)+$') && !self.matches('^/({_SYSTEM})(/|$)')",
            "must be an absolute path outside of the folders of the system and of the platform (/etc, /opt, /tmp, /usr, /var, …),"
            " such as /mnt/rules",
        ),
    ]
    """The folder in the container, such as /mnt/rules."""
    read_only: bool = False
    """Mount it read-only."""
