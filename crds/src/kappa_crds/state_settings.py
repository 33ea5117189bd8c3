"""How a pipeline keeps its state: what is written with each batch, how much of it is kept, and in how much memory.

Every field can be changed on a pipeline that has state: they define how later files are written, and each file records its own format.
What is written into a checkpoint at its birth, such as the format of its versions and the codec of changelogs, is not here.
"""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.model import Model, PositiveDuration, PositiveSize, Rule

KEPT_BATCHES = 100
"""The minimum of retained batches: a savepoint is copied while batches continue, and the batch of a
late record is read later."""
MOST_DELTAS = 100
"""Batches from snapshot to snapshot at most. A changelog begins with the ids of all versions since the last snapshot as one text in the form of Java's
`DataOutput.writeUTF`, 65,535 bytes at most, of which an id takes some eighty; snapshots come late, by what is uploaded beside the batches."""
UPLOADED_EVERY = "10s"
"""Spark uploads a snapshot this long after a driver began, and then as often; what is shorter-lived uploads none. Each start loads the last snapshot
and all changelogs since, so with Spark's own minute a pipeline that is changed each half a minute starts a little later each time."""


class Compression(StrEnum):
    """How RocksDB packs the blocks of its tables."""

    LZ4 = "lz4"
    ZSTD = "zstd"
    NONE = "none"


class StateSettings(Model):
    """How state is kept: what each batch writes against how long a start takes, and memory."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.changelog || !has(self.snapshotEvery)",
            "snapshotEvery goes with changelog: without it every batch writes a snapshot; leave snapshotEvery out",
        ),
    )
    changelog: bool = True
    """Write with each batch what it changed, and a snapshot now and then. Without it each batch writes a
    snapshot of the tables that are new: batches take longer, and a start replays nothing."""
    snapshot_every: Annotated[int | None, Field(ge=1, le=MOST_DELTAS)] = None
    """Batches from snapshot to snapshot, 10 where left out. A start loads the last snapshot and replays what
    changed since: more batches write less, and make starts longer."""
    maintenance_interval: Annotated[
        PositiveDuration,
        Rule(
            "self.matches('^([0-9]+(ms|s|m))+$') && duration(self) >= duration('10s') && duration(self) <= duration('2m')",
            "must be 10s to 2m: snapshots that are uploaded later make starts long, and changelogs too long in the end",
        ),
    ] = UPLOADED_EVERY
    """How often snapshots that are due are uploaded, and files that no kept batch needs are deleted; 10s to
    2m."""
    retain_batches: Annotated[int, Field(ge=KEPT_BATCHES, le=10_000)] = KEPT_BATCHES
    """Batches whose state and offsets are kept. Fewer than 100 are not allowed: a savepoint is copied
    while batches continue."""
    compression: Compression = Compression.LZ4
    """How tables are packed. zstd takes less space and more of the processors; files that are there stay as
    they are."""
    max_memory: Annotated[
        PositiveSize,
        Rule(
            "!isQuantity(self) || quantity(self).compareTo(quantity('64Mi')) >= 0",
            "must be at least 64Mi; a number without a unit counts bytes, so write 512Mi, not 512",
        ),
    ] = "500Mi"
    """Most memory that all state of one executor, or of the driver where it runs the tasks, takes outside the
    JVM's heap; beyond it is read from disk."""
