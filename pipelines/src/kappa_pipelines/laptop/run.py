"""`kappa run`: runs a pipeline on this machine and prints what its sinks would write.

Over a folder of files the input ends, so every window closes. Over the topics of a Kafka (`--data kafka://HOST:PORT`) it
reads to their present end, or with `--follow` runs until Ctrl-C or SIGTERM. Topics are never written.
"""

import tempfile
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from kappa_crds.manifests import ManifestError
from kappa_crds.revision import Revision
from kappa_pipelines.errors import DriverError
from kappa_pipelines.laptop.console import FAILED, complain, guard, name_resource, say
from kappa_pipelines.laptop.data import read_batches
from kappa_pipelines.laptop.manifests import read_pipelines
from kappa_pipelines.laptop.revision import build_local_revision

_KAFKA = "kafka://"
_SMALL_BYTES = 64 * 2**20  # less is read before a JVM with full optimization has started


def main(
    files: list[str], *, data: str, batch_size: int = 10_000, rows: int = 20, follow: bool = False
) -> int:
    """Run one pipeline; return 0 if it succeeded, 1 if it failed, 2 where it cannot be run.

    `batch_size` is in records of each source. At most `rows` rows of each sink are printed. `follow` reads new records of topics.
    """
    is_kafka = data.startswith(_KAFKA)
    if follow and not is_kafka:
        return complain("--follow needs --data kafka://HOST:PORT; a folder has an end")

    def execute(revision: Revision, folder: Path) -> None:
        if not is_kafka:
            _run_over_folder(revision, Path(data), batch_size, rows, folder)
            return
        from kappa_pipelines.laptop.execute import run_over_topics  # noqa: PLC0415 - as below

        servers = tuple(data.removeprefix(_KAFKA).rstrip("/").split(","))
        run_over_topics(revision, servers, rows, folder, follow=follow)

    return guard(lambda: _run(files, execute))


def _run(files: list[str], execute: Callable[[Revision, Path], None]) -> int:
    pipelines = list(read_pipelines(files))
    if len(pipelines) != 1:
        return complain(f"found {len(pipelines)} Pipelines in {', '.join(files)}; name one")
    try:
        with tempfile.TemporaryDirectory(prefix="kappa-run-", ignore_cleanup_errors=True) as folder:
            execute(build_local_revision(pipelines[0]), Path(folder))
    except DriverError as error:
        print(f"{name_resource(pipelines[0])}: {error.reason}: {error.message}", flush=True)
        return FAILED
    except KeyboardInterrupt:
        say("stopped")
    return 0


def _run_over_folder(revision: Revision, data: Path, batch_size: int, rows: int, folder: Path) -> None:
    if not data.is_dir():
        raise ManifestError(f"{data} is not a folder")
    batches = read_batches(data, revision.spec, batch_size)
    first = next(batches, {})  # reports a missing file before Spark starts
    from kappa_pipelines.laptop.execute import run_over_files  # noqa: PLC0415 - loads Spark, which takes a second

    is_small = sum(file.stat().st_size for file in data.iterdir()) < _SMALL_BYTES
    run_over_files(revision, chain([first], batches), rows, folder, quick=is_small)
