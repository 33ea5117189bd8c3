"""The records of late records.

The value is the input row of the window, in the format of a sink. The headers are `kappa.pipeline`, `kappa.view`, `kappa.topic`,
`kappa.partition`, `kappa.offset` (of the source record), `kappa.watermark` (that it missed), `kappa.windowStart` and
`kappa.windowEnd`. The key is `topic/partition/offset/view/windowStart/number`; the number distinguishes rows of one source record. So
a duplicate has the same key for readers and for compaction. A value that is too large for its topic is truncated, and `kappa.size` has its size in
bytes.
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
_VALUE, _KEY, _NUMBER = "__kappa_value", "__kappa_key", "__kappa_number"


def build_late_records(rows: DataFrame, pipeline: str, view: str, limits: Limits | None = None) -> DataFrame:
    """Return the records of rows that missed a window as `key`, `value` and `headers`."""
    longest = (limits or Limits()).record_bytes
    columns = [quote(name) for name in rows.columns if name not in (ORIGIN, MISSED)]
    texts = rows.select(ORIGIN, MISSED, f.to_json(f.struct(*columns), JSON_OPTIONS).alias(_VALUE))
    value, headers = f.col(_VALUE), _build_headers(pipeline, view)
    fits = f.octet_length(value) <= longest - RESERVED_BYTES
    size = f.array(build_header("size", f.octet_length(value).cast("string")))
    return _number(texts, view).select(
        f.concat_ws("/", _KEY, f.col(_NUMBER).cast("string")).alias("key"),
        f.when(fits, value).otherwise(truncate_value(value, longest)).alias("value"),
        f.when(fits, headers).otherwise(f.concat(headers, size)).alias("headers"),
    )


def _number(texts: DataFrame, view: str) -> DataFrame:
    """Return the rows with the prefix of their key, and a number that distinguishes rows with the same prefix."""
    parts = [_origin("topic"), _origin("partition"), _origin("offset"), f.lit(view), _missed("start")]
    keyed = texts.withColumn(_KEY, f.concat_ws("/", *parts))
    return keyed.withColumn(_NUMBER, f.row_number().over(Window.partitionBy(_KEY).orderBy(_VALUE)) - 1)


def _build_headers(pipeline: str, view: str) -> Column:
    values = {
        "pipeline": f.lit(pipeline),
        "view": f.lit(view),
        "topic": _origin("topic"),
        "partition": _origin("partition"),
        "offset": _origin("offset"),
        "watermark": f.date_format(f.col(ORIGIN)["watermark"], _TIMESTAMP),
        "windowStart": _missed("start"),
        "windowEnd": _missed("end"),
    }
    return f.array(*[build_header(name, value) for name, value in values.items()])


def _origin(field: str) -> Column:
    return f.col(ORIGIN)[field].cast("string")


def _missed(edge: str) -> Column:
    return f.date_format(f.col(MISSED)[edge], _TIMESTAMP)
