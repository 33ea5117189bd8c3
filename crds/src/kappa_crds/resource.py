"""What all kinds share: metadata, references, and the registry of kinds with their names for `kubectl`."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

from pydantic import ConfigDict, Field

from kappa_crds import API_VERSION
from kappa_crds.conditions import Condition, ConditionType
from kappa_crds.conversion import convert
from kappa_crds.model import Model, ResourceName, Rule, Status

Spec = TypeVar("Spec", bound=Model)
StatusT = TypeVar("StatusT", bound="ResourceStatus")


class ConfigMapRef(Model):
    """A ConfigMap in the same namespace."""

    name: ResourceName
    """Name of the ConfigMap."""


class SecretRef(Model):
    """A Secret in the same namespace."""

    name: ResourceName
    """Name of the Secret."""


class CaSecretRef(SecretRef):
    """A Secret that holds certificates of authorities."""

    key: Annotated[str, Field(min_length=1, max_length=253)] = "ca.crt"
    """Key of the Secret that holds the PEM certificates."""


class OwnerReference(Status):
    """An owner of a resource."""

    model_config = ConfigDict(extra="ignore")

    kind: str
    name: str
    uid: str
    controller: bool = False


class Metadata(Status):
    """The part of a resource's metadata that decisions need."""

    model_config = ConfigDict(extra="ignore")

    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    finalizers: tuple[str, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """Return the owner that created the resource, and removes it with itself."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class ResourceStatus(Status):
    """The part of every status that tools rely on."""

    observed_generation: Annotated[int | None, Field(ge=0)] = None
    """The metadata.generation that this status describes."""
    conditions: tuple[Condition, ...] = ()
    """Ready, Reconciling and Stalled, as kstatus defines them."""
    state: str | None = None
    """The state in one word, for people."""


class Resource(Model, Generic[Spec, StatusT]):
    """A custom resource as the API server returns it."""

    model_config = ConfigDict(extra="ignore")

    api_version: str = API_VERSION
    kind: str
    metadata: Metadata
    spec: Spec
    status: StatusT


@dataclass(frozen=True)
class PrinterColumn:
    """One column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0

    def as_schema(self) -> dict[str, Any]:
        """Return the column as the CRD spells it."""
        column: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return column | ({"priority": self.priority} if self.priority else {})


def build_columns(
    *own: PrinterColumn, first: tuple[PrinterColumn, ...] = (), explained: str = "Ready"
) -> tuple[PrinterColumn, ...]:
    """Return the columns of a kind: its own between those of every kind. `explained` is the condition whose reason is shown."""
    condition = f'.status.conditions[?(@.type=="{explained}")]'
    return (
        *first,
        PrinterColumn("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        PrinterColumn("State", ".status.state"),
        *own,
        PrinterColumn("Reason", f"{condition}.reason", priority=1),
        PrinterColumn("Message", f"{condition}.message", priority=1),
        PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
    )


@dataclass(frozen=True)
class Kind:
    """A custom resource kind: its models and its names."""

    name: str
    plural: str
    short_names: tuple[str, ...]
    description: str
    spec: type[Model]
    status: type[ResourceStatus]
    columns: tuple[PrinterColumn, ...]
    name_limit: int = 63
    name_rules: tuple[Rule, ...] = ()
    scale: dict[str, str] | None = None
    conditions: tuple[str, ...] = ()
    """Condition types in addition to those that every kind has."""

    @property
    def condition_types(self) -> frozenset[str]:
        """Return the condition types that this version writes; others belong to another version, and stay."""
        return frozenset({*ConditionType, *self.conditions})

    def parse(self, body: dict[str, Any]) -> "Resource[Any, Any]":
        """Return the typed resource of a JSON object, also of one with earlier names; raise pydantic.ValidationError if it is bad."""
        body = convert(self.name, body)
        return Resource[self.spec, self.status].model_validate(  # type: ignore[name-defined]
            {"kind": self.name, **body, "status": body.get("status") or {}}
        )
