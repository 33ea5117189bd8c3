"""Databases that change events come from: where one is, and how a connector logs in.

Values of these models become values of a connector. None may have `$` with a brace, which Kafka Connect would replace by a secret of
another source, and what is part of a JDBC URL has letters, digits and few signs only.
"""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.model import Model, PositiveDuration, PositiveSize, Rule
from kappa_crds.resource import CaSecretRef, SecretRef

HostName = Annotated[
    str,
    Field(min_length=1, max_length=253),
    Rule(
        "self.matches('^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$')",
        "must be a host name or an IPv4 address, without scheme and port, such as db.example",
    ),
]
DatabaseName = Annotated[
    str,
    Field(min_length=1, max_length=63),
    Rule(
        "self.matches('^[A-Za-z0-9_][A-Za-z0-9_-]*$')",
        "must be the name of a database: letters, digits, '_' and '-'; it is a part of a URL",
    ),
]
SlotName = Annotated[
    str,
    Field(min_length=1, max_length=63),
    Rule(
        "self.matches('^[a-z0-9_]+$')", "must be lower-case letters, digits and '_', as PostgreSQL requires"
    ),
]
PublicationName = Annotated[
    str,
    Field(min_length=1, max_length=63),
    Rule("self.matches('^[A-Za-z_][A-Za-z0-9_]*$')", "must be letters, digits and '_', no digit first"),
]
TableName = Annotated[
    str,
    Field(min_length=1, max_length=190),
    Rule(
        r"self.matches('^[\\p{L}\\p{N}_$#*?-]+([.][\\p{L}\\p{N}_$#*?-]+)?$')",
        "must be SCHEMA.TABLE or TABLE, with * and ? for any characters; names have letters, digits, '_', '$', '#' and '-'",
    ),
]
"""A pattern of tables: in PostgreSQL `SCHEMA.TABLE`, in MySQL `DATABASE.TABLE`."""
ColumnPattern = Annotated[
    str,
    Field(min_length=1, max_length=253),
    Rule(
        r"self.matches('^[\\p{L}\\p{N}_$#*?-]+[.][\\p{L}\\p{N}_$#*?-]+[.][\\p{L}\\p{N}_$#*?-]+$')",
        "must be SCHEMA.TABLE.COLUMN, with * and ? for any characters; names have letters, digits, '_', '$', '#' and '-'",
    ),
]
KeyColumn = Annotated[
    str,
    Field(min_length=1, max_length=63),
    Rule(r"self.matches('^[\\p{L}\\p{N}_$#-]+$')", "must be the name of a column, without * and ?"),
]


class DatabaseTls(Model):
    """TLS to the database. The certificate and the name of the server are verified."""

    ca_secret_ref: CaSecretRef
    """The authorities that signed the certificate of the database. The Secret needs the same annotation as that of
    the credentials."""


class Database(Model):
    """Where a database is, and how to log in."""

    host: HostName
    """Host of the database, as Kafka Connect and a pod in this namespace reach it."""
    credentials_secret_ref: SecretRef
    """A Secret with the keys username and password. It must name host and port in its annotation
    secrets.kappa-platform.io/database."""
    tls: DatabaseTls | None = None
    """TLS. Without it the password and all rows can be read in the network, so the chart has to allow the host
    (secrets.allowClearText)."""


class SlotAction(StrEnum):
    """What is done about a slot that retains more than a limit."""

    REPORT = "Report"
    DROP_SLOT = "DropSlot"


class SlotGuard(Model):
    """When the WAL that the slot retains is too much."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.action) || self.action != 'DropSlot' || has(self.limit)",
            "action DropSlot needs limit: the WAL from which the slot is dropped",
        ),
    )
    warn_before: PositiveDuration = "12h"
    """SlotSafe becomes False where a limit is going to be reached within this time, at the rate of the last checks."""
    limit: PositiveSize | None = None
    """The WAL that the slot may retain, besides max_slot_wal_keep_size of the server: what its disk has room for."""
    action: SlotAction = SlotAction.REPORT
    """DropSlot drops the slot where it retains more than `limit`, to protect the database. Changes are lost then: the
    connector is stopped until a new snapshot is requested, but with spec.snapshot.mode WhenNeeded it takes one."""


class PostgreSql(Database):
    """A database of PostgreSQL 12 or newer, read by logical decoding with pgoutput."""

    port: Annotated[int, Field(ge=1, le=65535)] = 5432
    """Port of the server."""
    database: DatabaseName
    """Name of the database."""
    slot: SlotName | None = None
    """Name of the replication slot. Default: one of the name of this resource with a hash of namespace and name. It
    is created by the connector."""
    publication: PublicationName | None = None
    """An existing publication, which is never changed. Default: a publication of the name of the slot, which the
    connector creates if its user may."""
    failover_slot: bool = False
    """Whether the slot is created so that PostgreSQL 17 and newer copy it to standbys, and it survives a failover."""
    slot_guard: SlotGuard = SlotGuard()
    """When the WAL that the slot retains is too much."""


class MySql(Database):
    """A server of MySQL 8 or of MariaDB 10.4 and newer, read from its binary log."""

    port: Annotated[int, Field(ge=1, le=65535)] = 3306
    """Port of the server."""
    server_id: Annotated[int, Field(ge=1, le=4294967295)]
    """Id of the connector among the replicas of the server. No other replica or connector may have it."""
