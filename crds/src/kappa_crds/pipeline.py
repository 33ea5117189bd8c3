"""`Pipeline`: a streaming job from topics through SQL views to topics."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.model import (
    ColumnName,
    Cpu,
    Duration,
    Model,
    ResourceName,
    Rule,
    Size,
    SqlName,
    Status,
    TopicName,
)
from kappa_crds.resource import AGE, MESSAGE, READY, REASON, STATE, Kind, PrinterColumn, ResourceStatus

PIPELINE_FINALIZER = "kappa-platform.io/pipeline"


class JsonFormat(Model):
    """Values are JSON objects."""

    schema_: Annotated[
        str,
        Field(
            alias="schema",
            min_length=3,
            max_length=65_536,
            description="Columns and their types as Spark DDL: `carrier STRING, dep_delay DOUBLE, scheduled TIMESTAMP`.",
        ),
    ]
    timestamp_format: Annotated[
        str | None,
        Field(max_length=128, description="Pattern of timestamps, where they are not ISO 8601."),
    ] = None


class Format(Model):
    """How the bytes of a record's value become columns."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("has(self.json)", "set exactly one format; the formats are: json"),
    )
    json_: Annotated[JsonFormat | None, Field(alias="json", description="JSON objects.")] = None


class EventTime(Model):
    """When things happened, and how late they may arrive."""

    column: Annotated[ColumnName, Field(description="The TIMESTAMP column that says when it happened.")]
    watermark: Annotated[
        Duration, Field(description="How far out of order records may be; later ones count as late.")
    ]


class RecordColumns(Model):
    """Columns that a record has besides its value; each is added under the name given here."""

    key: Annotated[ColumnName | None, Field(description="Column for the record's key, as STRING.")] = None
    timestamp: Annotated[
        ColumnName | None, Field(description="Column for Kafka's timestamp of the record.")
    ] = None
    headers: Annotated[
        ColumnName | None,
        Field(description="Column for the headers, as ARRAY<STRUCT<key STRING, value BINARY>>."),
    ] = None
    topic: Annotated[ColumnName | None, Field(description="Column for the topic's name.")] = None
    partition: Annotated[ColumnName | None, Field(description="Column for the partition, as INT.")] = None
    offset: Annotated[ColumnName | None, Field(description="Column for the offset, as BIGINT.")] = None


class Source(Model):
    """A topic read as a stream."""

    name: Annotated[SqlName, Field(description="Name by which views refer to it.")]
    topic: Annotated[
        TopicName,
        Field(
            description="Name of a Topic resource in the namespace, or of a topic in Kafka where there is none."
        ),
    ]
    format: Annotated[Format, Field(description="How the value is read.")]
    event_time: Annotated[EventTime | None, Field(description="Event time and watermark.")] = None
    record_columns: Annotated[
        RecordColumns | None,
        Field(description="Key, timestamp, headers and position of the record as columns."),
    ] = None
    starting_offsets: Annotated[
        str,
        Field(
            max_length=64, description="Where a new pipeline starts: earliest, latest, or a time (RFC 3339)."
        ),
        Rule(
            "self == 'earliest' || self == 'latest' || self.matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$')",
            "must be earliest, latest, or a time such as 2013-01-01T00:00:00Z",
        ),
    ] = "earliest"


class View(Model):
    """A named SQL query over sources and earlier views."""

    name: Annotated[SqlName, Field(description="Name by which later views and sinks refer to it.")]
    sql: Annotated[str, Field(min_length=1, max_length=65_536, description="A SELECT in Spark SQL.")]


class OutputMode(StrEnum):
    """Which rows of a result are written at each batch (Spark's output modes)."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


class Sink(Model):
    """A topic that a source's or view's rows are written to."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.mode == 'append' || has(self.key)",
            "a sink with mode update or complete needs a key, so that readers can tell which row is replaced",
        ),
    )
    name: Annotated[SqlName, Field(description="Name of the sink; its progress is kept under this name.")]
    from_: Annotated[SqlName, Field(alias="from", description="The view or source whose rows are written.")]
    topic: Annotated[
        TopicName,
        Field(
            description="Name of a Topic resource in the namespace, or of a topic in Kafka where there is none."
        ),
    ]
    key: Annotated[
        tuple[ColumnName, ...] | None,
        Field(
            min_length=1,
            max_length=16,
            description="Columns of the record's key: one column as text, several as a JSON object.",
        ),
    ] = None
    value: Annotated[
        tuple[ColumnName, ...] | None,
        Field(
            min_length=1,
            max_length=256,
            description="Columns of the value, a JSON object; all where left out.",
        ),
    ] = None
    mode: Annotated[OutputMode, Field(description="append: final rows only; update: each changed row.")] = (
        OutputMode.APPEND
    )


class Trigger(Model):
    """When a batch starts, and how much it takes."""

    interval: Annotated[
        Duration | None, Field(description="Time from batch to batch; as soon as possible where left out.")
    ] = None
    max_records: Annotated[
        int | None, Field(ge=1, description="Most records that one batch takes from all sources together.")
    ] = None


class DriverResources(Model):
    """The driver pod's size."""

    cpu: Annotated[Cpu, Field(description="Cores requested.")] = "500m"
    memory: Annotated[Size, Field(description="Memory limit of the pod.")] = "1536Mi"


class ExecutorResources(Model):
    """Number and size of the executors."""

    count: Annotated[
        int,
        Field(
            ge=0, le=1000, description="Executor pods; 0 runs the tasks in the driver, for small pipelines."
        ),
    ] = 1
    cpu: Annotated[Cpu, Field(description="Cores of each.")] = "1"
    memory: Annotated[Size, Field(description="Memory limit of each pod.")] = "2Gi"


class Resources(Model):
    """What the pods get."""

    driver: Annotated[DriverResources, Field(description="The driver.")] = DriverResources()
    executors: Annotated[ExecutorResources, Field(description="The executors.")] = ExecutorResources()


class Restart(Model):
    """How a driver that failed is started again."""

    initial_delay: Annotated[
        Duration, Field(description="Wait before the first restart; doubles each time.")
    ] = "5s"
    max_delay: Annotated[Duration, Field(description="Longest wait between restarts.")] = "5m"
    reset_after: Annotated[
        Duration, Field(description="A driver that ran this long without failure starts counting anew.")
    ] = "10m"


_PINNED = (
    "spark.sql.streaming.stateStore., spark.sql.streaming.checkpointLocation, spark.kubernetes., spark.master,"
    " spark.driver. and spark.executor.instances"
)


class PipelineSpec(Model):
    """A streaming job from topics through SQL views to topics."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.sources.all(s, self.sources.exists_one(other, other.name == s.name))",
            "two of spec.sources have the same name; give each its own",
        ),
        Rule(
            "self.views.all(v, self.views.exists_one(other, other.name == v.name)"
            " && !self.sources.exists(s, s.name == v.name))",
            "a name in spec.views is taken by another view or source; give each its own",
        ),
        Rule(
            "self.sinks.all(k, self.sinks.exists_one(other, other.name == k.name))",
            "two of spec.sinks have the same name; give each its own",
        ),
        Rule(
            "self.sinks.all(k, self.views.exists(v, v.name == k.from) || self.sources.exists(s, s.name == k.from))",
            "a sink's from names neither a view nor a source; use a name from spec.views or spec.sources",
        ),
        Rule(
            "self.sinks.all(k, !self.sources.exists(s, s.topic == k.topic))",
            "a sink writes to a topic that is a source of the same pipeline; that would never end",
        ),
        Rule(
            "!has(self.deadLetter) || !self.sources.exists(s, s.topic == self.deadLetter)",
            "spec.deadLetter is a source of the same pipeline; that would never end",
        ),
        Rule(
            "!has(oldSelf.stateStoreRef) || (has(self.stateStoreRef) && self.stateStoreRef == oldSelf.stateStoreRef)",
            "spec.stateStoreRef cannot change: the checkpoint would be left behind; create a new Pipeline",
        ),
        Rule(
            "!has(oldSelf.clusterRef) || (has(self.clusterRef) && self.clusterRef == oldSelf.clusterRef)",
            "spec.clusterRef cannot change: offsets of one cluster mean nothing in another; create a new Pipeline",
        ),
        Rule(
            "!has(self.sparkConf) || self.sparkConf.all(key, key.startsWith('spark.'))",
            "spec.sparkConf takes Spark's settings only; each key starts with spark.",
        ),
        Rule(
            "!has(self.sparkConf) || self.sparkConf.all(key, !key.startsWith('spark.sql.streaming.stateStore.')"
            " && !key.startsWith('spark.kubernetes.') && !key.startsWith('spark.driver.')"
            " && !(key in ['spark.master', 'spark.sql.streaming.checkpointLocation', 'spark.executor.instances']))",
            f"spec.sparkConf sets what the platform decides ({_PINNED}); remove it",
        ),
    )
    cluster_ref: Annotated[
        ResourceName | None,
        Field(description="Name of the KafkaCluster; may be left out where the namespace has just one."),
    ] = None
    state_store_ref: Annotated[
        ResourceName | None,
        Field(description="Name of the StateStore; may be left out where the namespace has just one."),
    ] = None
    sources: Annotated[tuple[Source, ...], Field(min_length=1, max_length=16, description="The topics read.")]
    views: Annotated[
        tuple[View, ...], Field(max_length=64, description="SQL over sources and earlier views, in order.")
    ] = ()
    sinks: Annotated[tuple[Sink, ...], Field(min_length=1, max_length=16, description="The topics written.")]
    dead_letter: Annotated[
        TopicName | None,
        Field(description="Topic for records that cannot be read; without it they are only counted."),
    ] = None
    trigger: Annotated[Trigger, Field(description="When a batch starts, and how much it takes.")] = Trigger()
    resources: Annotated[Resources, Field(description="What the pods get.")] = Resources()
    restart: Annotated[Restart, Field(description="How a driver that failed is started again.")] = Restart()
    stop_timeout: Annotated[
        Duration, Field(description="How long a batch may take to end when the driver is asked to stop.")
    ] = "2m"
    suspend: Annotated[bool, Field(description="Stop at the end of a batch, and stay stopped.")] = False
    image: Annotated[
        str | None, Field(min_length=1, max_length=512, description="Image of driver and executors.")
    ] = None
    spark_conf: Annotated[
        dict[str, Annotated[str, Field(max_length=2048)]],
        Field(max_length=64, description="Further Spark settings."),
    ] = Field(default_factory=dict)


class PipelineState(StrEnum):
    """The states of a pipeline."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    FAILED = "Failed"
    SUSPENDED = "Suspended"


class Restarts(Status):
    """Failures since the last quiet time, and when the next start is due."""

    crashes: Annotated[int, Field(ge=0, description="Drivers that started and died.")] = 0
    scheduling: Annotated[int, Field(ge=0, description="Drivers that could not be started.")] = 0
    total: Annotated[int, Field(ge=0, description="Restarts in the pipeline's life.")] = 0
    next_start: Annotated[datetime | None, Field(description="Earliest time of the next start.")] = None
    last_failure: Annotated[str | None, Field(description="Message of the last failure.")] = None
    last_reason: Annotated[str | None, Field(description="Reason of the last failure.")] = None
    hopeless_revision: Annotated[
        str | None,
        Field(description="Revision that would fail again in the same way; it is not started again."),
    ] = None


class SourceStatus(Status):
    """Where the pipeline is in one source."""

    name: Annotated[str, Field(description="Name of the source.")]
    topic: Annotated[str | None, Field(description="Topic in Kafka.")] = None
    lag: Annotated[
        int | None, Field(ge=0, description="Records in the topic that are not processed yet.")
    ] = None


class PipelineStatus(ResourceStatus):
    """What the operator saw and did, and what it is about to do."""

    generation: Annotated[
        int,
        Field(ge=0, description="Fencing token of the current driver; written before the driver is made."),
    ] = 0
    revision: Annotated[str | None, Field(description="Name of the ConfigMap with the current revision.")] = (
        None
    )
    driver: Annotated[str | None, Field(description="Name of the current driver pod.")] = None
    driver_uid: Annotated[str | None, Field(description="Uid of the driver pod last seen.")] = None
    running_since: Annotated[datetime | None, Field(description="When the driver began to process.")] = None
    stopping_since: Annotated[datetime | None, Field(description="When the driver was asked to stop.")] = None
    restarts: Annotated[Restarts, Field(description="Failures and restarts.")] = Restarts()
    executors: Annotated[int, Field(ge=0, description="Executors of the current revision.")] = 0
    selector: Annotated[
        str | None, Field(description="Label selector of the executors, for autoscalers.")
    ] = None
    shuffle_partitions: Annotated[
        int | None, Field(ge=1, description="Partitions of the state, fixed when the checkpoint was born.")
    ] = None
    tuning: Annotated[tuple[str, ...], Field(description="What the operator sized by itself, and why.")] = ()
    guarantee: Annotated[str | None, Field(description="Delivery guarantee of the sinks, as computed.")] = (
        None
    )
    batch: Annotated[int | None, Field(description="Last committed batch.")] = None
    records: Annotated[int | None, Field(description="Records read by the current driver.")] = None
    dead_lettered: Annotated[
        int | None, Field(description="Records that could not be read, in this driver.")
    ] = None
    late: Annotated[int | None, Field(description="Records dropped as late by the current driver.")] = None
    lag_records: Annotated[int | None, Field(description="Records not processed yet, over all sources.")] = (
        None
    )
    lag: Annotated[str | None, Field(description="Lag, for people.")] = None
    rate: Annotated[str | None, Field(description="Records a second, for people.")] = None
    watermark: Annotated[datetime | None, Field(description="Event-time watermark.")] = None
    sources: Annotated[
        tuple[SourceStatus, ...], Field(description="Where the pipeline is in each source.")
    ] = ()


PIPELINE = Kind(
    name="Pipeline",
    plural="pipelines",
    short_names=("kp",),
    description="A streaming job from topics through SQL views to topics.",
    spec=PipelineSpec,
    status=PipelineStatus,
    columns=(
        READY,
        STATE,
        PrinterColumn("Lag", ".status.lag"),
        PrinterColumn("Rate", ".status.rate"),
        PrinterColumn("Guarantee", ".status.guarantee"),
        PrinterColumn("Executors", ".status.executors", "integer", priority=1),
        PrinterColumn("Revision", ".status.revision", priority=1),
        PrinterColumn("Restarts", ".status.restarts.total", "integer", priority=1),
        REASON,
        MESSAGE,
        AGE,
    ),
    name_limit=40,
    scale={
        "specReplicasPath": ".spec.resources.executors.count",
        "statusReplicasPath": ".status.executors",
        "labelSelectorPath": ".status.selector",
    },
)
