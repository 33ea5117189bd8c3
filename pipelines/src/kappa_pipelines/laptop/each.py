"""Reports on each resource in the files of a command. A manifest that the API server would refuse is reported before Spark is loaded."""

from collections.abc import Callable
from typing import Any

from kappa_crds import API_VERSION
from kappa_pipelines.errors import DriverError
from kappa_pipelines.laptop.console import FAILED, Report, complain, guard, name_resource
from kappa_pipelines.laptop.manifests import read_resources
from kappa_pipelines.laptop.revision import check_manifest

Describe = Callable[[dict[str, Any]], list[str]]
"""Returns the lines about a resource that the API server accepts; DriverError if it is invalid."""


def report_each(files: list[str], report: Report, describe: Describe, kind: str | None = None) -> int:
    """Report on each resource, or on those of one kind; return 0, 1 if one is invalid, 2 if there is none."""

    def report_files() -> int:
        manifests = [each for each in read_resources(files) if kind in (None, each["kind"])]
        if not manifests:
            return complain(f"no {kind or f'resource of {API_VERSION}'} found in {', '.join(files)}")
        results = [_report_one(each, describe, report) for each in manifests]
        return 0 if all(results) else FAILED

    return guard(report_files)


def _report_one(manifest: dict[str, Any], describe: Describe, report: Report) -> bool:
    """Report the lines about a resource, or what is wrong with it; return whether it is valid."""
    name = name_resource(manifest)
    try:
        check_manifest(manifest)
        lines = describe(manifest)
    except DriverError as error:
        found = {"resource": name, "valid": False, "reason": error.reason, "message": error.message}
        report([f"{name}: {error.reason}: {error.message}"], found)
        return False
    report(lines, {"resource": name, "valid": True, "lines": lines})
    return True
