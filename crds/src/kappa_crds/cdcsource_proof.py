"""`CDCSource.spec.proof`: when tables are compared with their topics, and what a comparison has found."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from kappa_crds.databases import TableName
from kappa_crds.model import Model, PositiveDuration, PositiveSize, Status
from kappa_crds.savepoint_policy import CronSchedule
from kappa_crds.savepoint_work import WorkState

PROVEN = "Proven"
"""Whether the last proof found every table equal to its topic, row for row."""


class ProofPolicy(Model):
    """When tables are compared with their topics, row for row, each at one position of the log of the database."""

    schedule: CronSchedule | None = None
    """When the next proof begins, in UTC, as cron writes it: minute, hour, day, month, day of the week. One that was missed
    is made once. The first begins when the rows that the tables have already were read."""
    request: Annotated[str, Field(max_length=64)] = ""
    """Any text; a change begins a proof as soon as the connector runs."""
    tables: Annotated[tuple[TableName, ...], Field(max_length=64)] = ()
    """Tables to compare, as SCHEMA.TABLE with * and ?; all of spec.tables where left out."""
    wait: PositiveDuration = "5m"
    """How long to wait for a connector that is behind, for each table."""
    timeout: PositiveDuration = "1h"
    """How long a proof may take. Tables that were not compared by then are undecided."""
    temporary_storage: PositiveSize = "2Gi"
    """Limit of temporary files: 60 to 100 bytes for each record of the largest topic, more for wide rows."""


class TableFinding(Status):
    """A table that was not found equal to its topic. It has no values of rows but those of keys."""

    table: str
    """The table."""
    differing: int = 0
    """Rows that differ."""
    undecided: int = 0
    """Rows that could not be compared."""
    first: tuple[str, ...] = ()
    """The first rows that differ: how, their keys, and the columns that differ."""
    message: str = ""
    """Why the table, or a part of it, could not be compared."""


class ProofResult(Status):
    """What a proof has found."""

    problem: str = ""
    """Why no table could be compared."""
    tables: int = 0
    """Tables that were to be compared."""
    equal: int = 0
    """Tables that equal their topics."""
    rows: int = 0
    """Rows of the tables that were compared."""
    differing: int = 0
    """Rows that differ, of all tables."""
    undecided: int = 0
    """Rows that could not be compared, of all tables that were."""
    position: str | None = None
    """The lowest position of the log at which a table was compared, as the database writes it. Each table has one position."""
    at: datetime | None = None
    """The time of that position, by the clock of the database."""
    seconds: float = 0.0
    """How long it took, in seconds."""
    findings: tuple[TableFinding, ...] = ()
    """The first tables that are not equal, those with rows that differ first."""

    @property
    def is_equal(self) -> bool:
        """Return whether every table was compared and is equal."""
        return not self.problem and self.equal == self.tables


class ProofRecord(ProofResult):
    """A proof that has ended."""

    began: datetime
    """When it began."""
    ended: datetime
    """When its result was recorded."""


class ProofWork(Status):
    """The last pod that compared tables. Its number is recorded before the pod is created."""

    number: Annotated[int, Field(ge=1)]
    """Number of the pod."""
    state: WorkState = WorkState.RUNNING
    """How far it is."""
    fingerprint: str = ""
    """Fingerprint of the settings that it was started with."""
    request: str = ""
    """The spec.proof.request that it carries out."""
    at: datetime
    """When it began."""


class ProofStatus(Status):
    """The proofs of a source."""

    work: ProofWork | None = None
    """The last pod that compared tables."""
    failures: int = 0
    """Proofs in a row that could not be made."""
    last: ProofRecord | None = None
    """The last proof that has ended."""
    proven: datetime | None = None
    """The time of the last proof that found all tables equal, by the clock of the database."""
    history: Annotated[tuple[ProofRecord, ...], Field(max_length=5)] = ()
    """The last proofs, the newest first, without their findings."""
