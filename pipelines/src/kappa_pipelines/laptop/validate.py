"""`kappa validate`: checks resources without a cluster, and compiles pipelines by the code of a driver.

First the rules of the API server are checked, for resources of every kind. Then Spark checks names, types, SQL, columns, event time,
modes and watermarks of pipelines on this machine. `kappa plan` checks what needs a cluster (topics, Secrets and stores).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kappa_crds import API_VERSION
from kappa_pipelines.laptop.console import Report, complain, guard, name_resource, report_each
from kappa_pipelines.laptop.manifests import read_resources
from kappa_pipelines.laptop.revision import check_manifest

if TYPE_CHECKING:  # Spark takes a second to load; the rules of the API server do not need it
    from pyspark.sql import SparkSession

    from kappa_crds.revision import Revision
    from kappa_pipelines.plan.compile import Compiled


def main(files: list[str], report: Report) -> int:
    """Check the resources in the files; return 0 if all are right, 1 if not, 2 where nothing can be checked."""

    def check_files() -> int:
        manifests = list(read_resources(files))
        if not manifests:
            return complain(f"no resource of {API_VERSION} found in {', '.join(files)}")
        return report_each(manifests, _check, report)

    return guard(check_files)


def _check(manifest: dict[str, Any]) -> list[str]:
    check_manifest(manifest)
    if manifest["kind"] != "Pipeline":
        return [f"{name_resource(manifest)}: valid"]
    from kappa_pipelines.laptop.each import describe_pipeline  # noqa: PLC0415 - see above

    return describe_pipeline(manifest, _describe)


def _describe(name: str, spark: "SparkSession", revision: "Revision", compiled: "Compiled") -> Iterator[str]:
    """Yield a line for the pipeline and one for each sink: what it reads and where it writes."""
    yield f"{name}: valid"
    for each in compiled.sinks:
        reads = ", ".join(each.sources)
        mode = each.sink.mode if revision.spec.trigger.real_time is None else "in real time"
        yield f"  {reads} → {each.sink.from_} → topic {each.sink.topic} ({mode})"
