"""The chart lets the operator do what it does: all clusters in memory refuse what the chart's rules do not grant."""

import pytest

from fakes.permissions import Permission, PermittedCluster, expand, read_rules
from kappa_operator.errors import Refused


def build_role(verb: str, resource: str) -> dict[str, object]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "delays", "namespace": "shop"},
        "rules": [{"apiGroups": [""], "resources": [resource], "verbs": [verb]}],
    }  # fmt: skip


async def test_what_the_chart_does_not_grant_is_refused() -> None:
    with pytest.raises(Refused, match="list secrets"):
        await PermittedCluster().list_objects("v1", "Secret", "shop")


async def test_a_role_may_grant_only_what_the_operator_may_do() -> None:
    await PermittedCluster().apply(build_role("deletecollection", "pods"))
    with pytest.raises(Refused, match="secrets"):
        await PermittedCluster().apply(build_role("list", "secrets"))


def test_no_secret_can_be_listed() -> None:
    granted = {each.verb for each in expand(read_rules()) if each.resource == "secrets"}
    assert not granted & {"list", "watch"}


def test_executors_are_the_only_reason_to_delete_many_objects_at_once() -> None:
    many = {each for each in expand(read_rules()) if each.verb == "deletecollection"}
    assert many == {Permission("", "pods", "deletecollection")}
