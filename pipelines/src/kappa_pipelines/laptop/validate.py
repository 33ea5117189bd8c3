"""`kappa validate`: checks pipelines without a cluster, by the very code that a driver compiles them with.

Names, types, SQL, columns, event time, modes and watermarks are judged by Spark itself, on this machine. What only a
cluster knows (whether topics, secrets and stores are there) is for `kappa plan`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from kappa_pipelines.compile import Compiled, compile_revision
from kappa_pipelines.errors import DriverError
from kappa_pipelines.laptop.console import (
    FAILED,
    build_parser,
    complain,
    guard,
    name_pipeline,
    say,
    start_spark,
)
from kappa_pipelines.laptop.manifests import read_pipelines
from kappa_pipelines.laptop.revision import build_local_revision


def main(arguments: Sequence[str]) -> int:
    """Check the pipelines in the given files; return 0 if all are right, 1 if not, 2 where nothing can be checked."""
    parser = build_parser("validate", "Check pipelines as a driver would, without a cluster.")
    return guard(lambda: _validate(parser.parse_args(arguments).filename))


def _validate(files: list[str]) -> int:
    pipelines = list(read_pipelines(files))
    if not pipelines:
        return complain(f"there is no Pipeline in {', '.join(files)}")
    say("starting Spark …")
    return max([_report(manifest) for manifest in pipelines])


def _report(manifest: dict[str, Any]) -> int:
    name = name_pipeline(manifest)
    try:
        revision = build_local_revision(manifest)
        compiled = compile_revision(start_spark(revision), revision)
    except DriverError as error:
        print(f"{name}: {error.reason}: {error.message}", flush=True)
        return FAILED
    print(f"{name}: valid", *_describe(compiled), sep="\n  ", flush=True)
    return 0


def _describe(compiled: Compiled) -> Iterator[str]:
    """Yield a line for each sink: what it reads and where it writes."""
    for each in compiled.sinks:
        reads = ", ".join(each.sources)
        yield f"{reads} → {each.sink.from_} → topic {each.sink.topic} ({each.sink.mode})"
