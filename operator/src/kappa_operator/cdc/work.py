"""The request of the operator to a pod that works in a database, and the answer.

The request is an annotation of the pod, which sees it as a file. The answer is the container's termination message; Kubernetes keeps 4096
bytes of it. Neither has a password: that is a mounted file.
"""

from enum import StrEnum

from kappa_crds.cdcsource_status import BinlogStatus, LogMark, SlotStatus, TableRange
from kappa_crds.model import Model, Status
from kappa_operator.cdc.address import DatabaseKind
from kappa_operator.cdc.findings import Severity

MOST_BYTES = 3500
"""Bytes of an answer."""
CA_FILE = "ca.crt"
"""File with the authorities of the database, beside username and password."""


class DatabaseTask(StrEnum):
    """The tasks of a pod."""

    CHECK = "Check"
    SIGNAL = "Signal"
    DROP = "Drop"
    DROP_OUTGROWN = "DropOutgrown"


class WantedMark(Model):
    """A position in the binary log to ask the server for: one that it had exactly so, or one of the connector, which may be behind its transactions."""

    file: str
    position: int
    gtids: str = ""
    is_exact: bool = False


class AskedMark(Status):
    """A position that the server was asked for. `gtids` are its transactions there; None where the log does not have the position."""

    mark: LogMark
    is_exact: bool = False
    gtids: str | None = None


class SignalTable(Model):
    """A table of a signal. `condition` is SQL that the operator built, empty for all rows; `is_keyed` where spec.keys names a key."""

    schema_name: str
    name: str
    condition: str = ""
    is_keyed: bool = False


class SignalRequest(Model):
    """A signal for the connector, and the table that it is written to. `tables` are measured before."""

    target: tuple[str, str]
    id: str
    type: str
    data: str
    publication: str = ""
    tables: tuple[SignalTable, ...] = ()


class DatabaseRequest(Model):
    """What to do in which database.

    `signal_table` is SCHEMA.TABLE, where the source has one. `hidden` are patterns of columns that events do not have. `include`,
    `exclude` and `keyed` are patterns of tables, the last of those whose key the source defines. Topics are `compacted` where a
    record needs a key. `drop_publication` is for a publication that the connector created. `least_retained` is for a slot that has outgrown a
    limit: it is dropped only if it retains so many bytes still. `marks` are positions in the binary log.
    """

    task: DatabaseTask
    kind: DatabaseKind
    host: str
    port: int
    database: str
    tls: bool
    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    keyed: tuple[str, ...] = ()
    compacted: bool = True
    slot: str = ""
    publication: str = ""
    is_publication_given: bool = False
    drop_publication: bool = False
    least_retained: int = 0
    failover: bool = False
    marks: tuple[WantedMark, ...] = ()
    signal_table: str = ""
    signal: SignalRequest | None = None
    hidden: tuple[str, ...] = ()


class FoundProblem(Status):
    """A finding, cut to what fits. `statement` fixes it, where a statement does."""

    severity: Severity
    rule: str
    subject: str
    message: str
    statement: str = ""

    def describe(self) -> str:
        """Return it as text for people."""
        fix = f"; run: {self.statement}" if self.statement else ""
        return f"{self.subject}: {self.message}{fix}"


class DatabaseResult(Status):
    """What was found or done. `problem` is why it could not be.

    `findings` are the first ones, errors first; `errors` and `warnings` count all. `slot` is there where the database has the slot of the
    connector; `system` identifies the database either way. `binlog` is the binary log of MySQL or MariaDB, and `asked` what it has at the
    marks of the request. `dropped` lists what a drop removed, for people. `columns` are those of the tables, packed, and `fingerprint`
    that of them; `files` are the files of the tables, packed. `refused` is why a signal was not written, where to repeat it is no use; else `ranges` are its tables, and `position`
    is behind it in the log.
    """

    problem: str = ""
    findings: tuple[FoundProblem, ...] = ()
    errors: int = 0
    warnings: int = 0
    tables: int | None = None
    owns_publication: bool = True
    slot: SlotStatus | None = None
    system: str = ""
    timeline: int | None = None
    binlog: BinlogStatus | None = None
    asked: tuple[AskedMark, ...] = ()
    dropped: tuple[str, ...] = ()
    refused: str = ""
    columns: str = ""
    files: str = ""
    fingerprint: str = ""
    ranges: tuple[TableRange, ...] = ()
    position: int | None = None
