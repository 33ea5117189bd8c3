"""Schema ids in a failed batch that were not looked up in the registry yet.

A query that reads such an id fails before it commits anything. The driver then collects all new ids of the batch and stores them;
the next start looks them up. So no record becomes a dead letter only because its schema is newer than the driver, and a batch
with many wrong ids costs one restart.
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
from kappa_pipelines.registry.pins import add_ids
from kappa_pipelines.sources.framing import Framed, read_id
from kappa_pipelines.sources.kafka import KafkaSource, read_range

_MOST_IDS = 10_000  # from one attempt of a batch; the next attempt finds the others

log = structlog.get_logger()


def remember_unknown_ids(
    spark: SparkSession, files: Folder, revision: Revision, sink: str, sources: list[KafkaSource]
) -> None:
    """Store the new ids of the batch in which a sink's query failed."""
    committed, planned = read_committed_offsets(files, sink), read_planned_offsets(files, sink)
    for source in sources:
        if not isinstance(source.values, Framed) or source.name not in planned:
            continue
        start = committed.get(source.name) or read_initial_offsets(files, sink, source.name) or {}
        records = read_range(spark, revision, source.spec, start, planned[source.name])
        unknown = records.where(source.values.is_unknown()).select(read_id().alias("id"))
        ids = {row.id for row in unknown.distinct().limit(_MOST_IDS).collect()}
        log.info("unknown schema ids", source=source.name, ids=sorted(ids)[:100], count=len(ids))
        add_ids(files, source.name, source.values.subject.name, ids)
