"""What the chart ships for Prometheus and Grafana, and that it ships nothing unless it is asked for."""

import json

import pytest
import yaml

from kappa_monitoring import MONITORING
from lab.errors import LabError
from monitored.chart import Body, find, render

KINDS = ("PrometheusRule", "PodMonitor")


def test_nothing_is_shipped_that_was_not_asked_for() -> None:
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
        f"kappa-{path.stem}": yaml.safe_load(path.read_text())
        for path in (MONITORING / "generated").glob("*.yaml")
    }
    assert {name: body["spec"] for name, body in rules.items()} == made
    assert {body["metadata"]["labels"]["release"] for body in rules.values()} == {"main"}


@pytest.mark.parametrize(
    ("values", "selector"),
    [((), {"any": True}), (("watchNamespaces={shop,flights}",), {"matchNames": ["shop", "flights"]})],
    ids=["all namespaces", "some namespaces"],
)
def test_monitors_find_the_operator_and_drivers_and_keep_the_resources_namespace(
    values: tuple[str, ...], selector: Body
) -> None:
    bodies = render("monitoring.podMonitor.enabled=true", *values)
    monitors = find(bodies, "PodMonitor")
    (pods,) = find(bodies, "Deployment").values()
    labels = pods["spec"]["template"]["metadata"]["labels"]
    chosen = monitors["kappa-operator"]["spec"]["selector"]["matchLabels"]
    assert chosen.items() <= labels.items()
    assert monitors["kappa-pipelines"]["spec"]["namespaceSelector"] == selector
    endpoints = [each for body in monitors.values() for each in body["spec"]["podMetricsEndpoints"]]
    assert {each["honorLabels"] for each in endpoints} == {True}


def test_a_value_that_is_not_known_is_refused() -> None:
    with pytest.raises(LabError, match="podMonitors"):
        render("monitoring.podMonitors.enabled=true")
