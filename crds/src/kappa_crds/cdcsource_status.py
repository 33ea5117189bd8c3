"""The status of a `CDCSource`: what the operator saw of its connector and its database."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from kappa_crds.cdcsource_proof import ProofStatus
from kappa_crds.model import Status
from kappa_crds.resource import ResourceStatus
from kappa_crds.savepoint_work import WorkState


class DatabaseWork(Status):
    """The last pod that worked in the database. Its number is recorded before the pod is created."""

    number: Annotated[int, Field(ge=1)]
    """Number of the pod."""
    task: str = "Check"
    """Check, Signal for an incremental snapshot, Drop at the deletion of the resource, or DropOutgrown for a slot that retains too much."""
    state: WorkState = WorkState.RUNNING
    """How far it is."""
    fingerprint: str = ""
    """Fingerprint of the settings and the versions of the Secrets that it was started with."""
    at: datetime
    """When it began."""
    first: datetime | None = None
    """When the first of several attempts to drop slot and publication began."""


class SlotStatus(Status):
    """The replication slot at the last check, and what identifies it."""

    name: str
    """Name of the slot."""
    system: str = ""
    """Identifier of the database system; another one is another database cluster."""
    timeline: int | None = None
    """Timeline of the WAL; it grows with each promotion of a standby."""
    confirmed: int | None = None
    """Position (LSN, as a number) up to which the database has no changes for the connector any more."""
    retained_bytes: int | None = None
    """Bytes of WAL that the slot keeps on the disk of the database."""
    safe_bytes: int | None = None
    """Bytes that can still be written to the WAL before the slot is lost, where the database has a limit."""
    retained: str | None = None
    """The retained WAL in words, for people."""
    wal_status: str | None = None
    """State of that WAL, as PostgreSQL has it: reserved, extended, unreserved or lost."""
    failover: bool | None = None
    """Whether the server copies the slot to standbys; not known before PostgreSQL 17."""


class LogSample(Status):
    """The WAL of the slot at a check."""

    at: datetime
    """When it was read."""
    retained_bytes: int
    """Bytes that the slot retained."""


class LogForecast(Status):
    """When the WAL that the slot retains reaches a limit."""

    samples: Annotated[tuple[LogSample, ...], Field(max_length=12)] = ()
    """The last checks since the retained WAL last became less, the oldest first."""
    bytes_per_second: float | None = None
    """How fast the retained WAL grows; not known from fewer than three checks in which it became more."""
    limit: str | None = None
    """The limit that is reached first."""
    remaining_bytes: int | None = None
    """Bytes until then; 0 or less where it was reached."""
    seconds_left: float | None = None
    """Seconds until then, from the last check, at that rate."""


class LogMark(Status):
    """A position in the binary log of MySQL or MariaDB."""

    file: str
    """Name of the file."""
    position: int
    """Position in the file, in bytes."""
    gtids: str = ""
    """Last transactions before the position, as MariaDB has them: DOMAIN-SERVER-NUMBER, with commas."""


class BinlogStatus(Status):
    """The binary log at the last check, and what identifies it."""

    server: str = ""
    """Identifier of the server of MySQL; MariaDB has none."""
    oldest: str
    """The first file that there is."""
    end: LogMark | None = None
    """The end of the log, once the connector has a position. At the next check the same log has the same transactions there."""
    retained_bytes: int | None = None
    """Bytes of all files on the disk of the database."""
    retained: str | None = None
    """The same in words, for people."""
    retention_seconds: int | None = None
    """How long the server keeps files; nothing where it removes none by age."""
    stored_until: datetime | None = None
    """Changes up to this time were stored, at least. The server keeps those after it for that long from then on."""


class SchemaTopic(Status):
    """The topic with the history of the schemas of MySQL or MariaDB, by which a connector decodes the binary log."""

    name: str
    """Name of the topic."""
    topic_id: str
    """Its id in Kafka; a topic of the same name that was created later has another one."""


class ConnectorRestarts(Status):
    """Restarts of failed tasks."""

    failures: int = 0
    """Failures in a row."""
    total: int = 0
    """Restarts in the life of the resource."""
    last: datetime | None = None
    """When tasks were last restarted."""
    next_attempt: datetime | None = None
    """When failed tasks are restarted."""


class IncrementalState(StrEnum):
    """How far an incremental snapshot is."""

    WAITING = "Waiting"
    REQUESTED = "Requested"
    RUNNING = "Running"
    DONE = "Done"
    STOPPED = "Stopped"
    FAILED = "Failed"
    SUPERSEDED = "Superseded"


ACTIVE_SNAPSHOTS = (IncrementalState.REQUESTED, IncrementalState.RUNNING)
"""The connector knows the request, or will read it in the log."""


class TableRange(Status):
    """A table of an incremental snapshot, before it was read."""

    table: str
    """Name of the table."""
    rows: int | None = None
    """Estimated number of rows."""
    first: int | None = None
    """Lowest key, where the key is one whole number."""
    last: int | None = None
    """Highest key, where the key is one whole number."""


class IncrementalStatus(Status):
    """The last incremental snapshot that was requested."""

    request: str
    """The request that it is of."""
    state: IncrementalState
    """How far it is."""
    message: str = ""
    """The state in words."""
    signal: str = ""
    """Id of the signal that the connector gets."""
    tables: tuple[TableRange, ...] = ()
    """Its tables."""
    position: int | None = None
    """Position (LSN, as a number) behind the request in the log: a connector that is there has read it."""
    begun: datetime | None = None
    """When it was requested of the connector."""
    ended: datetime | None = None
    """When its end was noticed."""
    tables_done: int = 0
    """Tables that were read."""
    rows: int | None = None
    """Estimated rows of all tables; a condition may leave out many."""
    rows_done: int | None = None
    """Estimated rows that were read."""
    remaining: str | None = None
    """Estimated time until the end."""
    is_stop_sent: bool = False
    """Whether the connector was requested to stop it."""
    hidden_since: datetime | None = None
    """Since when the position of the connector does not show which tables are left, which it does not after a restart."""


class OffsetsStatus(Status):
    """The answer to the last request in spec.offsets."""

    request: str
    """The request."""
    at: datetime
    """When it was carried out."""
    message: str
    """What was done, or why nothing was."""
    refused: bool = False
    """Whether nothing was done."""
    position: dict[str, str] = Field(default_factory=dict)
    """The position then. Keys of rows are left out."""


class SchemaStatus(Status):
    """The columns of the tables that the source goes by."""

    fingerprint: str
    """Fingerprint of the columns."""
    columns: str
    """The columns, packed."""
    scope: str = ""
    """Fingerprint of the choice of tables and columns in the spec."""
    refused: str | None = None
    """The fingerprint of a change that is not accepted."""
    changes: tuple[str, ...] = ()
    """What that change is."""


class CDCSourceStatus(ResourceStatus):
    """What the operator saw of the source."""

    cluster: str | None = None
    """Name of the KafkaCluster."""
    database: str | None = None
    """The database, for people."""
    connector: str | None = None
    """Name of the connector in Kafka Connect."""
    topic_prefix: str | None = None
    """What the names of the topics begin with."""
    tables: int | None = None
    """Tables that were read at the last check."""
    work: DatabaseWork | None = None
    """The last pod that worked in the database."""
    last_check: datetime | None = None
    """When the last check of the database ended."""
    owns_publication: bool | None = None
    """Whether the connector may change its publication."""
    slot: SlotStatus | None = None
    """The replication slot at the last check."""
    proof: ProofStatus | None = None
    """Proofs that the tables equal their topics."""
    log: LogForecast | None = None
    """When the WAL that the slot retains reaches a limit."""
    binlog: BinlogStatus | None = None
    """The binary log of MySQL or MariaDB at the last check."""
    schema_topic: SchemaTopic | None = None
    """The topic with the history of the schemas; PostgreSQL has none."""
    lost: str | None = None
    """Why changes were lost; the connector is stopped until a new snapshot is requested."""
    credentials: str | None = None
    """Fingerprint of the versions of the Secrets that the connector was last started with."""
    restarts: ConnectorRestarts = ConnectorRestarts()
    """Restarts of failed tasks."""
    snapshot_request: str | None = None
    """The last spec.snapshot.request that was carried out."""
    incremental: IncrementalStatus | None = None
    """The last incremental snapshot that was requested."""
    offsets: OffsetsStatus | None = None
    """The answer to the last request in spec.offsets."""
    tables_schema: SchemaStatus | None = None
    """The columns of the tables that the source goes by."""
    tables_files: str | None = None
    """The files of the tables in the database at the last check, packed: a truncation changes them."""
    topics: tuple[str, ...] = ()
    """Topics of the connector, read when the resource is deleted with them."""
