"""How the operator names what it works on."""

from typing import Any, NamedTuple

from kappa_crds.resource import Resource


class Key(NamedTuple):
    """One custom resource: kind, namespace and name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"

    @staticmethod
    def of(resource: Resource[Any, Any]) -> "Key":
        """Return the key of a resource."""
        return Key(resource.kind, resource.metadata.namespace, resource.metadata.name)


class ObjectRef(NamedTuple):
    """One Kubernetes object of any kind, by API version. Objects of the cluster have an empty namespace."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    @staticmethod
    def of(manifest: dict[str, Any]) -> "ObjectRef":
        """Return the reference of a manifest."""
        metadata = manifest["metadata"]
        namespace = metadata.get("namespace", "")
        return ObjectRef(manifest["apiVersion"], manifest["kind"], namespace, metadata["name"])
