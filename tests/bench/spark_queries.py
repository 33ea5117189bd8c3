"""The two queries of the throughput measurement: compiled from a Pipeline, and written by hand with Spark's defaults."""

import tempfile
import time
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.revision import KafkaConnection, Revision
from kappa_operator.pipeline.tuning import build_tuning
from kappa_pipelines.jars import fetch_jars
from kappa_pipelines.plan.compile import compile_revision
from kappa_pipelines.revision.settings import DEFAULTS, EXTENSIONS, NATIVE_JSON, build_spark_settings

SCHEMA = "k BIGINT, v DOUBLE, ts TIMESTAMP, note STRING"
CORES = 2
BASE = {
    "spark.master": f"local[{CORES}]",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}
_RESOURCES = {"driver": {"cpu": str(CORES)}, "executors": {"count": 0}}
_SOURCE = {
    "name": "records",
    "topic": "records",
    "format": {"json": {"schema": SCHEMA}},
    "eventTime": {"column": "ts", "watermark": "10m"},
}
_MEAN = "SELECT window(ts, '1 minute') AS w, k, avg(v) AS mean FROM records GROUP BY 1, 2"
SPECS: dict[str, dict[str, Any]] = {
    "passthrough": {
        "resources": _RESOURCES,
        "sources": [_SOURCE],
        "sinks": [{"name": "out", "from": "records", "kafka": {"topic": "out", "key": ["k"]}}],
    },
    "window": {
        "resources": _RESOURCES,
        "sources": [_SOURCE],
        "views": [{"name": "means", "sql": _MEAN}],
        "sinks": [
            {"name": "out", "from": "means", "kafka": {"topic": "out", "key": ["k"]}, "mode": "update"}
        ],
    },
}


@dataclass(frozen=True)
class Run:
    """One run of one query by one side; `name` is the query's."""

    name: str
    side: str
    bootstrap: str
    source: str
    out: str

    def seconds(self, spark: SparkSession) -> float:
        """Read the whole topic, from the start of the query until its last batch is committed."""
        session = spark.newSession()
        session.conf.set(NATIVE_JSON, str(self.side != "plain").lower())
        with tempfile.TemporaryDirectory(prefix="kappa-bench-") as checkpoint:
            build = _plain if self.side == "plain" else _kappa
            writer = build(session, self, checkpoint).trigger(availableNow=True)
            begin = time.monotonic()
            query = writer.start()
            query.awaitTermination()
            took = time.monotonic() - begin
            query.stop()
        return took


def create_session() -> SparkSession:
    """Return a session with nothing set that either side would set for itself."""
    builder = SparkSession.Builder()
    jars = ",".join(map(str, fetch_jars()))
    for key, value in {**BASE, "spark.jars": jars, EXTENSIONS: DEFAULTS[EXTENSIONS]}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def build_revision(
    written: dict[str, Any], bootstrap: str, topics: dict[str, str], checkpoint: str
) -> Revision:
    """Return the revision that the operator would make of a spec as it is written."""
    spec = PipelineSpec.model_validate(written)
    return Revision(
        namespace="bench",
        pipeline="bench",
        uid="0",
        spec=spec,
        kafka=KafkaConnection(bootstrap_servers=(bootstrap,)),
        topics=topics,
        checkpoint=checkpoint,
        tuning=build_tuning(spec, pinned_partitions=None),
        spark_conf={},
        image="none",
    )


def _kappa(session: SparkSession, run: Run, checkpoint: str) -> DataStreamWriter:
    topics = {"records": run.source, "out": run.out}
    revision = build_revision(SPECS[run.name], run.bootstrap, topics, checkpoint)
    for key, value in build_spark_settings(revision).items():
        if key.startswith("spark.sql.") and session.conf.isModifiable(key):
            session.conf.set(key, value)
    return compile_revision(session, revision).sinks[0].writer


def _plain(session: SparkSession, run: Run, checkpoint: str) -> DataStreamWriter:
    """The same query as its manual would have it: no setting changed."""
    records = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", run.bootstrap)
        .option("subscribe", run.source)
        .option("startingOffsets", "earliest")
        .load()
        .select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("r"))
        .select("r.*")
        .withWatermark("ts", "10 minutes")
    )
    rows, mode = records, "append"
    if run.name == "window":
        window = f.window("ts", "1 minute").alias("w")
        rows, mode = records.groupBy(window, "k").agg(f.avg("v").alias("mean")), "update"
    return (
        rows.select(f.col("k").cast("string").alias("key"), f.to_json(f.struct("*")).alias("value"))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", run.bootstrap)
        .option("topic", run.out)
        .option("checkpointLocation", checkpoint)
        .outputMode(mode)
    )
