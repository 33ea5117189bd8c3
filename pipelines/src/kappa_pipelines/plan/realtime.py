"""Real-time mode: unsupported plans, and the number of concurrent tasks.

Spark runs a task for every partition during the whole batch, and each record passes the plan and the sink without delay. Offsets are
written when the batch ends (Spark 4.2, `RealTimeTrigger`). A plan cannot have steps that wait for other records. Spark checks that
only when the query has started (`RealTimeModeAllowlist`); here views are checked before the start.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_crds.sink import Delivery, Sink
from kappa_pipelines.analysis.catalyst import children_of, get_plan, items, kind_of, view_of
from kappa_pipelines.checkpoint.format.offsets import Offsets
from kappa_pipelines.errors import SpecError, UnavailableError
from kappa_pipelines.executors import find_executors
from kappa_pipelines.kafka.consumers import count_partitions
from kappa_pipelines.kafka.subscription import build_subscription

_SHORTEST_SECONDS = 5.0  # of a batch; Spark: spark.sql.streaming.realTimeMode.minBatchDuration
_SPARE_TASKS = 2  # for the dead-letter scan, beside tasks that never end
_REMEDY = "remove trigger.realTime, or do this in another pipeline that reads the output of this one"
_ALLOWED = frozenset(
    {
        "CTERelationDef", "CTERelationRef", "CollectMetrics", "EventTimeWatermark", "Expand", "Filter", "Generate", "Project",
        "ResolvedHint", "StreamingRelationV2", "SubqueryAlias", "Union", "View", "WithCTE",
    }
)  # fmt: skip
_WORDS = {
    "Aggregate": "aggregates rows",
    "Deduplicate": "removes duplicates",
    "DeduplicateWithinWatermark": "removes duplicates",
    "Distinct": "removes duplicates",
    "Join": "joins rows",
    "GlobalLimit": "counts rows for a LIMIT",
    "LocalLimit": "counts rows for a LIMIT",
    "Sort": "sorts rows",
}


def check_spec(spec: PipelineSpec) -> None:
    """Raise SpecError for settings that real-time mode does not support."""
    if spec.trigger.real_time is None:
        return
    _check_times(spec.trigger.real_time.checkpoint_interval, spec.stop_timeout)
    for source in spec.sources:
        if source.format.protobuf is not None:
            raise SpecError(
                Reason.UNSUPPORTED_QUERY,
                f"source {source.name!r} has the format protobuf, which is decoded in Python a batch of records at a time, and"
                f" real-time mode (trigger.realTime) has no batches; {_REMEDY}",
            )
    for sink in spec.sinks:
        if sink.target.delivery is Delivery.EXACTLY_ONCE:
            raise SpecError(
                Reason.INVALID_SPEC,
                f"sink {sink.name!r} has delivery ExactlyOnce, which writes batch by batch, and real-time mode (trigger.realTime)"
                " has no batches; remove delivery, or trigger.realTime",
            )


def _check_times(every: str, stop_timeout: str) -> None:
    """Raise SpecError unless a batch is as long as Spark requires, and a stop can wait for its end."""
    if parse_duration(every) < _SHORTEST_SECONDS:
        raise SpecError(
            Reason.INVALID_SPEC, f"trigger.realTime.checkpointInterval {every} is too short; set 5s or more"
        )
    if parse_duration(every) >= parse_duration(stop_timeout):
        raise SpecError(
            Reason.INVALID_SPEC,
            f"trigger.realTime.checkpointInterval {every}: a stop waits until a batch ends, and stopTimeout is only"
            f" {stop_timeout}; set checkpointInterval to less, or stopTimeout to more",
        )


def check_real_time(rows: DataFrame, sink: Sink, sources: Sequence[str]) -> None:
    """Raise SpecError if a sink's rows cannot be computed record by record from these sources; it names the view."""
    where = f"sink {sink.name!r}"
    twice = sorted({name for name in sources if sources.count(name) > 1})
    if twice:
        raise SpecError(
            Reason.UNSUPPORTED_QUERY,
            f"{where}: source {twice[0]!r} is read more than once, which real-time mode cannot do; only select and filter its"
            f" rows in a UNION, or use one SELECT with CASE or explode, or {_REMEDY}",
        )
    for view, what in _find_waits(rows, get_plan(rows), None):
        at = where if view is None else f"view {view!r} for {where}"
        raise SpecError(
            Reason.UNSUPPORTED_QUERY,
            f"{at} {what}; in real-time mode (trigger.realTime) each record is processed separately, without state or"
            f" other records; {_REMEDY}",
        )


def _find_waits(rows: DataFrame, plan: Any, view: str | None) -> Iterator[tuple[str | None, str]]:
    """Yield the unsupported steps of a plan, innermost first, each with its view."""
    if not plan.isStreaming():
        return
    view = view_of(plan) or view
    for child in children_of(plan):
        yield from _find_waits(rows, child, view)
    kind = kind_of(plan)
    if kind == "Join" and not (plan.left().isStreaming() and plan.right().isStreaming()):
        return  # with a table in the view, which Spark broadcasts to all tasks
    if kind not in _ALLOWED:
        yield view, _WORDS.get(kind, f"has a step ({kind}) that real-time mode cannot do")
    elif _calls_python(rows, plan):
        yield view, "calls a function in Python for each row"


def _calls_python(rows: DataFrame, plan: Any) -> bool:
    pattern = rows.sparkSession._jvm.org.apache.spark.sql.catalyst.trees.TreePattern  # type: ignore[union-attr]
    return any(each.containsPattern(pattern.PYTHON_UDF()) for each in items(plan.expressions()))


def build_real_time_settings(revision: Revision, topics: dict[str, int]) -> dict[str, str]:
    """Return the settings by which all tasks of real-time mode run concurrently on any number of cores; empty for other pipelines.

    There is a task for each partition and query, and none ends before its batch. If a task has no slot, Spark 4.2 silently does not
    read its partition. A task that waits for a record hardly uses a core. `topics` are all topics with their partitions.
    """
    if revision.spec.trigger.real_time is None:
        return {}
    tasks = len(revision.spec.sinks) * sum(_count_partitions(revision, topics)) + _SPARE_TASKS
    if revision.spark_conf.get("spark.master", "local").startswith("local"):
        return {"spark.master": f"local[{tasks}]"}
    executors = max(1, find_executors(revision))
    return {"spark.executor.cores": str(math.ceil(tasks / executors))}


def check_growth(revision: Revision, topics: dict[str, int], ends: Offsets) -> None:
    """Raise UnavailableError if a source has more partitions than when the driver started; a new driver has tasks for them.

    `topics` are those at the start, `ends` has the current partitions.
    """
    if revision.spec.trigger.real_time is None:
        return
    new = sorted(f"{topic}/{part}" for topic, part in ends if part >= topics.get(topic, 0))
    if new:
        raise UnavailableError(
            Reason.PARTITIONS_ADDED,
            f"new partitions without a task: {', '.join(new)}; the driver restarts to read them",
        )


def _count_partitions(revision: Revision, topics: dict[str, int]) -> Iterator[int]:
    for source in revision.spec.sources:
        yield count_partitions(build_subscription(revision, source), topics)
