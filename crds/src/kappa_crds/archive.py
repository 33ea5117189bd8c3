"""The archive of a Topic: what its spec declares, and what the status has of it."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from kappa_crds.model import Model, PositiveDuration, ResourceName, Status
from kappa_crds.savepoint_work import WorkState

ARCHIVED = "Archived"
"""The condition of a Topic with an archive: whether all records are archived long before retention removes them."""
MOST_PARTITIONS = 100
"""Partitions of a topic with an archive: their offsets fit in the answer."""
ARCHIVE_DIR = "_kappa/archive"
"""The folder of all archives of a store; one of each namespace is in it."""


class Archive(Model):
    """An archive of all committed records of the topic."""

    state_store_ref: ResourceName | None = None
    """Name of the StateStore that has the archive; may be left out where the namespace has just one. A Reprocessing reads the archive
    where it is in the StateStore of its Pipeline."""
    interval: PositiveDuration = "10m"
    """How often new records are archived. It should be much shorter than the retention."""


class ArchivedPartition(Status):
    """The archived offsets of a partition: from `first` up to `end`, excluded, without a gap."""

    partition: int
    """Number of the partition."""
    first: int
    """First archived offset."""
    end: int
    """First offset that is not archived."""


class ArchiveStatus(Status):
    """The archive as its last pod left it."""

    number: Annotated[int, Field(ge=1)]
    """Number of the last pod; recorded before the pod is made."""
    state: WorkState = WorkState.RUNNING
    """How far it is."""
    at: datetime
    """When the last pod was recorded."""
    topic_id: str
    """Kafka's id of the topic that is archived."""
    store: str
    """Name of the StateStore."""
    since: datetime
    """When the archive of this topic began."""
    complete: datetime | None = None
    """All records that were in the log at this time are archived."""
    partitions: tuple[ArchivedPartition, ...] = ()
    """The archived offsets of each partition."""
    behind: int | None = None
    """Offsets in the log that were not archived when the last pod ended."""
    segments: int = 0
    """Files of the archive."""
    size_bytes: int = 0
    """Bytes of all files."""
    failures: int = 0
    """Pods in a row that failed."""
    message: str = ""
    """Why the last pod failed; empty where it did not."""
    lost: str = ""
    """The last records that were removed before they were archived, if any."""

    @property
    def safe_until(self) -> datetime:
        """Return the time up to which nothing is known to be missing: records that came later may not be archived."""
        return self.complete or self.since
