"""The chart lets the operator do what it does: all clusters in memory refuse what the chart's rules do not grant."""

import pytest

from fakes.permissions import Permission, PermittedCluster, expand, read_lease_rules, read_rules
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.leadership import Elector
from kappa_operator.errors import Refused

LEASE = ObjectRef("coordination.k8s.io/v1", "Lease", "kappa-system", "kappa-operator")


def build_role(verb: str, resource: str) -> dict[str, object]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "delays", "namespace": "shop"},
        "rules": [{"apiGroups": [""], "resources": [resource], "verbs": [verb]}],
    }  # fmt: skip


async def test_what_the_chart_does_not_grant_is_refused() -> None:
    with pytest.raises(Refused, match="list secrets"):
        await PermittedCluster().list_objects("v1", "Secret", "shop", {"app": "shop"})


async def test_a_list_of_all_pods_of_a_namespace_is_an_error() -> None:
    with pytest.raises(AssertionError, match="every Pod of shop"):
        await PermittedCluster().list_objects("v1", "Pod", "shop")


async def test_a_role_may_grant_only_what_the_operator_may_do() -> None:
    await PermittedCluster().apply(build_role("deletecollection", "pods"))
    with pytest.raises(Refused, match="secrets"):
        await PermittedCluster().apply(build_role("list", "secrets"))


async def test_the_lease_needs_just_the_permissions_that_the_chart_grants_for_it() -> None:
    for missing in expand(read_lease_rules()):
        cluster = PermittedCluster()
        cluster.permissions = expand(read_lease_rules()) - {missing}
        elector = Elector(cluster, LEASE, "one", lambda: 0.0)
        with pytest.raises(Refused, match=missing.verb):
            await take_twice(elector)
    cluster.permissions = expand(read_lease_rules())
    await take_twice(elector)
    assert elector.leading


async def take_twice(elector: Elector) -> None:
    await elector.attempt()
    await elector.attempt()


def test_no_secret_can_be_listed() -> None:
    granted = {each.verb for each in expand(read_rules()) if each.resource == "secrets"}
    assert granted == {"get", "create", "patch"}


def test_executors_are_the_only_reason_to_delete_many_objects_at_once() -> None:
    many = {each for each in expand(read_rules()) if each.verb == "deletecollection"}
    assert many == {Permission("", "pods", "deletecollection")}
