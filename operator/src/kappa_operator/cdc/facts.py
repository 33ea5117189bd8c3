"""What the rules know of a database. Nothing here has text of a server but names and settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field

MOST_TABLES = 5000
"""Tables that are read at most; the rules report that there are more."""


@dataclass(frozen=True, order=True)
class TableName:
    """A table: its schema, which is a database in MySQL, and its name."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Connection:
    """How the facts were read."""

    encrypted: bool = True
    verified: bool = True


@dataclass(frozen=True)
class Slot:
    """A replication slot. `retained_bytes` is the WAL that it keeps on disk, and `safe_bytes` what may still be written before it is lost.
    `failover` is whether standbys get it, which servers before PostgreSQL 17 do not know.

    `confirmed` is the LSN up to which its consumer has read, as a number; None for a slot of physical replication.
    """

    name: str
    active: bool
    retained_bytes: int | None = None
    wal_status: str | None = None
    safe_bytes: int | None = None
    database: str | None = None
    plugin: str | None = None
    confirmed: int | None = None
    failover: bool | None = None


@dataclass(frozen=True)
class Publication:
    """A publication. `filtered` are tables with a row filter or a list of columns."""

    name: str
    owned: bool = False
    all_tables: bool = False
    via_root: bool = False
    operations: frozenset[str] = frozenset({"insert", "update", "delete", "truncate"})
    generated_columns: bool = False
    tables: frozenset[TableName] = frozenset()
    filtered: frozenset[TableName] = frozenset()


@dataclass(frozen=True)
class PostgresColumn:
    """A column. `type_kind` is `typtype` of the type, or of the elements of an array. `dimensions` are those that an array was declared with."""

    name: str
    type: str
    type_kind: str = "b"
    is_array: bool = False
    is_generated: bool = False
    dimensions: int = 0


@dataclass(frozen=True)
class PostgresTable:
    """A relation. `kind`, `persistence` and `replica_identity` are the letters of `pg_class`.

    `key_index` is a unique index that can be the replica identity of a table without primary key. `file` is the number of its first file,
    which a truncation changes.
    """

    name: TableName
    kind: str = "r"
    persistence: str = "p"
    replica_identity: str = "d"
    has_primary_key: bool = True
    has_identity_index: bool = False
    key_index: str | None = None
    root: TableName | None = None
    owned: bool = False
    has_usage: bool = True
    has_select: bool = True
    has_write: bool = False
    has_row_security: bool = False
    file: int | None = None
    columns: tuple[PostgresColumn, ...] = ()

    @property
    def is_stored(self) -> bool:
        """Return whether it is an ordinary or a partitioned table."""
        return self.kind in ("r", "p")


@dataclass(frozen=True)
class PostgresFacts:
    """A PostgreSQL server, as one user of one database sees it. `version` is `server_version_num`.

    `system` identifies the database system, and is empty where the user may not see it. `timeline` grows with each promotion of a standby.
    `shapes` are all columns of the tables: name, type, and whether the primary key has it.
    """

    version: int
    user: str
    database: str
    settings: Mapping[str, str]
    is_superuser: bool = False
    can_replicate: bool = True
    has_rds_role: bool = False
    can_create: bool = False
    in_recovery: bool = False
    senders: int = 0
    system: str = ""
    timeline: int | None = None
    slots: tuple[Slot, ...] = ()
    publication: Publication | None = None
    tables: tuple[PostgresTable, ...] = ()
    shapes: Mapping[TableName, tuple[tuple[str, str, bool], ...]] = field(default_factory=dict)
    connection: Connection = Connection()

    @property
    def major(self) -> int:
        """Return the major version."""
        return self.version // 10000

    def get_int(self, setting: str) -> int:
        """Return a number among the settings; 0 where the server does not have it."""
        return int(self.settings.get(setting) or 0)


@dataclass(frozen=True)
class Grant:
    """Privileges in upper case on `*.*`, `schema.*` or `schema.table`; None stands for `*`."""

    privileges: frozenset[str]
    schema: str | None = None
    table: str | None = None


@dataclass(frozen=True)
class MySQLTable:
    """A table. `kind` is BASE TABLE, VIEW or another type of `information_schema`."""

    name: TableName
    kind: str = "BASE TABLE"
    engine: str | None = "InnoDB"
    is_transactional: bool = True
    has_primary_key: bool = True


@dataclass(frozen=True)
class MySQLColumn:
    """A column and its type."""

    table: TableName
    name: str
    type: str


@dataclass(frozen=True)
class BinaryLog:
    """The binary log: its oldest file, its end, the bytes of all files, and the transactions at marks, None where it does not have one.

    `server` identifies a server of MySQL.
    """

    oldest: str
    file: str
    position: int
    gtids: str = ""
    size: int = 0
    server: str = ""
    marks: tuple[str | None, ...] = ()


@dataclass(frozen=True)
class MySQLFacts:
    """A server of MySQL or MariaDB, as one user sees it. `account` is user and host, as the server matched them.

    `log` is None where there is no binary log, or the user may not see it.
    `unparsed` has the columns whose type Debezium cannot parse, of all tables of the requested databases.
    `shapes` are all columns of the tables: name, type, and whether the primary key has it.
    """

    version: tuple[int, ...]
    is_mariadb: bool
    account: tuple[str, str]
    database: str
    variables: Mapping[str, str] = field(default_factory=dict)
    grants: tuple[Grant, ...] = ()
    tables: tuple[MySQLTable, ...] = ()
    unparsed: tuple[MySQLColumn, ...] = ()
    shapes: Mapping[TableName, tuple[tuple[str, str, bool], ...]] = field(default_factory=dict)
    log: BinaryLog | None = None
    connection: Connection = Connection()

    def is_on(self, variable: str) -> bool:
        """Return whether a variable is switched on."""
        return self.variables.get(variable, "").upper() in ("ON", "1")


Facts = PostgresFacts | MySQLFacts
