"""What an installation does not allow starts no driver, and the condition names it."""

from dataclasses import replace
from typing import Any

import pytest

from fakes.cluster import Body
from fakes.context import Operator
from kappa_operator.pod_rules import is_allowed
from kappa_operator.settings import Settings
from monitored.chart import find, render
from unit.control.lives import PIPELINE, SPEC, Life, write

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def read_defaults(*values: str) -> Settings:
    """Return the settings of the operator that the chart gives by default, and with other values."""
    (deployment,) = (each for each in find(render(*values), "Deployment").values())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return Settings.from_environment(
        {each["name"]: each["value"] for each in container["env"] if "value" in each}
    )


async def start(settings: Settings, labels: dict[str, str], **spec: Any) -> Operator:
    life = Life()
    life.operator.cluster.put(build_namespace(labels))
    life.operator.context = replace(life.operator.context, settings=settings)
    await life.prepare()
    write({**SPEC, **spec})(life)
    await life.settle()
    return life.operator


def build_namespace(labels: dict[str, str]) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "shop", "namespace": "", "labels": labels},
    }


DEFAULTS = read_defaults()


@pytest.mark.parametrize(
    ("settings", "spec", "named"),
    [
        (replace(DEFAULTS, allowed_images=("registry.example.com/data/*",)), {"image": "evil/image:1"}, "evil/image:1"),
        (DEFAULTS, {"sparkConf": {"spark.plugins": "x"}}, "spark.plugins"),
        (DEFAULTS, {"sparkConf": {"spark.jars": "x"}}, "spark.jars"),
        (DEFAULTS, {"sparkConf": {"spark.extraListeners": "x"}}, "spark.extraListeners"),
        (DEFAULTS, {"sparkConf": {"spark.executorEnv.LD_PRELOAD": "x"}}, "LD_PRELOAD"),
        (DEFAULTS, {"sparkConf": {"spark.executor.extraJavaOptions": "-agentlib:jdwp"}}, "extraJavaOptions"),
        (DEFAULTS, {"sparkConf": {"spark.ui.enabled": "true"}}, "spark.ui.enabled"),
        (DEFAULTS, {"sparkConf": {"spark.sql.extensions": "x"}}, "spark.sql.extensions"),
        (DEFAULTS, {"sparkConf": {"spark.sql.catalog.x": "y"}}, "spark.sql.catalog.x"),
    ],
)  # fmt: skip
async def test_what_is_not_on_the_lists_starts_no_driver(
    settings: Settings, spec: dict[str, Any], named: str
) -> None:
    operator = await start(settings, RESTRICTED, **spec)
    status, reason, message = operator.get_condition(PIPELINE)
    assert (status, reason) == ("False", "NotAllowed")
    assert named in message
    assert operator.cluster.find("v1", "Pod") == []


async def test_what_is_on_the_lists_runs() -> None:
    operator = await start(
        DEFAULTS, RESTRICTED, sparkConf={"spark.sql.adaptive.enabled": "false"}, image="our/image:1"
    )
    assert operator.get_condition(PIPELINE)[0] == "True"


@pytest.mark.parametrize("labels", [{}, {"pod-security.kubernetes.io/enforce": "baseline"}])
async def test_a_namespace_that_allows_more_than_restricted_pods_runs_no_pipeline(
    labels: dict[str, str],
) -> None:
    operator = await start(DEFAULTS, labels)
    assert operator.get_condition(PIPELINE)[:2] == ("False", "NamespaceNotRestricted")
    assert operator.cluster.find("v1", "Pod") == []


async def test_an_installation_can_leave_the_standard_of_namespaces_to_the_api_server() -> None:
    operator = await start(replace(DEFAULTS, require_restricted=False), {})
    assert operator.get_condition(PIPELINE)[0] == "True"


def test_a_pattern_with_an_exclamation_mark_wins() -> None:
    assert is_allowed("spark.sql.ansi.enabled", ("spark.sql.*", "!spark.sql.catalog.*"))
    assert not is_allowed("spark.sql.catalog.x", ("spark.sql.*", "!spark.sql.catalog.*"))
    assert not is_allowed("anything", ("!*",))
