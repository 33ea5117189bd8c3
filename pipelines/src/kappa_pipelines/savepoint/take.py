"""Takes a savepoint of a checkpoint, while its queries run or when they have ended.

The last committed batch of each query is taken. The files of its state never change and Spark keeps those of the last
hundred batches, so they can be copied while batches go on; if that takes longer than those hundred, files are missing, and it
is tried again with a newer batch.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyspark

from kappa_crds.revision import Revision
from kappa_pipelines.checkpoint.folder import LocalFolder
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.savepoint.manifest import KeptFile, Manifest
from kappa_pipelines.savepoint.query import find_files, read_points
from kappa_pipelines.savepoint.store import SavepointStore

_TRIES = 3
_IMMUTABLE = re.compile(r"/state/.*(\.zip|\.changelog|\.sst|\.crc)$")


@dataclass(frozen=True)
class Taken:
    """A savepoint, and how much of it had to be copied: files and bytes."""

    manifest: Manifest
    copied_files: int
    copied_bytes: int


def take_savepoint(
    files: LocalFolder,
    revision: Revision,
    generation: int,
    store: SavepointStore,
    name: str,
    *,
    note: Callable[[int, int], None] = lambda done, of: None,
    check: Callable[[], None] = lambda: None,
) -> Taken:
    """Take a savepoint of all queries; it exists when this returns. One that exists already is left as it is.

    `note` is told how many of how many files are kept. `check` raises where this driver must not write any more.

    LostDataError names a file that the checkpoint lacks, UnavailableError says what cannot be read or written.
    """
    if name in store.names():
        return Taken(store.read(name), 0, 0)
    known = _find_known(store, files.root)
    sinks = [sink.name for sink in revision.spec.sinks]
    for left in reversed(range(_TRIES)):
        try:
            points = read_points(files, sinks)
            kept, copied = _put_all(files, store, list(find_files(files, sinks, points)), known, note)
            break
        except LostDataError:
            if not left:
                raise
    manifest = Manifest(
        name=name,
        namespace=revision.namespace,
        pipeline=revision.pipeline,
        revision=revision.name,
        generation=generation,
        created=time.time(),
        checkpoint=files.root,
        shuffle_partitions=revision.tuning.shuffle_partitions,
        versions={"spark": pyspark.__version__},
        topics=revision.topics,
        spec=revision.spec.model_dump(mode="json", by_alias=True, exclude_unset=True),
        queries=points,
        files=tuple(kept),
    )
    check()
    store.keep(manifest)
    return Taken(manifest, len(copied), sum(file.size for file in copied))


def _find_known(store: SavepointStore, checkpoint: str) -> Mapping[str, KeptFile]:
    """Return the files of state in the latest savepoint of the same checkpoint: they are the same, so they are not read again."""
    for manifest in store.read_all():
        if manifest.checkpoint == checkpoint:
            return {file.path: file for file in manifest.files if _IMMUTABLE.search(file.path)}
    return {}


def _put_all(
    files: LocalFolder,
    store: SavepointStore,
    paths: Sequence[str],
    known: Mapping[str, KeptFile],
    note: Callable[[int, int], None],
) -> tuple[list[KeptFile], list[KeptFile]]:
    """Keep all files; return them, and those among them that were copied."""
    kept: list[KeptFile] = []
    copied: list[KeptFile] = []
    for number, path in enumerate(paths):
        note(number, len(paths))
        file = known.get(path)
        if file is None or not store.has(file):
            file, is_new = store.put(files, path)
            copied += [file] if is_new else []
        kept.append(file)
    note(len(paths), len(paths))
    return kept, copied
