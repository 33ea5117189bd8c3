"""Schema ids that a failed batch met and that the registry was not asked about.

A query that meets one fails before it commits anything. The ids of the whole batch are then found at once and
remembered; the next start asks the registry for them. So no record becomes a dead letter only because its schema is
newer than the driver, and a batch full of wrong ids costs one start.
"""

import structlog
from pyspark.sql import SparkSession

from kappa_crds.revision import Revision
from kappa_pipelines.checkpoint.format.offsets import (
    read_committed_offsets,
    read_initial_offsets,
    read_planned_offsets,
)
from kappa_pipelines.checkpoint.store.folder import Folder
from kappa_pipelines.registry.pins import ask_at_next_start
from kappa_pipelines.sources.framing import Framed, read_id
from kappa_pipelines.sources.kafka import KafkaSource, read_range

_MOST_IDS = 10_000  # remembered from one batch; what is left is found by the batch's next attempt

log = structlog.get_logger()


def remember_unknown_ids(
    spark: SparkSession, files: Folder, revision: Revision, sink: str, sources: list[KafkaSource]
) -> None:
    """Remember the unknown ids of the batch that a sink's query failed in."""
    committed, planned = read_committed_offsets(files, sink), read_planned_offsets(files, sink)
    for source in sources:
        if not isinstance(source.values, Framed) or source.name not in planned:
            continue
        start = committed.get(source.name) or read_initial_offsets(files, sink, source.name) or {}
        records = read_range(spark, revision, source.spec, start, planned[source.name])
        unknown = records.where(source.values.is_unknown()).select(read_id().alias("id"))
        ids = {row.id for row in unknown.distinct().limit(_MOST_IDS).collect()}
        log.info("unknown schema ids", source=source.name, ids=sorted(ids)[:100], count=len(ids))
        ask_at_next_start(files, source.name, source.values.subject.name, ids)
