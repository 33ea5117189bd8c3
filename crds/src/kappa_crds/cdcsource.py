"""`CDCSource`: tables of a database as topics of change events."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.cdcsource_proof import PROVEN, ProofPolicy
from kappa_crds.cdcsource_requests import IncrementalSnapshot, OffsetsRequest, SchemaChanges
from kappa_crds.cdcsource_status import CDCSourceStatus
from kappa_crds.databases import ColumnPattern, KeyColumn, MySql, PostgreSql, TableName
from kappa_crds.envelope import DecimalEncoding
from kappa_crds.model import Duration, Model, PositiveDuration, PositiveSize, ResourceName, Rule
from kappa_crds.outbox import ExactTable, Outbox
from kappa_crds.resource import Kind, PrinterColumn, build_columns
from kappa_crds.topic import Cleanup, DeletionPolicy

CDC_SOURCE_FINALIZER = "kappa-platform.io/cdc-source"
DATABASE_READY = "DatabaseReady"
"""Whether the last check of the database found nothing that stops the connector."""
SLOT_SAFE = "SlotSafe"
"""Whether the WAL that the slot retains stays below its limit for long enough."""
BINLOG_SAFE = "BinlogSafe"
"""Whether the binary log is kept for long enough for the connector."""
SNAPSHOTTING = "Snapshotting"
"""Whether the rows that the tables have already are being read."""

TUNING = (
    "connect.timeout.ms", "incremental.snapshot.chunk.size", "max.batch.size", "max.queue.size", "max.queue.size.in.bytes",
    "min.row.count.to.stream.results", "poll.interval.ms", "retriable.restart.connector.wait.ms", "snapshot.delay.ms",
    "snapshot.fetch.size", "snapshot.lock.timeout.ms", "snapshot.max.threads", "status.update.interval.ms",
    "streaming.delay.ms",
)  # fmt: skip
"""Properties of a connector that a manifest may set; each is a number."""
_TUNING = ", ".join(f"'{name}'" for name in TUNING)


class SourceState(StrEnum):
    """What the connector is meant to do."""

    RUNNING = "Running"
    PAUSED = "Paused"
    STOPPED = "Stopped"


class SnapshotMode(StrEnum):
    """Whether the rows that the tables have already are read first."""

    INITIAL = "Initial"
    NEVER = "Never"
    WHEN_NEEDED = "WhenNeeded"


class HashAlgorithm(StrEnum):
    """Hashes of the columns that may be linked, but not read."""

    SHA_256 = "SHA-256"
    SHA_512 = "SHA-512"


class Delivery(StrEnum):
    """How often a change is written where a worker of Kafka Connect dies."""

    EXACTLY_ONCE = "ExactlyOnce"
    AT_LEAST_ONCE = "AtLeastOnce"


class Tables(Model):
    """The tables whose changes are read."""

    include: Annotated[tuple[TableName, ...], Field(min_length=1, max_length=64)]
    """Tables, as SCHEMA.TABLE with * and ?, in MySQL as DATABASE.TABLE. Without a schema it is `public`; MySQL needs it."""
    exclude: Annotated[tuple[TableName, ...], Field(max_length=64)] = ()
    """Tables that a pattern of `include` matches, but that are not read."""


class ShortenedColumns(Model):
    """Columns of text that are written otherwise than they are."""

    columns: Annotated[tuple[ColumnPattern, ...], Field(min_length=1, max_length=32)]
    """Columns, as SCHEMA.TABLE.COLUMN with * and ?."""
    length: Annotated[int, Field(ge=0, le=100_000)]
    """Number of characters."""


class HashedColumns(Model):
    """Columns of text that are replaced by a hash."""

    columns: Annotated[tuple[ColumnPattern, ...], Field(min_length=1, max_length=32)]
    """Columns, as SCHEMA.TABLE.COLUMN with * and ?."""
    algorithm: HashAlgorithm = HashAlgorithm.SHA_256
    """The hash."""
    salt: Annotated[
        str,
        Field(min_length=8, max_length=64),
        Rule("self.matches('^[A-Za-z0-9_-]+$')", "must be letters, digits, '_' and '-'"),
    ]
    """Text that is hashed together with each value, so that hashes of other sources differ. It is not secret: who can read
    this resource can try out which value has a hash."""


class Columns(Model):
    """Columns that are left out, or written otherwise than they are."""

    exclude: Annotated[tuple[ColumnPattern, ...], Field(max_length=64)] = ()
    """Columns that events do not have, as SCHEMA.TABLE.COLUMN with * and ?. A column of the primary key cannot be left out."""
    mask: Annotated[tuple[ShortenedColumns, ...], Field(max_length=16)] = ()
    """Columns of text that are replaced by so many asterisks."""
    truncate: Annotated[tuple[ShortenedColumns, ...], Field(max_length=16)] = ()
    """Columns of text that are cut after so many characters."""
    hash: Annotated[tuple[HashedColumns, ...], Field(max_length=16)] = ()
    """Columns of text that are replaced by a hash."""


class MessageKey(Model):
    """The key of the events of tables without a primary key, or another one than that."""

    table: TableName
    """Tables, as SCHEMA.TABLE with * and ?."""
    columns: Annotated[tuple[KeyColumn, ...], Field(min_length=1, max_length=16)]
    """Columns that identify a row together."""


class Snapshot(Model):
    """How the rows that the tables have already are read."""

    mode: SnapshotMode = SnapshotMode.INITIAL
    """Initial: once, before the changes. Never: only changes from now on. WhenNeeded: also where changes were lost, without
    asking."""
    request: Annotated[str, Field(max_length=64)] = ""
    """Any text; a change forgets the position of the connector and takes a new snapshot of all tables. With mode Never, the
    connector continues at the end of the log of the database instead."""
    incremental: IncrementalSnapshot | None = None
    """Rows of some tables are read again while changes are read."""


class SourceTopics(Model):
    """Topics that Kafka Connect creates, one for each table. Existing ones are not changed."""

    partitions: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Number of partitions of each topic."""
    replication: Annotated[int | None, Field(ge=1, le=32)] = None
    """Replicas of each partition; the broker's default where left out."""
    cleanup: Cleanup = Cleanup.COMPACT
    """Keep the last event of each key, so that a view can be built from the topic alone, or delete old records. Tables
    without a key need `delete`."""


class ConnectorRestart(Model):
    """Back-off for restarts of failed tasks."""

    initial_delay: PositiveDuration = "10s"
    """Delay before the first restart; it doubles with each one."""
    max_delay: PositiveDuration = "10m"
    """Longest wait between restarts."""
    reset_after: Duration = "10m"
    """A connector that ran this long without failure resets the count of failures."""


LARGEST_RECORD = 90 * 2**20
"""Bytes. Brokers accept no request above 100 MiB (socket.request.max.bytes), and many consumers none above 100 MB."""
RecordSize = Annotated[
    PositiveSize,
    Rule(
        "!isQuantity(self) || quantity(self).compareTo(quantity('1Mi')) >= 0",
        "must be at least 1Mi; a number without a unit counts bytes, so write 16Mi, not 16",
    ),
    Rule(
        f"!isQuantity(self) || quantity(self).compareTo(quantity('{LARGEST_RECORD}')) <= 0",
        "must be at most 90Mi: brokers accept no request above 100 MiB, and many consumers none above 100 MB",
    ),
]
TuningValue = Annotated[int, Field(ge=0, le=1_000_000_000_000)]


def _is_same(field: str) -> str:
    """Return the condition that a field is as it was. The API server cannot bound the cost of comparing optional values."""
    here, before = f"self.{field}", f"oldSelf.{field}"
    return f"has({here}) == has({before}) && (!has({here}) || {here} == {before})"


class CDCSourceSpec(Model):
    """A database, and which of its changes are written to topics."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(has(self.postgresql) ? 1 : 0) + (has(self.mysql) ? 1 : 0) + (has(self.mariadb) ? 1 : 0) == 1",
            "set exactly one of spec.postgresql, spec.mysql and spec.mariadb",
        ),
        Rule(
            "has(self.postgresql) == has(oldSelf.postgresql) && has(self.mysql) == has(oldSelf.mysql)",
            "the kind of database cannot change: the position of the connector means nothing in another one; create a new CDCSource",
        ),
        Rule(
            "!has(self.postgresql) || !has(oldSelf.postgresql) || self.postgresql.database == oldSelf.postgresql.database",
            "spec.postgresql.database cannot change: the position of the connector means nothing in another database; create a new CDCSource",
        ),
        Rule(
            f"!has(self.postgresql) || !has(oldSelf.postgresql) || ({_is_same('postgresql.slot')})",
            "spec.postgresql.slot cannot change: another slot has not kept the changes since the last one that was read; create a new CDCSource",
        ),
        Rule(
            _is_same("topicPrefix"),
            "spec.topicPrefix cannot change: the connector would take a new snapshot into new topics; create a new CDCSource",
        ),
        Rule(
            "!has(oldSelf.clusterRef) || (has(self.clusterRef) && self.clusterRef == oldSelf.clusterRef)",
            "spec.clusterRef cannot change: topics and positions are in that cluster; create a new CDCSource",
        ),
        Rule(
            "has(self.postgresql) || (self.tables.include.all(t, t.contains('.')) && (!has(self.tables.exclude) || self.tables.exclude.all(t, t.contains('.'))))",
            "spec.tables of MySQL and MariaDB must have DATABASE.TABLE, such as shop.orders",
        ),
        Rule(
            "!has(self.outbox) || has(self.postgresql) || self.outbox.table.contains('.')",
            "spec.outbox.table of MySQL and MariaDB must be DATABASE.TABLE, such as shop.outbox",
        ),
        Rule(
            "has(self.postgresql) || !has(self.offsets) || (!has(self.offsets.set) && !self.offsets.reset)",
            "spec.offsets reports the position of MySQL and MariaDB only; to read all rows again set spec.snapshot.request",
        ),
        Rule(
            "has(self.postgresql) || !has(self.signalTable) || self.signalTable.contains('.')",
            "spec.signalTable of MySQL and MariaDB must be DATABASE.TABLE, such as shop.kappa_signals",
        ),
        Rule(
            f"!has(self.config) || self.config.all(name, name in [{_TUNING}])",
            f"spec.config has a property that is not allowed; allowed are {', '.join(TUNING)}",
            f"'spec.config.' + self.config.filter(name, !(name in [{_TUNING}]))[0] + ' is not allowed; allowed are {', '.join(TUNING)}'",
        ),
    )  # fmt: skip
    cluster_ref: ResourceName | None = None
    """Name of the KafkaCluster, which has spec.connect; may be left out where the namespace has just one."""
    postgresql: PostgreSql | None = None
    """Read a database of PostgreSQL."""
    mysql: MySql | None = None
    """Read a server of MySQL."""
    mariadb: MySql | None = None
    """Read a server of MariaDB."""
    tables: Tables
    """The tables whose changes are read."""
    columns: Columns | None = None
    """Columns that are left out, or written otherwise than they are."""
    keys: Annotated[tuple[MessageKey, ...], Field(max_length=32)] = ()
    """Keys of events, for tables without a primary key."""
    snapshot: Snapshot = Snapshot()
    """How the rows that the tables have already are read."""
    signal_table: ExactTable | None = None
    """The table by which snapshots of some tables are requested, as SCHEMA.TABLE. It has the columns id (primary key), type and
    data of type text (in MySQL and MariaDB id of type varchar). The user of the connector needs SELECT, INSERT and DELETE on it."""
    outbox: Outbox | None = None
    """A table of events, which are written to topics by what they are about, in place of its change events."""
    topic_prefix: Annotated[
        str | None,
        Field(min_length=1, max_length=100),
        Rule("self.matches('^[A-Za-z0-9_][A-Za-z0-9._-]*$')", "must be letters, digits, '.', '_' and '-'"),
    ] = None
    """What the names of the topics begin with: `PREFIX.SCHEMA.TABLE`. Default: the name of this resource."""
    topics: SourceTopics = SourceTopics()
    """Topics that are created."""
    max_record_size: RecordSize | None = None
    """The largest record, which has a row before and after its change; Kafka's default, 1 MiB, where left out. max.message.bytes of
    the topics is raised to it, and never lowered. Workers need memory of about ten times this size."""
    decimals: DecimalEncoding = DecimalEncoding.BASE64
    """How DECIMAL columns are written; `envelope` of a source must have the same."""
    tombstones: bool = True
    """Whether a deletion is followed by a record without value, so that compaction removes the key."""
    transactions: bool = False
    """Whether events have their transaction, and a topic PREFIX.transaction has the begin and end of each."""
    heartbeat_interval: Duration = "10s"
    """How often the position is confirmed while the tables have no changes, so that the database can remove its log; 0s
    for never."""
    delivery: Delivery = Delivery.EXACTLY_ONCE
    """How often a change is written where a worker dies. ExactlyOnce needs workers with exactly-once support."""
    config: Annotated[dict[str, TuningValue], Field(max_length=16)] = Field(default_factory=dict)
    """Numbers for the tuning of Debezium, by the names of its properties. Others are not allowed."""
    state: SourceState = SourceState.RUNNING
    """Running; Paused keeps its tasks; Stopped has none. Meanwhile PostgreSQL keeps its log, MySQL and MariaDB until it expires."""
    restart: ConnectorRestart = ConnectorRestart()
    """Back-off for restarts of failed tasks."""
    schema_changes: SchemaChanges | None = None
    """What happens where columns or tables are dropped, renamed or retyped."""
    offsets: OffsetsRequest | None = None
    """Report or change the position of the connector."""
    check_interval: PositiveDuration = "5m"
    """How often a pod checks the database."""
    proof: ProofPolicy | None = None
    """Compares tables with their topics, by a pod; never where left out."""
    deletion_policy: DeletionPolicy = DeletionPolicy.RETAIN
    """Whether the slot, the publication that the connector created, and its position go with this resource. A slot that stays
    keeps the log of the database until it is dropped."""
    topic_deletion_policy: DeletionPolicy = DeletionPolicy.RETAIN
    """Whether the topics of the tables go with this resource."""

    @property
    def database(self) -> PostgreSql | MySql:
        """Return the database, of whatever kind."""
        found = self.postgresql or self.mysql or self.mariadb
        if found is None:
            raise ValueError("spec has no database")
        return found


CDC_SOURCE = Kind(
    name="CDCSource",
    plural="cdcsources",
    short_names=("kpc",),
    description="Tables of a database, whose changes become records of topics.",
    spec=CDCSourceSpec,
    status=CDCSourceStatus,
    columns=build_columns(
        PrinterColumn("Database", ".status.database"),
        PrinterColumn("Tables", ".status.tables", "integer"),
        PrinterColumn("Retained", ".status.slot.retained"),
        PrinterColumn("Proven", ".status.proof.proven", "date"),
        PrinterColumn("Connector", ".status.connector", priority=1),
    ),
    name_limit=100,
    conditions=(DATABASE_READY, SLOT_SAFE, BINLOG_SAFE, SNAPSHOTTING, PROVEN),
)
