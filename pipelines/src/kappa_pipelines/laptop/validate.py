"""`kappa validate`: checks pipelines without a cluster, by the very code that a driver compiles them with.

Names, types, SQL, columns, event time, modes and watermarks are judged by Spark itself, on this machine. What only a
cluster knows (whether topics, secrets and stores are there) is for `kappa plan`.
"""

from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession

from kappa_crds.revision import Revision
from kappa_pipelines.laptop.each import describe_each
from kappa_pipelines.plan.compile import Compiled


def main(arguments: Sequence[str]) -> int:
    """Check the pipelines in the given files; return 0 if all are right, 1 if not, 2 where nothing can be checked."""
    description = "Check pipelines as a driver would, without a cluster."
    return describe_each("validate", description, arguments, _describe)


def _describe(name: str, spark: SparkSession, revision: Revision, compiled: Compiled) -> Iterator[str]:
    """Yield a line for the pipeline and one for each sink: what it reads and where it writes."""
    yield f"{name}: valid"
    for each in compiled.sinks:
        reads = ", ".join(each.sources)
        mode = each.sink.mode if revision.spec.trigger.real_time is None else "in real time"
        yield f"  {reads} → {each.sink.from_} → topic {each.sink.topic} ({mode})"
