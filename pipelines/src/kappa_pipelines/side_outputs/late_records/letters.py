"""Stragglers as records of a topic.

The value is the row that the window reads, as a sink would write it. The headers are `kappa.pipeline`, `kappa.view`, `kappa.topic`,
`kappa.partition`, `kappa.offset` (the record that the row was made of), `kappa.watermark` (that it missed), `kappa.windowStart`
and `kappa.windowEnd`. The key is `topic/partition/offset/view/windowStart/number`, where the number tells rows of one record
apart; so a straggler that is written twice is seen as one by readers and by compaction. A value that its topic would be too small
for is cut, and `kappa.size` says how many bytes it had.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from kappa_pipelines.kafka.limits import Limits
from kappa_pipelines.plan.late_rows import MISSED
from kappa_pipelines.plan.origin import ORIGIN
from kappa_pipelines.sinks.kafka import JSON_OPTIONS
from kappa_pipelines.sinks.record_headers import RESERVED_BYTES, build_header, truncate_value
from kappa_pipelines.transforms.inputs import quote

_TIMESTAMP = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"
_VALUE, _PLACE, _NUMBER = "__kappa_value", "__kappa_place", "__kappa_number"


def build_late_records(rows: DataFrame, pipeline: str, view: str, limits: Limits | None = None) -> DataFrame:
    """Return the records of rows that missed a window, as `key`, `value` and `headers`."""
    longest = (limits or Limits()).record_bytes
    columns = [quote(name) for name in rows.columns if name not in (ORIGIN, MISSED)]
    texts = rows.select(ORIGIN, MISSED, f.to_json(f.struct(*columns), JSON_OPTIONS).alias(_VALUE))
    value, headers = f.col(_VALUE), _build_headers(pipeline, view)
    fits = f.octet_length(value) <= longest - RESERVED_BYTES
    size = f.array(build_header("size", f.octet_length(value).cast("string")))
    return _number(texts, view).select(
        f.concat_ws("/", _PLACE, f.col(_NUMBER).cast("string")).alias("key"),
        f.when(fits, value).otherwise(truncate_value(value, longest)).alias("value"),
        f.when(fits, headers).otherwise(f.concat(headers, size)).alias("headers"),
    )


def _number(texts: DataFrame, view: str) -> DataFrame:
    """Return the rows with the beginning of their key, and a number that tells those with the same one apart."""
    parts = [_origin("topic"), _origin("partition"), _origin("offset"), f.lit(view), _missed("start")]
    placed = texts.withColumn(_PLACE, f.concat_ws("/", *parts))
    return placed.withColumn(_NUMBER, f.row_number().over(Window.partitionBy(_PLACE).orderBy(_VALUE)) - 1)


def _build_headers(pipeline: str, view: str) -> Column:
    told = {
        "pipeline": f.lit(pipeline),
        "view": f.lit(view),
        "topic": _origin("topic"),
        "partition": _origin("partition"),
        "offset": _origin("offset"),
        "watermark": f.date_format(f.col(ORIGIN)["watermark"], _TIMESTAMP),
        "windowStart": _missed("start"),
        "windowEnd": _missed("end"),
    }
    return f.array(*[build_header(name, value) for name, value in told.items()])


def _origin(field: str) -> Column:
    return f.col(ORIGIN)[field].cast("string")


def _missed(edge: str) -> Column:
    return f.date_format(f.col(MISSED)[edge], _TIMESTAMP)
