"""Rows whose bytes differ, as pairs of both sides, folded by the tasks that hold them."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from kappa_crds.comparison import Tolerance
from kappa_pipelines.compare.fold import Fold, Pair, read_fold
from kappa_pipelines.compare.values import Rule

PAIRS = "key BINARY, old BINARY, new BINARY, old_position STRING, new_position STRING, lost BOOLEAN, window BIGINT"
"""The columns of pairs; `window` is the start of a window in seconds since 1970. `expected` may follow."""


def load_pairs(spark: SparkSession, pairs: Iterable[Pair]) -> DataFrame:
    """Return pairs of this process as a table."""
    rows = [
        (each.key, each.old, each.new, each.old_position, each.new_position, each.lost, each.window)
        for each in pairs
    ]
    return spark.createDataFrame(rows, PAIRS)


def fold_here(pairs: Iterable[Pair], tolerance: Tolerance, samples: int) -> Fold:
    """Return the fold of pairs that are in this process."""
    rule, fold = Rule(tolerance), Fold(samples)
    for pair in pairs:
        fold.add(pair, rule)
    return fold


def fold_pairs(pairs: DataFrame, tolerance: Tolerance, samples: int) -> Fold:
    """Return the fold of all pairs, which are examined in their tasks."""
    work = partial(_fold_batches, tolerance.model_dump_json(by_alias=True), samples)
    whole = Fold(samples)
    for row in pairs.mapInArrow(work, "fold STRING").toLocalIterator():
        whole.merge(read_fold(row.fold))
    return whole


def _fold_batches(
    tolerance: str, samples: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    rule, fold = Rule(Tolerance.model_validate_json(tolerance)), Fold(samples)
    for batch in batches:
        names = batch.schema.names
        for values in zip(*(_list(column) for column in batch.columns), strict=True):
            fold.add(_build_pair(dict(zip(names, values, strict=True))), rule)
    yield pa.RecordBatch.from_pydict({"fold": [fold.to_json()]})


def _list(column: Any) -> list[Any]:
    return list(column.to_pylist())


def _build_pair(row: dict[str, Any]) -> Pair:
    return Pair(**{**row, "expected": bool(row.get("expected")), "lost": bool(row["lost"])})
