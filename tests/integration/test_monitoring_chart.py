"""What the chart ships for Prometheus and Grafana, and that it ships nothing unless it is asked for."""

import json

import pytest
import yaml

from kappa_monitoring import MONITORING
from kappa_operator.connect.objects import ROLE, ROLE_LABEL
from kappa_operator.endpoints import list_hosts
from lab.errors import LabError
from monitored.chart import Body, find, render

pytestmark = pytest.mark.clusterless

KINDS = ("PrometheusRule", "PodMonitor", "ServiceMonitor")


def test_nothing_is_shipped_unless_enabled() -> None:
    assert {body["kind"] for body in render()}.isdisjoint({*KINDS, "ConfigMap"})


def test_dashboards_are_config_maps_that_grafanas_sidecar_finds() -> None:
    shipped = find(render("dashboards.enabled=true"), "ConfigMap")
    made = {path.name: path.read_text() for path in (MONITORING / "dashboards").glob("*.json")}
    assert {name: text for body in shipped.values() for name, text in body["data"].items()} == made
    assert {body["metadata"]["labels"]["grafana_dashboard"] for body in shipped.values()} == {"1"}
    assert all(json.loads(text)["uid"] + ".json" == name for name, text in made.items())


def test_rules_are_those_that_were_tested() -> None:
    rules = find(
        render("monitoring.prometheusRule.enabled=true", "monitoring.labels.release=main"), "PrometheusRule"
    )
    made = {
        f"kappa-{path.stem}": yaml.load(path.read_text(), yaml.CSafeLoader)
        for path in (MONITORING / "generated").glob("*.yaml")
    }
    assert {name: body["spec"] for name, body in rules.items()} == made
    assert {body["metadata"]["labels"]["release"] for body in rules.values()} == {"main"}


def test_alerts_link_to_the_runbooks_where_people_read_them() -> None:
    shown = "https://wiki.example.com/kappa/runbooks"
    asked = ("monitoring.prometheusRule.enabled=true", f"monitoring.prometheusRule.runbooks={shown}")
    links = list_runbooks(find(render(*asked), "PrometheusRule"))
    before = list_runbooks(find(render(asked[0]), "PrometheusRule"))
    assert len(links) == len(before) > 40
    assert links == {name: f"{shown}/{link.rpartition('/')[2]}" for name, link in before.items()}
    for wrong in ("wiki.example.com", f"{shown}/"):
        with pytest.raises(LabError, match="runbooks"):
            render(asked[0], f"monitoring.prometheusRule.runbooks={wrong}")


def list_runbooks(rules: dict[str, Body]) -> dict[str, str]:
    """Return the link of each alert."""
    groups = [group for body in rules.values() for group in body["spec"]["groups"]]
    alerts = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    return {alert["alert"]: alert["annotations"]["runbook_url"] for alert in alerts}


@pytest.mark.parametrize(
    ("values", "selector"),
    [((), {"any": True}), (("watchNamespaces={shop,flights}",), {"matchNames": ["shop", "flights"]})],
    ids=["all namespaces", "some namespaces"],
)
def test_monitors_find_the_operator_and_drivers_and_keep_the_resources_namespace(
    values: tuple[str, ...], selector: Body
) -> None:
    bodies = render("monitoring.podMonitor.enabled=true", *values)
    operator = find(bodies, "ServiceMonitor")["kappa-operator"]["spec"]
    wanted = operator["selector"]["matchLabels"].items()
    chosen = [
        name for name, each in find(bodies, "Service").items() if wanted <= each["metadata"]["labels"].items()
    ]
    assert chosen == ["kappa-operator"]
    drivers = find(bodies, "PodMonitor")["kappa-pipelines"]["spec"]
    assert drivers["namespaceSelector"] == selector
    endpoints = [*operator["endpoints"], *drivers["podMetricsEndpoints"]]
    assert {each["honorLabels"] for each in endpoints} == {True}
    workers = find(bodies, "PodMonitor")["kappa-connect"]["spec"]
    assert workers["namespaceSelector"] == selector
    assert workers["selector"]["matchLabels"] == {ROLE_LABEL: ROLE}


def test_prometheus_verifies_the_operator_and_sends_its_own_token() -> None:
    bodies = render("monitoring.podMonitor.enabled=true", namespace="platform")
    (endpoint,) = find(bodies, "ServiceMonitor")["kappa-operator"]["spec"]["endpoints"]
    assert (endpoint["scheme"], endpoint["port"]) == ("https", "https")
    assert endpoint["bearerTokenFile"] == "/var/run/secrets/kubernetes.io/serviceaccount/token"
    assert endpoint["tlsConfig"] == {
        "serverName": "kappa-operator.platform.svc",
        "ca": {"secret": {"name": "kappa-operator-tls", "key": "ca.crt"}},
    }
    assert endpoint["tlsConfig"]["serverName"] in list_hosts("platform")
    assert "kappa-operator-tls" in find(bodies, "Secret")
    plain = render("monitoring.podMonitor.enabled=true", "secureMetrics=false")
    (endpoint,) = find(plain, "ServiceMonitor")["kappa-operator"]["spec"]["endpoints"]
    assert (endpoint["port"], "scheme" in endpoint) == ("http", False)


def test_cert_manager_makes_the_certificate_of_all_endpoints_where_it_is_enabled() -> None:
    bodies = render("admission.certManager.enabled=true")
    certificate = find(bodies, "Certificate")["kappa-operator"]["spec"]
    assert set(certificate["dnsNames"]) <= set(list_hosts("kappa-system"))
    assert len(certificate["dnsNames"]) == 3
    assert certificate["secretName"] not in find(bodies, "Secret")
    pod = find(bodies, "Deployment")["kappa-operator"]["spec"]["template"]["spec"]
    variables = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    assert (variables["KAPPA_TLS_DIR"], "KAPPA_TLS_SECRET" in variables) == ("/etc/kappa/tls", False)
    (volume,) = (each["secret"] for each in pod["volumes"] if each["name"] == "tls")
    assert volume["secretName"] == certificate["secretName"]
    (webhook,) = find(bodies, "ValidatingWebhookConfiguration").values()
    source = webhook["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
    assert source == "kappa-system/kappa-operator"
    assert "validatingwebhookconfigurations" not in json.dumps(find(bodies, "ClusterRole"))


def test_a_value_that_is_not_known_is_refused() -> None:
    with pytest.raises(LabError, match="podMonitors"):
        render("monitoring.podMonitors.enabled=true")


def test_the_alertmanager_endpoint_exists_if_enabled_and_needs_a_token() -> None:
    name = "kappa-operator-alerts"
    assert name not in find(render(), "Service")
    asked = ("alerts.enabled=true", "alerts.tokenSecretRef.name=told")
    (port,) = find(render(*asked), "Service")[name]["spec"]["ports"]
    assert (port["name"], port["port"]) == ("https", 443)
    pod = find(render(*asked), "Deployment")["kappa-operator"]["spec"]["template"]["spec"]
    (folder,) = (each["projected"]["sources"] for each in pod["volumes"] if each["name"] == "alerts")
    assert folder == [{"secret": {"name": "told", "items": [{"key": "token", "path": "token"}]}}]
    pod = find(render(*asked, "alerts.tlsSecretName=own"), "Deployment")["kappa-operator"]["spec"][
        "template"
    ]["spec"]
    (folder,) = (each["projected"]["sources"] for each in pod["volumes"] if each["name"] == "alerts")
    assert [each["secret"]["name"] for each in folder] == ["told", "own"]
    with pytest.raises(LabError, match="tokenSecretRef"):
        render("alerts.enabled=true")


def test_hosts_of_webhooks_are_none_unless_they_are_named() -> None:
    def get_hosts(*values: str) -> str:
        pod = find(render(*values), "Deployment")["kappa-operator"]["spec"]["template"]["spec"]
        variables = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
        found: str = variables["KAPPA_WEBHOOK_HOSTS"]
        return found

    assert not get_hosts()
    assert (
        get_hosts("operator.webhookHosts={hooks.example.com,*.corp:8443}") == "hooks.example.com,*.corp:8443"
    )
    with pytest.raises(LabError, match="webhookHosts"):
        render("operator.webhookHosts={https://hooks.example.com}")


def test_secrets_opt_in_and_nothing_is_sent_in_clear_unless_values_say_so() -> None:
    def read(*values: str) -> tuple[str | None, str | None]:
        pod = find(render(*values), "Deployment")["kappa-operator"]["spec"]["template"]["spec"]
        variables = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
        return variables["KAPPA_REQUIRE_OPT_IN"], variables["KAPPA_ALLOW_CLEAR_TEXT"]

    assert read() == ("true", "")
    assert read("secrets.requireOptIn=false", "secrets.allowClearText={*.svc,10.0.0.1:9092}") == (
        "false",
        "*.svc,10.0.0.1:9092",
    )
    with pytest.raises(LabError, match="allowClearText"):
        render("secrets.allowClearText={kafka*}")
