"""Reads the state of a checkpoint with Spark's state reader: a query can start from state that the reader can read.

This is the only task on a savepoint that needs a JVM.
"""

import json
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import StateRows
from kappa_pipelines.errors import UnavailableError
from kappa_pipelines.failures.classify import first_lines
from kappa_pipelines.failures.exceptions import read_failure
from kappa_pipelines.revision.settings import (
    CHECKPOINT_SETTINGS,
    DEFAULTS,
    LOCAL_FILES,
    SESSION_SETTINGS,
    build_state_settings,
)
from kappa_pipelines.savepoint.manifest import Manifest, QueryPoint

_MEMORY = "512m"
_TIMERS = "$"  # internal states of Spark


def create_reader_session(partitions: int) -> SparkSession:
    """Start a small JVM that reads state in this number of partitions."""
    settings: dict[str, Any] = {
        **DEFAULTS,
        **SESSION_SETTINGS,
        **CHECKPOINT_SETTINGS,
        **build_state_settings(None),
        **LOCAL_FILES,
        "spark.app.name": "kappa-savepoint",
        "spark.master": "local[1]",
        "spark.driver.memory": _MEMORY,
        # Spark 4.2 does not read it from an offset log of version 2.
        "spark.sql.streaming.internal.stateStore.partitions": str(partitions),
    }
    spark = SparkSession.Builder().config(map=settings).getOrCreate()
    assert spark.streams is not None  # noqa: S101 - creates the coordinator of state stores, which a batch alone lacks
    return spark


def read_state(spark: SparkSession, checkpoint: str, manifest: Manifest) -> list[StateRows]:
    """Return the rows of each operator of each query; UnavailableError names the operator that cannot be read."""
    stateful = (point for point in manifest.queries if point.state_ids)
    return [rows for point in stateful for rows in _read_query(spark, checkpoint, point)]


def _read_query(spark: SparkSession, checkpoint: str, point: QueryPoint) -> Iterator[StateRows]:
    path = f"{checkpoint}/{point.sink}"
    try:
        operators = spark.read.format("state-metadata").load(path).collect()
    except (PySparkException, Py4JError) as error:
        raise _refuse(f"the state of {point.sink}", error) from error
    for operator in sorted({int(row.operatorId) for row in operators}):
        stores = [row for row in operators if int(row.operatorId) == operator]
        name = str(stores[0].operatorName)
        try:
            rows = sum(_count(spark, path, point.batch, operator, read) for read in list_reads(name, stores))
        except (PySparkException, Py4JError) as error:
            raise _refuse(f"operator {operator} ({name}) of {point.sink}", error) from error
        yield StateRows(sink=point.sink, operator=operator, name=name, rows=rows)


def list_reads(operator: str, stores: list[Any]) -> Iterator[dict[str, str]]:
    """Yield the read options of an operator's state: for each side of a join, for each named state."""
    if operator == "symmetricHashJoin":
        yield from ({"joinSide": side} for side in ("left", "right"))
        return
    for store in stores:
        variables = json.loads(store.operatorProperties or "{}").get("stateVariables") or []
        names = [str(variable["stateName"]) for variable in variables]
        yield from ({"stateVarName": name} for name in names if not name.startswith(_TIMERS))
        if not variables:
            yield {"storeName": str(store.stateStoreName)}


def _count(spark: SparkSession, path: str, batch: int, operator: int, options: dict[str, str]) -> int:
    reader = spark.read.format("statestore").options(batchId=batch, operatorId=operator, **options)
    return reader.load(path).count()


def _refuse(what: str, error: Exception) -> UnavailableError:
    """Return the error for state that cannot be read. The checksums of the files match, so the savepoint is not damaged."""
    cause = first_lines(str(read_failure(error).root))
    return UnavailableError(Reason.SAVEPOINT_WORK_FAILED, f"Spark's state reader cannot read {what}: {cause}")
