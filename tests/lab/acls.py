"""Permissions of a user on a broker with ACLs, as `docs/how-to/kafka-permissions.md` lists them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from lab.shell import wait_until

PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Settings of a broker that denies everything to authenticated users without ACLs."""


@dataclass(frozen=True)
class Right:
    """An operation on a resource of Kafka; with `is_prefix` on all whose names begin so."""

    kind: ResourceType
    name: str
    operation: AclOperation
    is_prefix: bool = False

    def of(self, name: str) -> "Right":
        """Return the same on another resource."""
        return replace(self, name=name)


def grant(bootstrap: str, user: str, rights: Iterable[Right]) -> None:
    """Allow a user this and nothing else; returns when the broker reports it."""
    admin, principal = AdminClient({"bootstrap.servers": bootstrap}), f"User:{user}"
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, principal, None, AclOperation.ANY, AclPermissionType.ANY  # type: ignore[arg-type]
    )  # fmt: skip
    admin.delete_acls([every])[every].result(30)
    wanted = {_bind(each, principal) for each in rights}
    for future in admin.create_acls(list(wanted)).values() if wanted else ():
        future.result(30)
    wait_until(
        lambda: set(admin.describe_acls(every).result(30)) == wanted, "permissions are reported", every=0.05
    )


def _bind(right: Right, principal: str) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if right.is_prefix else ResourcePatternType.LITERAL
    allow = AclPermissionType.ALLOW
    return AclBinding(right.kind, right.name, pattern, principal, "*", right.operation, allow)
