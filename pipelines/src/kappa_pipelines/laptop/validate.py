"""`kappa validate`: checks resources without a cluster, and compiles pipelines by the code of a driver.

First the rules of the API server are checked, for resources of every kind. Then Spark checks names, types, SQL, columns, event time,
modes and watermarks of pipelines on this machine. `kappa plan` checks what needs a cluster (topics, Secrets and stores).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kappa_pipelines.laptop.console import Report, name_resource
from kappa_pipelines.laptop.each import report_each

if TYPE_CHECKING:  # Spark takes a second to load; the rules of the API server do not need it
    from pyspark.sql import SparkSession

    from kappa_crds.revision import Revision
    from kappa_pipelines.plan.compile import Compiled


def main(files: list[str], report: Report) -> int:
    """Check the resources in the files; return 0 if all are right, 1 if not, 2 where nothing can be checked."""
    return report_each(files, report, _check)


def _check(manifest: dict[str, Any]) -> list[str]:
    if manifest["kind"] != "Pipeline":
        return [f"{name_resource(manifest)}: valid"]
    from kappa_pipelines.laptop.compiled import describe_pipeline  # noqa: PLC0415 - see above

    return describe_pipeline(manifest, _describe)


def _describe(name: str, spark: "SparkSession", revision: "Revision", compiled: "Compiled") -> Iterator[str]:
    """Yield a line for the pipeline and one for each sink: what it reads and where it writes."""
    yield f"{name}: valid"
    for each in compiled.sinks:
        reads = ", ".join(each.sources)
        mode = each.sink.mode if revision.spec.trigger.real_time is None else "in real time"
        yield f"  {reads} → {each.sink.from_} → topic {each.sink.target.topic} ({mode})"
