"""`kappa explain`: the graph of a pipeline, its state with its bounds, and the guarantees of its sinks."""

from typing import Any

from kappa_pipelines.laptop.console import Report
from kappa_pipelines.laptop.each import report_each


def main(files: list[str], report: Report) -> int:
    """Explain the pipelines in the files; return 0, 1 if one is invalid, 2 if none can be explained."""
    return report_each(files, report, _explain, kind="Pipeline")


def _explain(manifest: dict[str, Any]) -> list[str]:
    from kappa_pipelines.laptop.compiled import describe_pipeline  # noqa: PLC0415 - loads Spark
    from kappa_pipelines.laptop.explanation import explain  # noqa: PLC0415 - as above

    return describe_pipeline(manifest, explain)
