"""Finds the files of a checkpoint that belong to one committed batch of a query."""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.fence.fence import INTERNAL_FOLDER
from kappa_pipelines.checkpoint.format.offsets import (
    Entry,
    nest_offsets,
    parse_entry,
    read_committed_batch,
)
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.savepoint.manifest import QueryPoint
from kappa_pipelines.savepoint.state import (
    CHECKSUM,
    Version,
    find_state_files,
    parse_lineage,
    parse_tables,
    unpack_head,
)

_CODEC, _DEFAULT_CODEC = "spark.sql.streaming.stateStore.compression.codec", "lz4"
_HEAD_BYTES = 2**18
"""Bytes of a changelog to read: more than its lineage and a block of the usual size."""
Run = Callable[..., Iterable[Any]]
"""`map`, or the parallel `map` of a pool."""


def read_point(files: Folder, sink: str) -> QueryPoint | None:
    """Return the last committed batch of a sink's query; None before the first."""
    batch = read_committed_batch(files, sink)
    if batch < 0:
        return None
    commit = _read_entry(files, f"{sink}/commits/{batch}")
    offsets = parse_entry(_expect(files, f"{sink}/offsets/{batch}")).offsets
    return QueryPoint(
        sink=sink,
        id=str(json.loads(_expect(files, f"{sink}/metadata"))["id"]),
        batch=batch,
        offsets={source: nest_offsets(found) for source, found in offsets.items()},
        state_ids=commit.get("stateUniqueIds") or {},
    )


def read_points(files: Folder, sinks: Iterable[str]) -> tuple[QueryPoint, ...]:
    """Return the last committed batch of each sink's query; queries without one are left out."""
    points = (read_point(files, sink) for sink in sinks)
    return tuple(point for point in points if point is not None)


def find_files(
    files: Folder, sinks: Iterable[str], points: Iterable[QueryPoint], run: Run = map
) -> Iterator[str]:
    """Yield the files of all queries and those of the runtime, without the internal ones of this checkpoint."""
    for point in points:
        yield from find_query_files(files, point, run)
    queries = {*sinks, INTERNAL_FOLDER}
    for name in files.names(""):
        if name not in queries and "metadata" not in files.names(name):
            yield from files.walk(name)


def find_query_files(files: Folder, point: QueryPoint, run: Run = map) -> Iterator[str]:
    """Yield the paths of all files that a query needs after the batch; LostDataError names a missing one.

    `run` lists the folders of partitions.
    """
    sink, entry = point.sink, parse_entry(_expect(files, f"{point.sink}/offsets/{point.batch}"))
    yield f"{sink}/metadata"
    # Spark also reads the offsets of the previous batch.
    yield from _find_entries(files, f"{sink}/offsets", point.batch - 1, point.batch)
    yield from _find_entries(files, f"{sink}/commits", point.batch)
    yield from _find_source_files(files, sink, entry)
    read = partial(_StoreReader, files, codec=entry.settings.get(_CODEC, _DEFAULT_CODEC))
    for operator, partitions in point.state_ids.items():
        folder = f"{sink}/state/{operator}"
        yield from _walk_private(files, folder, files.names(folder))
        versions = ([Version(point.batch + 1, each) for each in ids] for ids in partitions)
        folders = [f"{folder}/{number}" for number in range(len(partitions))]
        for found in run(partial(_find_partition_files, files, read), folders, versions):
            yield from found


def _find_entries(files: Folder, log: str, *batches: int) -> Iterator[str]:
    """Yield the existing entries of a log with their checksums."""
    names = files.names(log)
    wanted = (each for batch in batches for each in (str(batch), f"{batch}{CHECKSUM}"))
    yield from (f"{log}/{each}" for each in wanted if each in names)


def _find_source_files(files: Folder, sink: str, entry: Entry) -> Iterator[str]:
    """Yield the files of sources. A file source has an entry for each batch; those of later batches are left out."""
    last = {name: end["logOffset"] for name, end in entry.ends.items() if "logOffset" in end}
    for path in files.walk(f"{sink}/sources"):
        source, name = path.split("/")[-2:]
        number = name.partition(".")[0]
        if not (source in last and number.isdigit() and int(number) > last[source]):
            yield path


def _find_partition_files(
    files: Folder, read: "Callable[[str], _StoreReader]", folder: str, versions: Iterable[Version]
) -> list[str]:
    """Return the files of one partition of an operator. It has one store, or several in subfolders."""
    names = files.names(folder)
    found, stores = list(_walk_private(files, folder, names)), {folder: set(names)}
    if not any(name.endswith((".zip", ".changelog")) for name in names):
        stores = {}
        for name in (each for each in names if each[0] != "_"):
            store, inner = f"{folder}/{name}", files.names(f"{folder}/{name}")
            found += _walk_private(files, store, inner)
            stores[store] = set(inner)
    for version in versions:
        store = _find_store(stores, version, folder)
        reader = read(store)
        wanted = find_state_files(store, stores[store], version, reader.read_lineage, reader.read_tables)
        found += (f"{store}/{name}" for name in wanted)
    return found


@dataclass(frozen=True)
class _StoreReader:
    """Reads references to other files in the files of a store."""

    files: Folder
    store: str
    codec: str

    def read_lineage(self, name: str) -> list[Version]:
        path = f"{self.store}/{name}"
        with contextlib.suppress(ValueError, KeyError):  # with larger blocks the whole file is needed
            return self._parse_lineage(self.files.read(path, _HEAD_BYTES))
        with self._naming(name):
            return self._parse_lineage(self.files.read(path))

    def _parse_lineage(self, held: bytes | None) -> list[Version]:
        return parse_lineage(unpack_head(held or b"", self.codec))

    def read_tables(self, name: str) -> list[str]:
        with self._naming(name):
            return parse_tables(self.files.read(f"{self.store}/{name}") or b"")

    @contextlib.contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Name the file in the error for invalid content."""
        try:
            yield
        except (ValueError, KeyError) as error:
            message = f"{self.store}/{name} is invalid: {error}"
            raise LostDataError(Reason.CHECKPOINT_DAMAGED, message) from error


def _find_store(stores: dict[str, set[str]], version: Version, folder: str) -> str:
    for store, names in stores.items():
        if version.snapshot in names or version.changelog in names:
            return store
    message = f"{folder} lacks {version.changelog}: Spark has deleted or never written it"
    raise LostDataError(Reason.CHECKPOINT_DAMAGED, message)


def _walk_private(files: Folder, folder: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the files of Spark's own folders among the names in a folder: schemas and metadata of operators."""
    for name in names:
        if name.startswith("_"):
            yield from files.walk(f"{folder}/{name}")


def _read_entry(files: Folder, name: str) -> dict[str, object]:
    """Return the JSON of a log entry, which follows a line with the version of the log."""
    found: dict[str, object] = json.loads(_expect(files, name).partition("\n")[2] or "{}")
    return found


def _expect(files: Folder, name: str) -> str:
    held = files.read(name)
    if held is None:
        raise LostDataError(Reason.CHECKPOINT_DAMAGED, f"the checkpoint {files.root} lacks {name}")
    return held.decode(errors="replace")
