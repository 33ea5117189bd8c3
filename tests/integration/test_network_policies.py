"""The chart's and the operator's NetworkPolicies are valid for a real API server, and are there only where the values enable them."""

import json
from typing import Any

import pytest

from integration.apiserver import ApiServer
from kappa_operator.engine.network import KIND, Network
from kappa_operator.pipeline.network import build_policies
from kappa_operator.pipeline.revision import build_revision
from lab.errors import LabError
from monitored.chart import find, render
from unit.control.pipelines import DEPENDENCIES, IMAGES, pipeline

ALERTS = ("alerts.enabled=true", "alerts.tokenSecretRef.name=token")
PODS = "networkPolicies.podCidrs={10.244.0.0/16,fd00:10::/32}"
VARIABLE = "KAPPA_NETWORK_POLICIES"


def read_variable(bodies: list[dict[str, Any]]) -> str:
    (container,) = find(bodies, "Deployment")["kappa-operator"]["spec"]["template"]["spec"]["containers"]
    return str(next(each["value"] for each in container["env"] if each["name"] == VARIABLE))


def test_the_values_of_the_chart_are_those_that_the_operator_reads() -> None:
    network = Network.parse(read_variable(render(PODS)), "kappa-system")
    assert network is not None
    assert network.inside == ("169.254.0.0/16", "fd00:ec2::/32", "10.244.0.0/16", "fd00:10::/32")
    assert network.dns == (53, 5353)
    assert network.prometheus[0]["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}


def test_with_policies_disabled_there_are_none() -> None:
    bodies = render("networkPolicies.enabled=false")
    assert find(bodies, KIND) == {}
    assert Network.parse(read_variable(bodies), "kappa-system") is None


def find_sources(policy: dict[str, Any], port: int) -> list[list[Any] | None]:
    """Return the peers that may connect to the port; None for anybody."""
    rules = policy["spec"]["ingress"]
    return [rule.get("from") for rule in rules if port in (each["port"] for each in rule["ports"])]


def test_only_alertmanager_reaches_the_port_of_alerts() -> None:
    policy = find(render(*ALERTS), KIND)["kappa-operator"]
    ((peer,),) = find_sources(policy, 8082)  # type: ignore[misc]
    assert peer["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "alertmanager"}}
    assert find_sources(find(render(), KIND)["kappa-operator"], 8082) == []


def test_pods_do_not_reach_the_report_where_their_addresses_are_known() -> None:
    (sources,) = find_sources(find(render(PODS), KIND)["kappa-operator"], 8444)
    blocks = [peer["ipBlock"] for peer in sources or () if "ipBlock" in peer]
    assert [block["cidr"] for block in blocks] == ["0.0.0.0/0", "::/0"]
    assert "10.244.0.0/16" in blocks[0]["except"]
    assert "fd00:10::/32" in blocks[1]["except"]


def test_the_api_server_may_be_named() -> None:
    named = "networkPolicies.apiServer.peers[0].ipBlock.cidr=10.0.0.0/28"
    policy = find(render(named), KIND)["kappa-operator"]
    assert find_sources(policy, 8443) == [[{"ipBlock": {"cidr": "10.0.0.0/28"}}]]
    (sources,) = find_sources(policy, 8444)
    assert "0.0.0.0/0" not in json.dumps(sources)


def test_a_range_that_is_none_is_refused_by_the_schema() -> None:
    with pytest.raises(LabError, match="podCidrs"):
        render("networkPolicies.podCidrs={pods}")


@pytest.mark.parametrize("values", [(), (*ALERTS, PODS), ("networkPolicies.operator.openEgress=false",)])
def test_an_api_server_accepts_the_policies_of_the_chart(server: ApiServer, values: tuple[str, ...]) -> None:
    policies = find(render(*values, namespace="default"), KIND)
    assert policies
    for body in policies.values():
        accept(server, body)


def test_an_api_server_accepts_the_policies_of_a_pipeline(server: ApiServer) -> None:
    network = Network.parse(read_variable(render(PODS)), "kappa-system")
    resource = pipeline({"resources": {"executors": {"count": 2}}})
    policies = build_policies(resource, (build_revision(resource, DEPENDENCIES, IMAGES),), network)
    assert len(policies) == 2
    for body in policies:
        accept(server, body)


def accept(server: ApiServer, body: dict[str, Any]) -> None:
    body["metadata"]["namespace"] = server.namespace
    flags = ("--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
    server.kubectl("apply", *flags, stdin=json.dumps(body))
