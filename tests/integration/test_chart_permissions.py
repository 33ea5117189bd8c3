"""The rules that all tests of the operator run with are those that Helm renders, and each mode of the chart grants them where it should."""

import json
from typing import Any

import pytest

from fakes.permissions import (
    expand,
    read_endpoint_rules,
    read_lease_rules,
    read_namespace_rules,
    read_platform_rules,
    read_rules,
)
from lab.errors import LabError
from monitored.chart import Body, find, render

pytestmark = pytest.mark.clusterless

ACCOUNT = [{"kind": "ServiceAccount", "name": "kappa-operator", "namespace": "kappa-system"}]
ALL = ("clusterWide=true",)
LISTED = ("enabledNamespaces={shop}",)
NAMESPACED = ("watchNamespaces={shop}",)


def find_granted(bodies: list[Body]) -> dict[str, list[Any]]:
    """Return the rules that the account of the operator has, by namespace; those without a namespace it has in all."""
    roles = {
        (kind, name): role["rules"]
        for kind in ("Role", "ClusterRole")
        for name, role in find(bodies, kind).items()
    }
    granted: dict[str, list[Any]] = {}
    for body in bodies:
        if body["kind"] in ("RoleBinding", "ClusterRoleBinding") and body["subjects"] == ACCOUNT:
            rules = roles[body["roleRef"]["kind"], body["roleRef"]["name"]]
            granted.setdefault(body["metadata"].get("namespace", ""), []).extend(rules)
    return granted


@pytest.mark.parametrize(
    ("values", "granted"),
    [
        ((), {"": read_platform_rules()}),
        (LISTED, {"": read_platform_rules(), "shop": read_namespace_rules()}),
        (ALL, {"": read_rules()}),
        (NAMESPACED, {"shop": read_rules()}),
    ],
)
def test_the_account_of_the_operator_has_the_rules_of_its_mode(
    values: tuple[str, ...], granted: dict[str, list[Any]]
) -> None:
    own = read_endpoint_rules("Role") + read_lease_rules()
    everywhere = read_endpoint_rules("ClusterRole") + granted.get("", [])
    wanted = {**granted, "": everywhere, "kappa-system": own}
    found = find_granted(render(*values))
    assert {name: sort(rules) for name, rules in found.items()} == {
        name: sort(rules) for name, rules in wanted.items()
    }


def sort(rules: list[Any]) -> list[str]:
    return sorted(json.dumps(rule, sort_keys=True) for rule in rules)


def test_by_default_no_secret_pod_or_role_is_within_reach_anywhere() -> None:
    reached = {(each.group, each.resource, each.verb) for each in expand(find_granted(render())[""])}
    assert {each for each in reached if each[0] != "kappa-platform.io"} == {
        ("", "namespaces", "get"),
        ("events.k8s.io", "events", "create"),
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "get"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "patch"),
    }


@pytest.mark.parametrize(
    ("values", "checks"), [((), True), (LISTED, True), (ALL, False), (NAMESPACED, False)]
)
def test_the_operator_checks_namespaces_where_its_permissions_depend_on_them(
    values: tuple[str, ...], checks: bool
) -> None:
    (container,) = find(render(*values), "Deployment")["kappa-operator"]["spec"]["template"]["spec"][
        "containers"
    ]
    environment = {each["name"]: each.get("value") for each in container["env"]}
    assert environment.get("KAPPA_NAMESPACE_ROLE") == ("kappa-namespace" if checks else None)
    assert environment["KAPPA_SERVICE_ACCOUNT"] == "kappa-operator"


@pytest.mark.parametrize("other", ["clusterWide=true", "enabledNamespaces={flights}"])
def test_a_list_of_watched_namespaces_goes_with_no_other_mode(other: str) -> None:
    with pytest.raises(LabError, match="watchNamespaces"):
        render(*NAMESPACED, other)


def test_administrators_of_a_namespace_may_bind_that_one_role() -> None:
    role = find(render(), "ClusterRole")["kappa-enable"]
    assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-admin"] == "true"
    assert role["rules"] == [
        {
            "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["clusterroles"],
            "resourceNames": ["kappa-namespace"],
            "verbs": ["bind"],
        }
    ]
