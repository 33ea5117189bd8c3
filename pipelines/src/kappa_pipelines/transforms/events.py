"""Events that keep their identity through a join and the aggregation after it.

Equal events are different events, so each gets an identifier; its columns travel as one struct beside the event time, which has the
watermark.

The identifier is the same when Spark runs a task again. Records of a source have a fixed position, given by topic, partition and
offset: `uuid()` has one seed for each batch, and its values depend only on the seed, on the partition and on the position in it. Rows
that come from a shuffle or from Python in the same query come in another order after an executor is lost, but in the same partition.
So they are identified by their content, their partition and a number among equal rows.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf

from kappa_pipelines.analysis.catalyst import EVENTS_OF, children_of, get_plan, kind_of
from kappa_pipelines.transforms.inputs import Input, quote
from kappa_pipelines.transforms.key_groups import pack

TIME = "__kappa_time"
ID = "__kappa_id"
_EVENT = "__kappa_event"
_KEEPS_ORDER = {
    "CollectMetrics",
    "EventTimeWatermark",
    "Filter",
    "Generate",
    "NamedStreamingRelation",
    "Project",
    "StreamingRelation",
    "StreamingRelationV2",
    "SubqueryAlias",
    "Union",
    "View",
}


def select_events(spark: SparkSession, events: Input, time: str, keys: dict[str, str]) -> str:
    """Return the statement that selects the events; `keys` are further columns and their sources."""
    struct = f"struct({', '.join(quote(name) for name in events.columns)})"
    more = "".join(f", {quote(column)} AS {name}" for name, column in keys.items())
    rows, view, identity = spark.table(events.name), events.name, "uuid()"
    if not _has_fixed_order(get_plan(rows)):
        view, identity = f"{EVENTS_OF}{events.name}", ID
        _add_identity(rows, events).createOrReplaceTempView(quote(view))
    return (
        f"SELECT {quote(time)} AS {TIME}, {identity} AS {ID}, {struct} AS {_EVENT}{more}"  # noqa: S608 - quoted
        f" FROM {quote(view)}"
    )


def _add_identity(rows: DataFrame, events: Input) -> DataFrame:
    number: Any = arrow_udf(number_equal, "BIGINT", ArrowUDFType.SCALAR_ITER)
    content = f.xxhash64(pack(events.columns))
    parts = f.spark_partition_id(), content, number.asNondeterministic()(content)
    return rows.withColumn(ID, f.concat_ws("-", *parts))


def _has_fixed_order(plan: Any) -> bool:
    """Return whether the rows of a partition have the order of the sources."""
    return kind_of(plan) in _KEEPS_ORDER and all(map(_has_fixed_order, children_of(plan)))


def number_equal(batches: Iterator[Any]) -> Iterator[Any]:
    """Number the equal values among all of a partition, which are in Arrow arrays."""
    import pyarrow as pa  # noqa: PLC0415 - only workers need it

    numbers: dict[int, Iterator[int]] = defaultdict(count)
    for values in batches:
        yield pa.array([next(numbers[value]) for value in values.to_pylist()], pa.int64())


def unpack_columns(events: Input, time: str) -> list[str]:
    """Return the items of a SELECT, grouped by event, with an event's columns in their order."""
    return [
        f"{TIME} AS {quote(name)}" if name == time else f"any_value({_EVENT}).{quote(name)} AS {quote(name)}"
        for name in events.columns
    ]


def group_by_event() -> str:
    """Return the GROUP BY that makes one group of each event."""
    return f"GROUP BY {TIME}, {ID}"
