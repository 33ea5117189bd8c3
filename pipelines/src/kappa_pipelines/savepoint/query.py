"""Which files of a checkpoint belong to one committed batch of a query."""

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.fence.fence import INTERNAL_FOLDER
from kappa_pipelines.checkpoint.format.offsets import nest_offsets, parse_offset_log, read_committed_batch
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

_CODEC = re.compile(r'"spark\.sql\.streaming\.stateStore\.compression\.codec":"(\w+)"')
_DEFAULT_CODEC = "lz4"
_HEAD_BYTES = 2**18
"""How much of a changelog is read: its lineage, and a block of the usual size beyond what that may take."""
_LOG_OFFSET = re.compile(r'^(\w+):\{"logOffset":(\d+)\}$', re.MULTILINE)


def read_point(files: Folder, sink: str) -> QueryPoint | None:
    """Return the last committed batch of a sink's query; None before the first."""
    batch = read_committed_batch(files, sink)
    if batch < 0:
        return None
    commit = _read_entry(files, f"{sink}/commits/{batch}")
    offsets = parse_offset_log(_expect(files, f"{sink}/offsets/{batch}"))
    return QueryPoint(
        sink=sink,
        id=str(json.loads(_expect(files, f"{sink}/metadata"))["id"]),
        batch=batch,
        offsets={source: nest_offsets(found) for source, found in offsets.items()},
        state_ids=commit.get("stateUniqueIds") or {},
    )


def read_points(files: Folder, sinks: Iterable[str]) -> tuple[QueryPoint, ...]:
    """Return the last committed batch of each sink's query; those without one are left out."""
    points = (read_point(files, sink) for sink in sinks)
    return tuple(point for point in points if point is not None)


def find_files(files: Folder, sinks: Iterable[str], points: Iterable[QueryPoint]) -> Iterator[str]:
    """Yield the files of all queries, and those that the runtime keeps beside them, but for those of this checkpoint alone."""
    for point in points:
        yield from find_query_files(files, point)
    queries = {*sinks, INTERNAL_FOLDER}
    for name in files.names(""):
        if name not in queries and "metadata" not in files.names(name):
            yield from files.walk(name)


def find_query_files(files: Folder, point: QueryPoint) -> Iterator[str]:
    """Yield the paths of all files that a query needs to go on after the batch; LostDataError names one that is missing."""
    sink = point.sink
    yield f"{sink}/metadata"
    # Spark reads the offsets of the batch before, too.
    yield from _find_entries(files, f"{sink}/offsets", point.batch - 1, point.batch)
    yield from _find_entries(files, f"{sink}/commits", point.batch)
    yield from _find_source_files(files, point)
    codec = _CODEC.search(_expect(files, f"{sink}/offsets/{point.batch}"))
    read = partial(_StoreReader, files, codec=codec[1] if codec else _DEFAULT_CODEC)
    for operator, partitions in point.state_ids.items():
        folder = f"{sink}/state/{operator}"
        yield from _walk_private(files, folder)
        for number, ids in enumerate(partitions):
            yield from _find_partition_files(
                files, f"{folder}/{number}", (Version(point.batch + 1, each) for each in ids), read
            )


def _find_entries(files: Folder, log: str, *batches: int) -> Iterator[str]:
    """Yield the entries of a log with their checksums, as far as they are there."""
    names = files.names(log)
    wanted = (each for batch in batches for each in (str(batch), f"{batch}{CHECKSUM}"))
    yield from (f"{log}/{each}" for each in wanted if each in names)


def _find_source_files(files: Folder, point: QueryPoint) -> Iterator[str]:
    """Yield what sources remember. A source of files has an entry for each batch; those of later batches would be taken for read."""
    text = _expect(files, f"{point.sink}/offsets/{point.batch}")
    last = {name: int(number) for name, number in _LOG_OFFSET.findall(text)}
    for path in files.walk(f"{point.sink}/sources"):
        source, name = path.split("/")[-2:]
        number = name.partition(".")[0]
        if not (source in last and number.isdigit() and int(number) > last[source]):
            yield path


def _find_partition_files(
    files: Folder, folder: str, versions: Iterable[Version], read: "Callable[[str], _StoreReader]"
) -> Iterator[str]:
    """Yield the files of one partition of an operator: it has one store, or several in folders of their own."""
    yield from _walk_private(files, folder)
    names = files.names(folder)
    stores = {folder: names}
    if not any(name.endswith((".zip", ".changelog")) for name in names):
        stores = {f"{folder}/{name}": files.names(f"{folder}/{name}") for name in names if name[0] != "_"}
        for store in stores:
            yield from _walk_private(files, store)
    for version in versions:
        store = _find_store(stores, version, folder)
        reader = read(store)
        wanted = find_state_files(store, stores[store], version, reader.read_lineage, reader.read_tables)
        yield from (f"{store}/{name}" for name in wanted)


@dataclass(frozen=True)
class _StoreReader:
    """Reads what files of a store say of others."""

    files: Folder
    store: str
    codec: str

    def read_lineage(self, name: str) -> list[Version]:
        path = f"{self.store}/{name}"
        with contextlib.suppress(
            ValueError, KeyError
        ):  # where blocks are larger than usual, all of it is needed
            return self._parse_lineage(self.files.read_head(path, _HEAD_BYTES))
        with self._naming(name):
            return self._parse_lineage(self.files.read(path))

    def _parse_lineage(self, held: bytes | None) -> list[Version]:
        return parse_lineage(unpack_head(held or b"", self.codec))

    def read_tables(self, name: str) -> list[str]:
        with self._naming(name):
            return parse_tables(self.files.read(f"{self.store}/{name}") or b"")

    @contextlib.contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Name the file in the error for what cannot be understood."""
        try:
            yield
        except (ValueError, KeyError) as error:
            said = f"{self.store}/{name} cannot be understood: {error}"
            raise LostDataError(Reason.CHECKPOINT_DAMAGED, said) from error


def _find_store(stores: dict[str, list[str]], version: Version, folder: str) -> str:
    for store, names in stores.items():
        if version.snapshot in names or version.changelog in names:
            return store
    raise LostDataError(Reason.CHECKPOINT_DAMAGED, f"{folder} lacks {version.changelog}")


def _walk_private(files: Folder, folder: str) -> Iterator[str]:
    """Yield the files of Spark's own folders in a folder: schemas, and what operators say of themselves."""
    for name in files.names(folder):
        if name.startswith("_"):
            yield from files.walk(f"{folder}/{name}")


def _read_entry(files: Folder, name: str) -> dict[str, object]:
    """Return the JSON of an entry of a log, which follows a line with the log's version."""
    found: dict[str, object] = json.loads(_expect(files, name).partition("\n")[2] or "{}")
    return found


def _expect(files: Folder, name: str) -> str:
    held = files.read(name)
    if held is None:
        raise LostDataError(Reason.CHECKPOINT_DAMAGED, f"the checkpoint {files.root} lacks {name}")
    return held.decode(errors="replace")
