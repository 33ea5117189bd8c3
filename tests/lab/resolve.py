"""Resolves the alias of an output with kubectl, for readers that ask every second: it starts in a tenth of the time of `kappa resolve`."""

import json
from collections.abc import Callable
from typing import Any

from kappa_client import Alias, ResolveError, parse_alias
from kappa_crds.alias import resolve_alias
from kappa_crds.kinds import find_kind
from kappa_operator.cli.resolve import build_data, list_statuses
from lab.errors import LabError
from lab.kube import kubectl


def build_resolver(namespace: str, pipeline: str, topic: str) -> Callable[[], Alias]:
    """Return what resolves a topic of a Pipeline, by its name in the spec."""

    def resolve() -> Alias:
        # Pipelines come first: a move of one that was read is then known too.
        kinds = "pipelines.kappa-platform.io,reprocessings.kappa-platform.io"
        try:
            items: list[dict[str, Any]] = json.loads(kubectl("get", kinds, "-n", namespace, "-o", "json"))[
                "items"
            ]
        except (LabError, ValueError) as error:
            raise ResolveError(str(error)) from error
        found = {
            kind: [each for each in items if each["kind"] == kind] for kind in ("Pipeline", "Reprocessing")
        }
        writer = next((each for each in found["Pipeline"] if each["metadata"]["name"] == pipeline), None)
        if writer is None:
            raise ResolveError(f"pipeline {pipeline} is not there")
        statuses = list(list_statuses(found["Reprocessing"], pipeline))
        alias = resolve_alias(topic, find_kind("Pipeline").parse(writer).status, statuses)
        if alias is None:
            raise ResolveError(f"pipeline {pipeline} does not write {topic} yet")
        return parse_alias(build_data(alias))

    return resolve
