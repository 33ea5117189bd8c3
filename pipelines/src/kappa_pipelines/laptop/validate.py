"""`kappa validate`: checks resources without a cluster, and compiles pipelines by the code of a driver.

First the rules of the API server are checked, for resources of every kind. Then Spark checks names, types, SQL, columns, event time,
modes and watermarks of pipelines on this machine. `kappa plan` checks what needs a cluster (topics, Secrets and stores).
"""

from typing import Any

from kappa_pipelines.laptop.console import Report, name_resource
from kappa_pipelines.laptop.each import report_each


def main(files: list[str], report: Report) -> int:
    """Check the resources in the files; return 0 if all are right, 1 if not, 2 where nothing can be checked."""
    return report_each(files, report, _check)


def _check(manifest: dict[str, Any]) -> list[str]:
    if manifest["kind"] != "Pipeline":
        return [f"{name_resource(manifest)}: valid"]
    from kappa_pipelines.laptop.compiled import describe_pipeline, describe_sinks  # noqa: PLC0415 - loads Spark

    return describe_pipeline(manifest, describe_sinks)
