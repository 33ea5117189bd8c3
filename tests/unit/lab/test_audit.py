"""The audit of permissions finds a missing, an unused and an undeclared one, and what other accounts call does not count."""

import json
from pathlib import Path
from typing import Any

import pytest

from e2e.audit import (
    DRIVER_ROLE,
    NAMESPACE_ROLE,
    OPERATOR,
    find_refused,
    find_undeclared,
    find_unused,
    read_calls,
)
from fakes.permissions import Permission

DRIVER = "system:serviceaccount:shop:delays-driver"
RULES: dict[str, list[Any]] = {
    NAMESPACE_ROLE: [{"apiGroups": [""], "resources": ["secrets", "pods"], "verbs": ["get"]}],
    DRIVER_ROLE: [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
}


def build_entry(account: str, resource: str, role: str | None, **fields: Any) -> dict[str, Any]:
    """Return an entry as an API server of version 1.34 writes it."""
    reason = f'RBAC: allowed by RoleBinding "x/shop" of ClusterRole "{role}" to ServiceAccount "x/y"'
    return {
        "requestReceivedTimestamp": "2026-01-01T10:00:00.000000Z",
        "requestURI": "/api",
        "verb": "get",
        "user": {"username": account},
        "userAgent": "operator",
        "objectRef": {"resource": resource, "namespace": "shop", "apiVersion": "v1"},
        "annotations": {
            "authorization.k8s.io/decision": "allow" if role else "forbid",
            "authorization.k8s.io/reason": reason if role else "",
        },
        **fields,
    }


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


def write(log: Path, *entries: dict[str, Any]) -> list[Path]:
    log.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return [log]


def test_a_permission_that_no_call_used_is_found(log: Path) -> None:
    calls = read_calls(write(log, build_entry(OPERATOR, "secrets", NAMESPACE_ROLE)))
    assert find_unused(RULES, calls) == {
        (NAMESPACE_ROLE, Permission("", "pods", "get")),
        (DRIVER_ROLE, Permission("", "pods", "get")),
    }


def test_the_operator_has_the_permissions_of_drivers_to_grant_them(log: Path) -> None:
    entries = build_entry(OPERATOR, "secrets", NAMESPACE_ROLE), build_entry(DRIVER, "pods", "delays-driver")
    assert find_unused(RULES, read_calls(write(log, *entries))) == set()


def test_a_call_counts_for_the_role_that_allowed_it(log: Path) -> None:
    calls = read_calls(write(log, build_entry(OPERATOR, "secrets", "cluster-admin")))
    assert (NAMESPACE_ROLE, Permission("", "secrets", "get")) in find_unused(RULES, calls)


def test_a_refused_request_is_found_with_its_account_and_place(log: Path) -> None:
    calls = read_calls(write(log, build_entry(DRIVER, "secrets", None)))
    assert find_refused(calls) == {f"{DRIVER} may not get secrets of group '' in shop"}


def test_a_role_that_grants_more_than_the_chart_is_found(log: Path) -> None:
    nodes = build_entry(OPERATOR, "nodes", NAMESPACE_ROLE)
    assert find_undeclared(RULES, read_calls(write(log, nodes))) == {
        (NAMESPACE_ROLE, Permission("", "nodes", "get"))
    }


@pytest.mark.parametrize(
    "other",
    [
        build_entry("system:serviceaccount:shop:default", "secrets", None),
        build_entry(DRIVER, "secrets", None, userAgent="kubectl/v1.34.0"),
        build_entry(DRIVER, "secrets", None, requestReceivedTimestamp="2026-01-01T08:00:00Z"),
        build_entry(OPERATOR, "", None, objectRef={}),
    ],
    ids=["another account", "a test with the token of a driver", "before the session", "no resource"],
)
def test_other_requests_do_not_count(log: Path, other: dict[str, Any]) -> None:
    assert read_calls(write(log, other), "2026-01-01T09:00:00") == set()
