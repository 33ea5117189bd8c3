"""What the accounts of the platform called, as the API server's audit log has it, against what their rules grant.

Each entry names the role that allowed the request, so a call counts for the role that granted it, and not for what every
account may do, such as discovery.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fakes.cluster import Body
from fakes.permissions import Permission, expand

OPERATOR = "system:serviceaccount:kappa-system:kappa-operator"
DRIVER_ROLE = "driver"
"""Stands for the Role of each driver."""
NAMESPACE_ROLE = "kappa-namespace"
COLLECTED = pytest.StashKey[frozenset[Path]]()
"""The files with tests that this session collected, before any was deselected."""
INSTALLED = pytest.StashKey[str]()
"""When the chart was installed, as the log writes times: an operator before that may have had other permissions."""
_DRIVER = re.compile(r"system:serviceaccount:[^:]+:.+-driver")
_ROLE = re.compile(r' of (?:ClusterRole|Role) "([^"]+)"')
_DECISION, _REASON = "authorization.k8s.io/decision", "authorization.k8s.io/reason"


@dataclass(frozen=True)
class Call:
    """A request of an account. `role` is what allowed it; None where no role did."""

    account: str
    permission: Permission
    namespace: str
    role: str | None


def read_calls(files: Iterable[Path], since: str = "") -> set[Call]:
    """Return the calls of the operator and of drivers since a time (RFC 3339)."""
    calls: set[Call] = set()
    for file in files:
        with file.open() as lines:
            for line in lines:
                entry = json.loads(line)
                if entry["requestReceivedTimestamp"] >= since:
                    calls.update(_parse(entry))
    return calls


def _parse(entry: Body) -> Iterator[Call]:
    """Yield the call of an entry. Tests send requests with the token of a driver, too, and those by kubectl."""
    account, about = entry["user"]["username"], entry.get("objectRef", {})
    is_driver = _DRIVER.fullmatch(account) is not None
    if not (is_driver or account == OPERATOR) or "resource" not in about or "kubectl" in entry["userAgent"]:
        return
    resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
    permission = Permission(about.get("apiGroup", ""), resource, entry["verb"])
    yield Call(account, permission, about.get("namespace", ""), _find_role(entry, is_driver))


def _find_role(entry: Body, is_driver: bool) -> str | None:
    annotations = entry.get("annotations", {})
    if annotations.get(_DECISION) != "allow":
        return None
    found = _ROLE.search(annotations[_REASON])
    assert found is not None, f"no role allowed {entry['requestURI']}: {annotations[_REASON]}"
    return DRIVER_ROLE if is_driver and found[1].endswith("-driver") else found[1]


def find_refused(calls: Iterable[Call]) -> set[str]:
    """Return the requests that no role allowed, as text."""
    return {
        f"{call.account} may not {call.permission.verb} {call.permission.resource} of group"
        f" {call.permission.group!r} in {call.namespace or 'all namespaces'}"
        for call in calls
        if call.role is None
    }


def find_unused(rules: Mapping[str, list[Body]], calls: Iterable[Call]) -> set[tuple[str, Permission]]:
    """Return the permissions, with their roles, that no call used. The operator has those of drivers because it grants them."""
    granted = {(role, permission) for role, each in rules.items() for permission in expand(each)}
    used = {(call.role, call.permission) for call in calls}
    lent = {(NAMESPACE_ROLE, permission) for role, permission in used if role == DRIVER_ROLE}
    return granted - used - lent


def find_undeclared(rules: Mapping[str, list[Any]], calls: Iterable[Call]) -> set[tuple[str, Permission]]:
    """Return what roles of the platform allowed and these rules do not grant: the installed chart is another one."""
    granted = {(role, permission) for role, each in rules.items() for permission in expand(each)}
    return {
        (call.role, call.permission) for call in calls if call.role is not None and call.role in rules
    } - granted
