"""Divides the state of queries anew, into more or fewer partitions.

Spark can do that offline, as one more batch that reads nothing (`StreamingCheckpointManager.repartition`, since 4.2). If it died
amid that in a checkpoint, the batch would be planned there and not done, and only the same number could be tried again. So it is done
on a copy made of links, and what it made is put into the checkpoint afterwards: the state, whose files have names of their own, then
the plan of the batch, then that it is done. Until that is there, nothing has happened.
"""

import json

import structlog
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.fence.fence import INTERNAL_FOLDER, Fence
from kappa_pipelines.checkpoint.format.schemas import rewrite_all_schema_paths
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.failures.classify import first_lines
from kappa_pipelines.failures.exceptions import read_failure
from kappa_pipelines.savepoint.manifest import QueryPoint
from kappa_pipelines.savepoint.query import find_query_files, read_points
from kappa_pipelines.savepoint.state import CHECKSUM
from kappa_pipelines.sinks.in_doubt import BatchState, refuse_change
from kappa_pipelines.sinks.publisher import Publishers

_PLACE = f"{INTERNAL_FOLDER}/division"
_WANTED = "spark.sql.shuffle.partitions"
_READ = "spark.sql.streaming.internal.stateStore.partitions"

log = structlog.get_logger()


def check_repartition(files: Folder, publishers: Publishers, wanted: int) -> None:
    """Raise LostDataError where state is to be divided anew while a batch of its query is written in part."""
    partly = [name for name, each in publishers.items() if each.is_in_doubt]
    for point in read_points(files, partly):
        had = point.state_partitions
        if had not in (None, wanted):
            begun = BatchState(None, point.batch + 1, point.batch)
            changed = f"the state is to be divided from {had} into {wanted} partitions"
            raise refuse_change(point.sink, begun, changed, f"statePartitions: {had}")


def repartition_checkpoint(spark: SparkSession, fence: Fence, sinks: tuple[str, ...], wanted: int) -> None:
    """Have the state of all queries in so many partitions; LostDataError if that cannot be, and then nothing has changed.

    The checkpoint is the fence's, and no query may run on it.
    """
    for point in read_points(fence.files, sinks):
        had = point.state_partitions
        _drop_unfinished(fence.files, point, had)
        if had not in (None, wanted):
            log.info("state is divided anew", sink=point.sink, partitions=had, into=wanted)
            _repartition_query(spark, fence.files, point, wanted)
            rewrite_all_schema_paths(fence.files, fence.root)
            log.info("state is divided", sink=point.sink, partitions=wanted)


def _repartition_query(spark: SparkSession, files: Folder, point: QueryPoint, wanted: int) -> None:
    copy = files.below(_PLACE)
    copy.remove("")
    try:
        known = set(find_query_files(files, point))
        for path in known:
            files.link(path, copy, path)
        rewrite_all_schema_paths(copy, copy.root)
        repartition_copy(spark, copy, point, wanted)
        _put_back(copy, files, point, known, wanted)
    finally:
        copy.remove("")


def _drop_unfinished(files: Folder, point: QueryPoint, had: int | None) -> None:
    """Forget a batch that a division has planned and not done: no other batch has another number than the state."""
    plan = f"{point.sink}/offsets/{point.batch + 1}"
    noted = _find_partitions(files.read(plan))
    if had is not None and noted not in (None, had):
        files.delete(plan)


def _put_back(copy: Folder, files: Folder, point: QueryPoint, known: set[str], wanted: int) -> None:
    """Put what the division made into the checkpoint, and last that it is done."""
    for path in copy.walk(f"{point.sink}/state"):
        if "/_metadata/" in path:  # its name may be that of an attempt before
            copy.copy(path, files, path)
        elif path not in known:
            copy.link(path, files, path)
    plan, batch = f"{point.sink}/offsets", point.batch + 1
    files.delete(f"{plan}/{batch}{CHECKSUM}")
    files.write(f"{plan}/{batch}", set_partitions(files.read(f"{plan}/{point.batch}") or b"", wanted))
    copy.copy(f"{point.sink}/commits/{batch}", files, f"{point.sink}/commits/{batch}")


def repartition_copy(spark: SparkSession, copy: Folder, point: QueryPoint, wanted: int) -> None:
    """Divide the state of a query in a folder that is nobody's checkpoint, as one more batch; LostDataError if that cannot be."""
    had = point.state_partitions
    entry = f"{point.sink}/offsets/{point.batch}"
    # Spark 4.2 looks for the number in the log of offsets, and does not always write it there.
    copy.write(entry, set_partitions(copy.read(entry) or b"", had))
    assert spark.streams is not None  # noqa: S101 - it brings what state stores report to
    spark.conf.set(_READ, str(had))
    try:
        spark._streamingCheckpointManager.repartition(f"{copy.root}/{point.sink}", wanted, True)
    except (PySparkException, Py4JJavaError) as error:
        said = f"sink {point.sink!r}: its state cannot be divided from {had} into {wanted} partitions: {first_lines(read_failure(error).root.message)}"
        raise LostDataError(Reason.STATE_INCOMPATIBLE, said) from error
    finally:
        spark.conf.unset(_READ)


def set_partitions(entry: bytes, partitions: int | None) -> bytes:
    """Return an entry of a log of offsets that says how many partitions the state has: a query takes that for its setting."""
    version, metadata, *sources = entry.decode().splitlines()
    said = json.loads(metadata)
    said["conf"][_WANTED] = str(partitions)
    return "\n".join((version, json.dumps(said, separators=(",", ":")), *sources)).encode()


def _find_partitions(entry: bytes | None) -> int | None:
    """Return the number that an entry says, if there is one and it does."""
    lines = (entry or b"").decode(errors="replace").splitlines()
    if len(lines) < 2 or not lines[1].startswith("{"):
        return None
    found = json.loads(lines[1]).get("conf", {}).get(_WANTED)
    return None if found is None else int(found)
