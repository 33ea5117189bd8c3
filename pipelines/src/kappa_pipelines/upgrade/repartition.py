"""Repartitions the state of queries.

Spark does that offline, as one more batch that reads nothing (`StreamingCheckpointManager.repartition`, since 4.2). After a crash
in the checkpoint, the batch would be planned and not committed, and only the same number of partitions could be tried again. So it runs on a
copy made of links. Then its result is added to the checkpoint: the state, whose files have unique names, the plan of the batch, and
its commit. Before the commit exists, nothing has changed.
"""

import json

import structlog
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kappa_crds.reasons import Reason
from kappa_pipelines.checkpoint.fence.fence import INTERNAL_FOLDER, Fence
from kappa_pipelines.checkpoint.format.offsets import read_entry
from kappa_pipelines.checkpoint.format.schemas import rewrite_all_schema_paths
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.failures.classify import first_lines
from kappa_pipelines.failures.exceptions import read_failure
from kappa_pipelines.savepoint.manifest import QueryPoint
from kappa_pipelines.savepoint.query import find_query_files, read_points
from kappa_pipelines.savepoint.state import CHECKSUM
from kappa_pipelines.sinks.in_doubt import refuse_change
from kappa_pipelines.sinks.publisher import Publishers

_COPY_FOLDER = f"{INTERNAL_FOLDER}/division"
_WANTED = "spark.sql.shuffle.partitions"
_READ = "spark.sql.streaming.internal.stateStore.partitions"

log = structlog.get_logger()


def check_repartition(files: Folder, publishers: Publishers, wanted: int) -> None:
    """Raise LostDataError if the state of a query with a batch in doubt would be repartitioned."""
    in_doubt = [name for name, each in publishers.items() if each.is_in_doubt]
    for point in read_points(files, in_doubt):
        present = point.state_partitions
        if present not in (None, wanted):
            changed = f"statePartitions has changed from {present} to {wanted}"
            raise refuse_change(point.sink, point.batch + 1, changed, f"set statePartitions: {present}")


def repartition_checkpoint(spark: SparkSession, fence: Fence, sinks: tuple[str, ...], wanted: int) -> None:
    """Repartition the state of all queries; LostDataError if that is impossible, and then nothing has changed.

    The checkpoint is that of the fence, and no query may run on it.
    """
    for point in read_points(fence.files, sinks):
        present = point.state_partitions
        _drop_unfinished(fence.files, point, present)
        if present not in (None, wanted):
            log.info("repartitioning state", sink=point.sink, partitions=present, into=wanted)
            _repartition_query(spark, fence.files, point, wanted)
            rewrite_all_schema_paths(fence.files, fence.root)
            log.info("state repartitioned", sink=point.sink, partitions=wanted)


def _repartition_query(spark: SparkSession, files: Folder, point: QueryPoint, wanted: int) -> None:
    copy = files.below(_COPY_FOLDER)
    copy.remove("")
    try:
        known = set(find_query_files(files, point))
        for path in known:
            files.link(path, copy, path)
        rewrite_all_schema_paths(copy, copy.root)
        repartition_copy(spark, copy, point, wanted)
        _add_result(copy, files, point, known, wanted)
    finally:
        copy.remove("")


def _drop_unfinished(files: Folder, point: QueryPoint, present: int | None) -> None:
    """Delete the plan of an unfinished repartition: only such a batch has another number of partitions than the state."""
    planned = read_entry(files, point.sink, point.batch + 1)
    if present is None or planned is None:
        return
    if planned.settings.get(_WANTED, str(present)) != str(present):
        files.delete(f"{point.sink}/offsets/{point.batch + 1}")


def _add_result(copy: Folder, files: Folder, point: QueryPoint, known: set[str], wanted: int) -> None:
    """Add the result of a repartition to the checkpoint, its commit last."""
    for path in copy.walk(f"{point.sink}/state"):
        if "/_metadata/" in path:  # an earlier attempt may have used the name
            copy.copy(path, files, path)
        elif path not in known:
            copy.link(path, files, path)
    plan, batch = f"{point.sink}/offsets", point.batch + 1
    files.delete(f"{plan}/{batch}{CHECKSUM}")
    files.write(f"{plan}/{batch}", set_partitions(files.read(f"{plan}/{point.batch}") or b"", wanted))
    copy.copy(f"{point.sink}/commits/{batch}", files, f"{point.sink}/commits/{batch}")


def repartition_copy(spark: SparkSession, copy: Folder, point: QueryPoint, wanted: int) -> None:
    """Repartition the state of a query in a copy of a checkpoint, as one more batch; LostDataError if that is impossible."""
    present = point.state_partitions
    entry = f"{point.sink}/offsets/{point.batch}"
    # Spark 4.2 reads the number from the offset log, but does not always write it there.
    copy.write(entry, set_partitions(copy.read(entry) or b"", present))
    assert spark.streams is not None  # noqa: S101 - creates the coordinator of state stores
    spark.conf.set(_READ, str(present))
    try:
        spark._streamingCheckpointManager.repartition(f"{copy.root}/{point.sink}", wanted, True)
    except (PySparkException, Py4JJavaError) as error:
        message = f"sink {point.sink!r}: its state cannot be repartitioned from {present} to {wanted} partitions: {first_lines(read_failure(error).root.message)}"
        raise LostDataError(Reason.STATE_INCOMPATIBLE, message) from error
    finally:
        spark.conf.unset(_READ)


def set_partitions(entry: bytes, partitions: int | None) -> bytes:
    """Return an entry of the offset log with this number of state partitions, which a query uses as its setting."""
    version, metadata, *sources = entry.decode().splitlines()
    parsed = json.loads(metadata)
    parsed["conf"][_WANTED] = str(partitions)
    return "\n".join((version, json.dumps(parsed, separators=(",", ":")), *sources)).encode()
