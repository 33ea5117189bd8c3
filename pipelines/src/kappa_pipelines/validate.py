"""`kappa validate`: checks pipelines without a cluster, by the very code that a driver compiles them with.

Names, types, SQL, columns, event time, modes and watermarks are judged by Spark itself, on this machine. What only a
cluster knows (whether topics, secrets and stores are there) is for `kappa plan`.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kappa_crds.manifests import ManifestError, read_manifests
from kappa_pipelines.compile import Compiled, compile_revision
from kappa_pipelines.errors import DriverError
from kappa_pipelines.jars import JarError
from kappa_pipelines.local import build_local_revision
from kappa_pipelines.session import create_session

FAILED, UNUSABLE = 1, 2


def main(arguments: Sequence[str]) -> int:
    """Check the pipelines in the given files; return 0 if all are right, 1 if not, 2 where nothing can be checked."""
    parser = argparse.ArgumentParser(
        prog="kappa validate", description="Check pipelines as a driver would, without a cluster."
    )
    parser.add_argument("-f", "--filename", action="append", required=True, help="manifest file, or -")
    given = parser.parse_args(arguments)
    try:
        pipelines = list(read_pipelines(given.filename))
    except (ManifestError, OSError) as error:
        return _complain(str(error))
    if not pipelines:
        return _complain(f"there is no Pipeline in {', '.join(given.filename)}")
    print("starting Spark …", file=sys.stderr, flush=True)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    try:
        return max([_report(manifest) for manifest in pipelines])
    except JarError as error:
        return _complain(str(error))


def read_pipelines(files: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the manifests of pipelines; raise ManifestError naming the file that has something else in it."""
    for file in files:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
        try:
            manifests = list(read_manifests(text, "default"))
        except ManifestError as error:
            raise ManifestError(f"{file}: {error}") from error
        yield from (manifest for manifest in manifests if manifest["kind"] == "Pipeline")


def _report(manifest: dict[str, Any]) -> int:
    name = f"pipeline/{manifest['metadata']['name']}"
    try:
        revision = build_local_revision(manifest)
        spark = create_session(revision)
        spark.sparkContext.setLogLevel("ERROR")
        for left in spark.catalog.listTables():  # by the pipeline before
            spark.catalog.dropTempView(left.name)
        compiled = compile_revision(spark, revision)
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


def _complain(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return UNUSABLE
