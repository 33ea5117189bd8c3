"""Whom the chart lets ask the operator: nobody who is not named, and for nothing but the report."""

import json

from kappa_crds.kinds import KINDS
from kappa_operator.cli.report_read import PORT, SERVICE
from kappa_operator.cli.status_read import LEASE
from monitored.chart import find, render

TEAM = '{"kind": "Group", "name": "data-team", "apiGroup": "rbac.authorization.k8s.io"}'


def test_only_readers_may_request_the_report() -> None:
    assert "kappa-operator-reader" not in find(render(), "RoleBinding")


def test_a_subject_with_the_role_may_request_the_report_and_read_the_lease_and_nothing_else() -> None:
    bodies = render(*(f"readers[0].{field}={value}" for field, value in json.loads(TEAM).items()))
    binding = find(bodies, "RoleBinding")["kappa-operator-reader"]
    assert (binding["roleRef"]["name"], binding["subjects"]) == ("kappa-operator-reader", [json.loads(TEAM)])
    assert find(bodies, "Role")["kappa-operator-reader"]["rules"] == [
        {"apiGroups": [""], "resources": ["services/proxy"], "resourceNames": [f"{SERVICE}:{PORT}"], "verbs": ["get"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [LEASE], "verbs": ["get"]},
    ]  # fmt: skip


def test_the_service_leads_to_the_port_of_the_report() -> None:
    bodies = render()
    (port,) = find(bodies, "Service")[SERVICE]["spec"]["ports"]
    (container,) = find(bodies, "Deployment")[SERVICE]["spec"]["template"]["spec"]["containers"]
    assert port["name"] == PORT
    assert {each["name"]: each["containerPort"] for each in container["ports"]}[port["targetPort"]] == 8080


def test_readers_of_a_namespace_may_read_each_kind_of_the_platform() -> None:
    view = find(render(), "ClusterRole")["kappa-view"]
    assert view["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    (rule,) = view["rules"]
    assert set(rule["resources"]) == {kind.plural for kind in KINDS}
    assert set(rule["verbs"]) == {"get", "list", "watch"}
