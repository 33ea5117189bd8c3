"""Whom the chart lets ask the operator: nobody who is not named, and for nothing but the report."""

import json

import pytest

from kappa_crds.kinds import KINDS
from kappa_operator.cli.status_read import LEASE
from kappa_operator.report.address import PLAIN_PORT, PORT, READER_ACCOUNT, SERVICE
from monitored.chart import find, render

pytestmark = pytest.mark.clusterless

TEAM = '{"kind": "Group", "name": "data-team", "apiGroup": "rbac.authorization.k8s.io"}'


def test_only_readers_may_request_the_report() -> None:
    assert "kappa-operator-reader" not in find(render(), "RoleBinding")


def test_a_subject_with_the_role_may_request_the_report_and_read_the_lease_and_nothing_else() -> None:
    bodies = render(*(f"readers[0].{field}={value}" for field, value in json.loads(TEAM).items()))
    binding = find(bodies, "RoleBinding")["kappa-operator-reader"]
    assert (binding["roleRef"]["name"], binding["subjects"]) == ("kappa-operator-reader", [json.loads(TEAM)])
    assert find(bodies, "Role")["kappa-operator-reader"]["rules"] == [
        {"apiGroups": [""], "resources": ["services/proxy"], "resourceNames": [f"https:{SERVICE}:{PORT}"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": [READER_ACCOUNT], "verbs": ["create"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [LEASE], "verbs": ["get"]},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "name", "number"),
    [((), PORT, 8444), (("secureMetrics=false",), PLAIN_PORT, 8080)],
    ids=["with TLS", "without"],
)
def test_the_service_leads_to_the_port_of_the_report(values: tuple[str, ...], name: str, number: int) -> None:
    bodies = render(*values)
    (port,) = find(bodies, "Service")[SERVICE]["spec"]["ports"]
    pod = find(bodies, "Deployment")[SERVICE]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert port["name"] == name
    assert {each["name"]: each["containerPort"] for each in container["ports"]}[port["targetPort"]] == number
    assert pod["metadata"]["annotations"]["prometheus.io/port"] == str(number)
    assert (READER_ACCOUNT in find(bodies, "ServiceAccount")) == (name == PORT)


def test_the_account_of_readers_may_get_the_report_and_nothing_else() -> None:
    bodies = render()
    bindings = [
        each
        for kind in ("RoleBinding", "ClusterRoleBinding")
        for each in find(bodies, kind).values()
        if READER_ACCOUNT in {subject["name"] for subject in each["subjects"]}
    ]
    assert [each["roleRef"]["name"] for each in bindings] == ["kappa-operator-report"]
    assert find(bodies, "Role")["kappa-operator-report"]["rules"] == [
        {"apiGroups": ["kappa-platform.io"], "resources": ["reports"], "verbs": ["get"]}
    ]


def test_prometheus_may_read_metrics_where_a_value_names_its_account() -> None:
    account = {"kind": "ServiceAccount", "name": "prometheus", "namespace": "monitoring"}
    bodies = render(*(f"monitoring.readers[0].{field}={value}" for field, value in account.items()))
    binding = find(bodies, "ClusterRoleBinding")["kappa-system.kappa-metrics-reader"]
    assert (binding["roleRef"]["name"], binding["subjects"]) == ("kappa-metrics-reader", [account])
    role = find(bodies, "ClusterRole")["kappa-metrics-reader"]
    assert role["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    assert "kappa-system.kappa-metrics-reader" not in find(render(), "ClusterRoleBinding")


def test_readers_of_a_namespace_may_read_each_kind_of_the_platform() -> None:
    view = find(render(), "ClusterRole")["kappa-view"]
    assert view["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    (rule,) = view["rules"]
    assert set(rule["resources"]) == {kind.plural for kind in KINDS}
    assert set(rule["verbs"]) == {"get", "list", "watch"}
