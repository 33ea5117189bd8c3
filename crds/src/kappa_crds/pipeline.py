"""`Pipeline`: a streaming job from topics through SQL views to topics."""

from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.model import Cpu, Duration, Memory, Model, PositiveDuration, ResourceName, Rule, TopicName
from kappa_crds.pipeline_status import PipelineStatus
from kappa_crds.pod_template import PodRole, PodTemplate, ServiceAccount
from kappa_crds.resource import ConfigMapRef, Kind, PrinterColumn, build_columns
from kappa_crds.savepoint import Restore
from kappa_crds.savepoint_policy import SavepointPolicy
from kappa_crds.sink import Sink
from kappa_crds.source import Source
from kappa_crds.spark_settings import SETTINGS_RULES
from kappa_crds.state_settings import StateSettings
from kappa_crds.upgrade import Upgrade
from kappa_crds.view import View

PIPELINE_FINALIZER = "kappa-platform.io/pipeline"


class DriverResources(Model):
    """The driver pod's size."""

    cpu: Cpu = "500m"
    """Cores requested."""
    memory: Memory = "1536Mi"
    """Memory limit of the pod."""


class ExecutorResources(Model):
    """Number and size of the executors."""

    count: Annotated[int, Field(ge=0, le=1000)] = 1
    """Executor pods; 0 runs the tasks in the driver, for small pipelines."""
    cpu: Cpu = "1"
    """Cores of each."""
    memory: Memory = "2Gi"
    """Memory limit of each pod."""


class Resources(Model):
    """Resources of the pods."""

    driver: DriverResources = DriverResources()
    """The driver."""
    executors: ExecutorResources = ExecutorResources()
    """The executors."""


class RealTime(Model):
    """Each record is processed separately, within milliseconds; batches only record the progress."""

    checkpoint_interval: PositiveDuration = "1m"
    """How long a batch lasts, 5s or more; its offsets are kept when it ends. A stop waits for that, and after
    a crash the rows of this time are written again."""


class Trigger(Model):
    """When a batch starts, and how much it takes; or, in real time, that no record waits for one."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.realTime) || (!has(self.interval) && !has(self.maxRecords))",
            "realTime goes with neither interval nor maxRecords: no record waits for a batch; leave them out",
        ),
    )
    interval: Duration | None = None
    """Interval between batches. Default: as soon as possible."""
    max_records: Annotated[int | None, Field(ge=1)] = None
    """Maximum number of records in a batch, over all sources. Default: as many as are processed within 20 seconds,
    or within the interval if that is longer, measured by the batches before; between whole transactions 200,000,
    or one transaction that has more."""
    real_time: RealTime | None = None
    """Real-time mode, for pipelines without state: a record waits for no batch."""


class Restart(Model):
    """Back-off for restarts of a failed driver."""

    initial_delay: PositiveDuration = "5s"
    """Delay before the first restart; it doubles with each one."""
    max_delay: PositiveDuration = "5m"
    """Longest wait between restarts."""
    reset_after: Duration = "10m"
    """A driver that ran this long without failure resets the count of failures."""


def _reads(topic: str) -> str:
    """Return the condition that source `s` names a topic."""
    return f"((has(s.topic) && s.topic == {topic}) || (has(s.topics) && {topic} in s.topics))"


_HAS_SIDE_OUTPUT = (
    "(has(v.window) && has(v.window.lateRecords) && has(v.window.lateRecords.sideOutput))"  # of view `v`
)
_LATE_AGAIN = (
    "the late records of a view are written to a topic that is a source of the same pipeline; they would be late again"
    " again, and that would never end; write them to another topic"
)


class Encryption(Model):
    """Encryption beyond that of the network, which is always on."""

    local_data: bool = False
    """Encrypt what Spark writes to local disks for shuffles, caches and spills (AES). State in RocksDB is not
    covered: encrypt the disks of the nodes for it."""


class PythonFrom(Model):
    """Where Python modules come from that are not in the image."""

    config_map_ref: ConfigMapRef
    """A ConfigMap whose keys `NAME.py` are modules on the Python path of driver and executors, 512 KiB at
    most. They are copied into the revision, so a change of the ConfigMap is a new revision."""


class PipelineSpec(Model):
    """A streaming job from topics through SQL views to topics."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.sources.all(s, self.sources.exists_one(other, other.name == s.name))",
            "two of spec.sources have the same name; give each its own",
            "'two of spec.sources have the name ' + self.sources.map(s,"
            " !self.sources.exists_one(other, other.name == s.name), s.name)[0] + '; give each its own'",
        ),
        Rule(
            "self.views.all(v, self.views.exists_one(other, other.name == v.name)"
            " && !self.sources.exists(s, s.name == v.name))",
            "a name in spec.views is taken by another view or source; give each its own",
            "'spec.views has the name ' + self.views.map(v, !self.views.exists_one(other, other.name == v.name)"
            " || self.sources.exists(s, s.name == v.name), v.name)[0]"
            " + ', which is taken by another view or source; give each its own'",
        ),
        Rule(
            "self.sinks.all(k, self.sinks.exists_one(other, other.name == k.name))",
            "two of spec.sinks have the same name; give each its own",
            "'two of spec.sinks have the name ' + self.sinks.map(k,"
            " !self.sinks.exists_one(other, other.name == k.name), k.name)[0] + '; give each its own'",
        ),
        Rule(
            "self.sinks.all(k, self.views.exists(v, v.name == k.from) || self.sources.exists(s, s.name == k.from))",
            "a sink's from names neither a view nor a source; use a name from spec.views or spec.sources",
            "'from of one of spec.sinks names ' + self.sinks.map(k, !self.views.exists(v, v.name == k.from)"
            " && !self.sources.exists(s, s.name == k.from), k.from)[0]"
            " + ', which is neither a view nor a source; use a name from spec.views or spec.sources'",
        ),
        Rule(
            f"self.sinks.all(k, !has(k.kafka) || !self.sources.exists(s, {_reads('k.kafka.topic')}))",
            "a sink writes to a topic that is a source of the same pipeline; that would never end; write to another topic",
            f"'one of spec.sinks writes to topic ' + self.sinks.map(k, has(k.kafka) && self.sources.exists(s,"
            f" {_reads('k.kafka.topic')}), k.kafka.topic)[0] + ', a source of the same pipeline; that would never end; write to another topic'",
        ),
        Rule(
            f"!has(self.deadLetter) || !self.sources.exists(s, {_reads('self.deadLetter')})",
            "spec.deadLetter is a source of the same pipeline; that would never end; use another topic",
        ),
        Rule(
            f"self.views.all(v, !{_HAS_SIDE_OUTPUT} || !self.sources.exists(s, {_reads('v.window.lateRecords.sideOutput.topic')}))",
            _LATE_AGAIN,
        ),
        Rule(
            "self.views.all(v, !(has(v.sliding) && has(v.sliding.lateRecords)) ||"
            f" !self.sources.exists(s, {_reads('v.sliding.lateRecords.sideOutput.topic')}))",
            _LATE_AGAIN,
        ),
        Rule(
            "!has(self.trigger) || !has(self.trigger.realTime) || self.sinks.all(k, k.mode == 'append')",
            "in real-time mode no row replaces another, as nothing is kept; leave out the mode of the sinks, or trigger.realTime",
        ),
        Rule(
            "!has(self.trigger) || !has(self.trigger.realTime) || self.sinks.all(k, !has(k.kafka) || k.kafka.delivery == 'AtLeastOnce')",
            "a sink with delivery ExactlyOnce writes batch by batch, and real-time mode has no batches; take out delivery, or"
            " trigger.realTime",
            "'sink ' + self.sinks.map(k, has(k.kafka) && k.kafka.delivery != 'AtLeastOnce', k.name)[0] + ' has delivery ExactlyOnce, which writes batch by"
            " batch, and real-time mode has none; take out delivery, or trigger.realTime'",
        ),
        Rule(
            "!has(self.trigger) || !has(self.trigger.realTime) || self.sources.all(s, !has(s.envelope)"
            " || !has(s.envelope.debezium.transactions))",
            "a source with envelope.debezium.transactions reads a transaction in one batch, and real-time mode has no batches;"
            " leave out one of the two",
        ),
        Rule(
            "!has(self.trigger) || !has(self.trigger.realTime) || self.sources.all(s, !has(s.format) || !has(s.format.protobuf))",
            "in real-time mode no source can have the format protobuf, which is decoded a batch of records at a time; leave out"
            " trigger.realTime, or write the rows to another topic first",
            "'source ' + self.sources.map(s, has(s.format) && has(s.format.protobuf), s.name)[0] + ' has the format protobuf,"
            " which is decoded a batch of records at a time, and real-time mode has none; leave out trigger.realTime, or write the"
            " rows to another topic first'",
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
            "!has(self.upgrade) || !has(self.upgrade.reprocessing) || !has(self.upgrade.reprocessing.replay)"
            " || !has(self.upgrade.reprocessing.replay.executors) || !has(self.resources) || !has(self.resources.executors)"
            " || !has(self.resources.executors.count) || self.resources.executors.count > 0",
            "spec.upgrade.reprocessing.replay.executors needs executors of the pipeline's own: without them its tasks run in"
            " the driver; set spec.resources.executors.count to 1 or more, or leave out replay.executors",
        ),
        *SETTINGS_RULES,
    )
    cluster_ref: ResourceName | None = None
    """Name of the KafkaCluster; may be left out where the namespace has just one."""
    state_store_ref: ResourceName | None = None
    """Name of the StateStore; may be left out where the namespace has just one."""
    sources: Annotated[tuple[Source, ...], Field(min_length=1, max_length=16)]
    """Sources of the pipeline."""
    views: Annotated[tuple[View, ...], Field(max_length=64)] = ()
    """Queries over sources and other views, in any order."""
    sinks: Annotated[tuple[Sink, ...], Field(min_length=1, max_length=16)]
    """Destinations of rows."""
    dead_letter: TopicName | None = None
    """Topic for records that cannot be read; without it they are only counted."""
    trigger: Trigger = Trigger()
    """When a batch starts, and how much it takes."""
    resources: Resources = Resources()
    """Resources of the pods."""
    state_partitions: Annotated[int | None, Field(ge=1, le=4096)] = None
    """Partitions of the state. Left out: one for each core when the checkpoint is born, and as many ever
    since. Another number repartitions the state, which reads and writes all of it once."""
    state: StateSettings | None = None
    """How state is kept: snapshots, changelogs, compression, memory; may be changed while there is state."""
    restart: Restart = Restart()
    """Back-off for restarts of a failed driver."""
    stop_timeout: Duration = "2m"
    """How long a batch may continue after a stop request."""
    savepoints: SavepointPolicy | None = None
    """Scheduled savepoints, and how long they are kept."""
    upgrade: Upgrade = Upgrade()
    """How a changed spec replaces the active revision."""
    restore: Restore | None = None
    """Restore from a savepoint, once for each value. The current checkpoint is not changed."""
    suspend: bool = False
    """Stop after the current batch, and do not start again."""
    restart_nonce: Annotated[str, Field(max_length=64)] = ""
    """Any text; a change starts a new driver, with the handover of spec.upgrade.handover. The state is
    kept in every mode."""
    reprocess_nonce: Annotated[str, Field(max_length=64)] = ""
    """Any text; a change computes the whole log again in a Reprocessing, although nothing else is changed, where
    spec.upgrade.mode is Shadow or ShadowIfNeeded. In other modes it starts a new driver."""
    revision_history_limit: Annotated[int, Field(ge=0, le=1000)] = 10
    """Number of previous revisions to keep as ConfigMaps, besides the active one."""
    image: Annotated[
        str | None,
        Field(min_length=1, max_length=512),
        Rule("!self.matches('[^!-~]')", "must be the name of an image, without spaces"),
    ] = None
    """Image of driver and executors."""
    python_from: PythonFrom | None = None
    """Modules of Python views and of event sourcing that are not in the image."""
    spark_conf: Annotated[dict[str, Annotated[str, Field(max_length=2048)]], Field(max_length=64)] = Field(
        default_factory=dict
    )
    """Further Spark settings."""
    pod_template: PodTemplate | None = None
    """Added to the pods of the driver and of executors: labels, variables, volumes, placement."""
    driver: PodRole | None = None
    """The pods of drivers."""
    executors: PodRole | None = None
    """The pods of executors."""
    encryption: Encryption = Encryption()
    """Encryption of local data."""
    service_account: ServiceAccount | None = None
    """The ServiceAccounts of driver and executors."""

    @property
    def side_outputs(self) -> dict[str, str]:
        """Return the topics of late records, by the names of their views."""
        windows = {view.name: view.window or view.sliding for view in self.views}
        found = {name: window.side_output for name, window in windows.items() if window is not None}
        return {name: side_output.topic for name, side_output in found.items() if side_output is not None}

    @property
    def python(self) -> tuple[str, ...]:
        """Return the fields with Python of the pipeline's author, which runs in driver and executors."""
        views = (view for view in self.views if view.python or view.event_sourced or view.projection)
        found = tuple(f"view {view.name!r} ({view.kind})" for view in views)
        return found if self.python_from is None else (*found, "spec.pythonFrom")

    @property
    def reads_transactions(self) -> bool:
        """Return whether batches end between transactions of a database."""
        return any(source.transactions is not None for source in self.sources)

    @property
    def written(self) -> tuple[tuple[str, str], ...]:
        """Return the topics that are written, each after the words for whatever writes it."""
        sinks = [(f"sink {sink.name!r}", sink.target.topic) for sink in self.sinks]
        late = [(f"view {name!r}", topic) for name, topic in self.side_outputs.items()]
        dead = [] if self.dead_letter is None else [("deadLetter", self.dead_letter)]
        return (*sinks, *late, *dead)


PIPELINE = Kind(
    name="Pipeline",
    plural="pipelines",
    short_names=("kpp",),
    description="A streaming job from topics through SQL views to topics.",
    spec=PipelineSpec,
    status=PipelineStatus,
    columns=build_columns(
        PrinterColumn("Lag", ".status.lag"),
        PrinterColumn("Rate", ".status.rate"),
        PrinterColumn("Guarantee", ".status.guarantee"),
        PrinterColumn("Executors", ".status.executors", "integer", priority=1),
        PrinterColumn("Revision", '.status.runs[?(@.role=="active")].revision', priority=1),
        PrinterColumn("Recovery", ".status.recovery.took", priority=1),
        PrinterColumn("Restarts", ".status.restarts.total", "integer", priority=1),
    ),
    name_limit=40,
    name_rules=(
        Rule(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "metadata.name of a Pipeline must start with a letter and hold only lower-case letters, digits and '-',"
            " because a Service is named after it",
        ),
    ),
    scale={
        "specReplicasPath": ".spec.resources.executors.count",
        "statusReplicasPath": ".status.executors",
        "labelSelectorPath": ".status.selector",
    },
)
