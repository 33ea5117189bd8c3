"""What the chart makes of its values, without a cluster."""

import copy
from functools import cache
from typing import Any

import yaml

from lab.paths import BIN, REPOSITORY
from lab.shell import run

CHART = REPOSITORY / "charts" / "kappa"
Body = dict[str, Any]


def render(*values: str, namespace: str = "kappa-system") -> list[Body]:
    """Return the objects of a release; raise LabError with Helm's words."""
    return copy.deepcopy(_render(values, namespace))


@cache
def _render(values: tuple[str, ...], namespace: str) -> list[Body]:
    flags = [f"--namespace={namespace}", "--kube-version=1.34.0", *(f"--set={value}" for value in values)]
    text = run([BIN / "helm", "template", "kappa", CHART, *flags])
    return [body for body in yaml.load_all(text, yaml.CSafeLoader) if body]


def find(bodies: list[Body], kind: str) -> dict[str, Body]:
    """Return the objects of a kind by their names."""
    return {body["metadata"]["name"]: body for body in bodies if body["kind"] == kind}
