"""The settings of the installed operator, which a plan needs: images and Java options are part of each revision."""

from collections.abc import Collection, Mapping
from typing import Any

from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.errors import KubernetesError
from kappa_operator.settings import Settings

_LABELS = {"app.kubernetes.io/name": "kappa-operator"}
_CONTAINER = "operator"
_ASSUMED = "the plan uses KAPPA_* of this environment, or the defaults"


async def find_settings(cluster: ApiCluster, namespaces: Collection[str]) -> tuple[Settings, str | None]:
    """Return the settings of the operator that watches the namespaces, or assumed ones and a note with the cause."""
    try:
        deployments = await cluster.list_objects("apps/v1", "Deployment", labels=_LABELS)
    except KubernetesError as error:
        note = f"the operator's settings cannot be read ({error.message}); {_ASSUMED}"
        return Settings.from_environment(), note
    for deployment in deployments:
        settings = Settings.from_environment(_read_environment(deployment))
        if not settings.watch_namespaces or set(namespaces) <= set(settings.watch_namespaces):
            return settings, None
    wanted = ", ".join(sorted(namespaces))
    return Settings.from_environment(), f"no operator found that watches {wanted}; {_ASSUMED}"


def _read_environment(deployment: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment variables that have a value in the manifest."""
    containers = deployment["spec"]["template"]["spec"]["containers"]
    variables: list[dict[str, Any]] = next(
        (c.get("env", []) for c in containers if c["name"] == _CONTAINER), []
    )
    return {each["name"]: each["value"] for each in variables if "value" in each}
