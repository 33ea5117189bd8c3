"""What the chart lets the operator do: its rules as the permissions of a cluster in memory.

The rules are read from the chart's templates, which must therefore be plain YAML. As the real API server does it, an apply
of what is not there needs `create`, too, and a Role may grant only what its author may do.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, NamedTuple

import yaml

from fakes.cluster import Body, FakeCluster
from fakes.fuse import Fuse
from kappa_crds import API_VERSION
from kappa_operator.engine.cluster import PLURALS
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import Refused

ADMISSION_WEBHOOK = "kappa-system.kappa.pipelines.kappa-platform.io"
TEMPLATES = Path(__file__).parents[2] / "charts" / "kappa" / "templates"


class Permission(NamedTuple):
    """One verb on one resource, as the API server checks it."""

    group: str
    resource: str
    verb: str


def expand(rules: list[Body]) -> frozenset[Permission]:
    """Return the single permissions of a role's rules."""
    return frozenset(
        Permission(group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def read_rules() -> list[Body]:
    """Return the chart's rules for a namespace where the operator acts."""
    return read_platform_rules() + read_namespace_rules()


def read_platform_rules() -> list[Body]:
    """Return the chart's rules for all namespaces: those on the operator's own kinds."""
    return _read_template("platform")


def read_namespace_rules() -> list[Body]:
    """Return the chart's rules that a RoleBinding grants in a namespace."""
    return _read_template("namespace")


def _read_template(name: str) -> list[Body]:
    text = (TEMPLATES / "_helpers.tpl").read_text()
    found = re.search(rf'define "kappa\.rules\.{name}" -}}}}\n(.*?){{{{- end }}}}', text, re.DOTALL)
    assert found is not None, f"the chart has no rules of name {name}"
    rules: list[Body] = yaml.load(found[1], yaml.CSafeLoader)
    return rules


def read_lease_rules() -> list[Body]:
    """Return the chart's rules for the operator's own namespace."""
    parts = (TEMPLATES / "rbac.yaml").read_text().split("\n---\n")
    (role,) = (part for part in parts if "-lease" in part and "\nrules:\n" in part)
    rules: list[Body] = yaml.load(role.split("\nrules:\n")[1], yaml.CSafeLoader)
    return rules


def read_endpoint_rules(kind: str) -> list[Body]:
    """Return the chart's rules for the endpoints: those of a Role in the operator's own namespace, or of a ClusterRole."""
    text = (TEMPLATES / "certificates.yaml").read_text()
    text = text.replace('{{ include "kappa.admission.webhook" . }}', ADMISSION_WEBHOOK)
    parts = re.sub(r"{{.*?}}", "", text).split("\n---\n")
    (role,) = (part for part in parts if f"\nkind: {kind}\n" in part)
    rules: list[Body] = yaml.load(role.split("\nrules:\n")[1], yaml.CSafeLoader)
    return rules


def read_certificate_rules() -> list[Body]:
    """Return the chart's rules to keep the certificate of the endpoints."""
    rules = read_endpoint_rules("Role") + read_endpoint_rules("ClusterRole")
    return [rule for rule in rules if "create" not in rule["verbs"]]


class PermittedCluster(FakeCluster):
    """A cluster that refuses what the `permissions` do not grant. What tests call themselves is not checked.

    In the namespaces of `disabled`, only the permissions on the platform's own kinds are granted. `reviews` are the namespaces
    that the operator checked.
    """

    permissions = expand(read_rules())
    everywhere = expand(read_platform_rules())
    used: ClassVar[set[Permission]] = set()
    """What all clusters of the test session were asked for, or granted to others."""

    def __init__(
        self, fuse: Fuse | None = None, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        super().__init__(fuse, now)
        self.disabled: set[str] = set()
        self.reviews: list[str] = []

    async def may(self, verb: str, resource: str, namespace: str) -> bool:
        """Return whether the rules grant this. Every account may ask the API server that."""
        self.reviews.append(namespace)
        return Permission("", resource, verb) in self._list_permissions(namespace)

    async def get(self, ref: ObjectRef) -> Body | None:
        """Return a copy of the object."""
        self._permit("get", ref.api_version, ref.kind, ref.namespace)
        return await super().get(ref)

    async def read_log(self, pod: ObjectRef, seconds: int, most_bytes: int) -> str:
        """Return the log of a pod."""
        self._permit("get", pod.api_version, pod.kind, pod.namespace, "/log")
        return await super().read_log(pod, seconds, most_bytes)

    async def list_objects(
        self, api_version: str, kind: str, namespace: str | None = None,
        labels: Mapping[str, str] | None = None, fields: str = "",
    ) -> list[Body]:  # fmt: skip
        """Return copies of the objects that match. Of kinds that are not ours a selector must choose: a namespace may hold thousands."""
        assert labels or fields or api_version == API_VERSION, f"a list of every {kind} of {namespace}"
        self._permit("list", api_version, kind, namespace)
        return await super().list_objects(api_version, kind, namespace, labels, fields)

    async def create(self, manifest: Body) -> Body:
        """Create the object."""
        self._permit_write("create", manifest)
        return await super().create(manifest)

    async def replace(self, manifest: Body) -> Body:
        """Replace the object."""
        self._permit_write("update", manifest)
        return await super().replace(manifest)

    async def apply(self, manifest: Body, manager: str | None = None) -> Body:
        """Merge the manifest into the object, or create it."""
        self._permit_write("patch", manifest)
        if self.read(ObjectRef.of(manifest)) is None:
            self._permit_write("create", manifest)
        return await super().apply(manifest, manager)

    async def apply_status(self, manifest: Body) -> Body:
        """Replace the status."""
        namespace = manifest["metadata"]["namespace"]
        self._permit("patch", manifest["apiVersion"], manifest["kind"], namespace, "/status")
        return await super().apply_status(manifest)

    async def merge(self, ref: ObjectRef, patch: Body, manager: str = "kappa-cli") -> Body:
        """Merge a patch into the object."""
        self._permit("patch", ref.api_version, ref.kind, ref.namespace)
        return await super().merge(ref, patch, manager)

    async def delete(self, ref: ObjectRef, uid: str | None = None) -> None:
        """Delete the object."""
        self._permit("delete", ref.api_version, ref.kind, ref.namespace)
        await super().delete(ref, uid)

    def _permit_write(self, verb: str, manifest: Body) -> None:
        ref = ObjectRef.of(manifest)
        self._permit(verb, ref.api_version, ref.kind, ref.namespace)
        if manifest["kind"] == "Role":
            self.used.update(expand(manifest["rules"]))
            for missing in sorted(expand(manifest["rules"]) - self.permissions):
                raise Refused(f"the operator lacks {missing}, so it may not grant that either")

    def _list_permissions(self, namespace: str | None) -> frozenset[Permission]:
        return self.everywhere if namespace in self.disabled else self.permissions

    def _permit(self, verb: str, api_version: str, kind: str, namespace: str | None, part: str = "") -> None:
        wanted = Permission(api_version.rpartition("/")[0], PLURALS[api_version, kind] + part, verb)
        self.used.add(wanted)
        if wanted not in self._list_permissions(namespace):
            raise Refused(
                f"the chart does not let the operator {verb} {wanted.resource} of group {wanted.group!r}"
            )
