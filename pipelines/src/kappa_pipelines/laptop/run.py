"""`kappa run`: runs a pipeline on this machine and prints what its sinks would write.

Over a folder of files the input ends, so every window closes. Over the topics of a Kafka (`--data kafka://HOST:PORT`) it
reads to their present end, or with `--follow` runs until Ctrl-C or SIGTERM. Topics are never written.
"""

import shutil
import tempfile
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from kappa_crds.manifests import ManifestError
from kappa_crds.revision import Revision
from kappa_pipelines.errors import DriverError
from kappa_pipelines.laptop.console import FAILED, complain, guard, name_resource, say
from kappa_pipelines.laptop.data import read_batches
from kappa_pipelines.laptop.manifests import read_pipelines
from kappa_pipelines.laptop.revision import build_local_revision

_KAFKA = "kafka://"
_SMALL_BYTES = 64 * 2**20  # less is read before a JVM with full optimization has started


@dataclass(frozen=True)
class RunOptions:
    """Where the records come from, records of a source in a batch, rows to print, and whether to read new records."""

    data: str
    batch_size: int = 10_000
    rows: int = 20
    follow: bool = False


def main(files: list[str], **options: Any) -> int:
    """Run one pipeline; return 0 if it succeeded, 1 if it failed, 2 where it cannot be run."""
    given = RunOptions(**options)
    if given.follow and not given.data.startswith(_KAFKA):
        return complain("--follow needs --data kafka://HOST:PORT; a folder has an end")
    return guard(lambda: _run(files, given))


def _run(files: list[str], given: RunOptions) -> int:
    pipelines = list(read_pipelines(files))
    if len(pipelines) != 1:
        return complain(f"found {len(pipelines)} Pipelines in {', '.join(files)}; name one")
    folder = Path(tempfile.mkdtemp(prefix="kappa-run-"))
    try:
        _execute(build_local_revision(pipelines[0]), given, folder)
    except DriverError as error:
        print(f"{name_resource(pipelines[0])}: {error.reason}: {error.message}", flush=True)
        return FAILED
    except KeyboardInterrupt:
        say("stopped")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _execute(revision: Revision, given: RunOptions, folder: Path) -> None:
    if given.data.startswith(_KAFKA):
        from kappa_pipelines.laptop.execute import run_over_topics  # noqa: PLC0415 - as below

        servers = tuple(given.data.removeprefix(_KAFKA).rstrip("/").split(","))
        run_over_topics(revision, servers, given.rows, folder, follow=given.follow)
        return
    data = Path(given.data)
    if not data.is_dir():
        raise ManifestError(f"{data} is not a folder")
    batches = read_batches(data, revision.spec, given.batch_size)
    first = next(batches, {})  # reports a missing file before Spark starts
    from kappa_pipelines.laptop.execute import run_over_files  # noqa: PLC0415 - loads Spark, which takes a second

    is_small = sum(file.stat().st_size for file in data.iterdir()) < _SMALL_BYTES
    run_over_files(revision, chain([first], batches), given.rows, folder, quick=is_small)
