"""Whose settings `kappa plan` assumes."""

from typing import Any

import pytest

from fakes.cluster import FakeCluster
from kappa_operator.cli.installation import find_settings
from kappa_operator.errors import Refused


class Closed(FakeCluster):
    """A cluster that shows no Deployments, as to most users."""

    async def list_objects(self, *arguments: Any, **named: Any) -> list[dict[str, Any]]:
        raise Refused("deployments.apps is forbidden")


async def install(cluster: FakeCluster, name: str, **variables: str) -> None:
    env: list[dict[str, Any]] = [{"name": f"KAPPA_{key}", "value": value} for key, value in variables.items()]
    env.append({"name": "KAPPA_IDENTITY", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
    containers = [{"name": "beside"}, {"name": "operator", "env": env}]
    labels = {"app.kubernetes.io/name": "kappa-operator"}
    await cluster.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "kappa-system", "labels": labels},
            "spec": {"template": {"spec": {"containers": containers}}},
        }
    )


async def test_the_settings_are_those_of_the_operator_that_watches_the_namespaces() -> None:
    cluster = FakeCluster()
    await install(cluster, "one", RUNTIME_IMAGE="a:1", WATCH_NAMESPACES="x,y")
    await install(cluster, "two", RUNTIME_IMAGE="b:2", WATCH_NAMESPACES="z", JAVA_OPTIONS="-Xlog:gc")
    settings, note = await find_settings(cluster, {"z"})
    assert (settings.runtime_image, settings.java_options, note) == ("b:2", "-Xlog:gc", None)
    settings, note = await find_settings(cluster, {"x", "y"})
    assert (settings.runtime_image, note) == ("a:1", None)


async def test_an_operator_that_watches_all_is_found() -> None:
    cluster = FakeCluster()
    await install(cluster, "all", RUNTIME_IMAGE="a:1", WATCH_NAMESPACES="")
    settings, note = await find_settings(cluster, {"x", "y"})
    assert (settings.runtime_image, note) == ("a:1", None)


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        (FakeCluster(), "no operator found that watches x, y; the plan uses KAPPA_*"),
        (Closed(), "deployments.apps is forbidden"),
    ],
    ids=["none", "forbidden"],
)
async def test_without_an_operator_the_plan_lists_its_assumptions(
    cluster: FakeCluster, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAPPA_RUNTIME_IMAGE", "mine:1")
    settings, note = await find_settings(cluster, {"x", "y"})
    assert settings.runtime_image == "mine:1"
    assert says in (note or "")
