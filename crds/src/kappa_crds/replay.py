"""How a driver reads the log again while it is far behind: decided by the operator, and no part of the revision (ADR 74)."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from kappa_crds.model import Model

REPLAY_VARIABLE = "KAPPA_REPLAY"
"""The profile of a driver that starts with a replay, as JSON; without it there is none."""
REPLAY_RECORDS = 4_000_000


class ArchivedSource(Model):
    """The archive of the topic of a source, in the folder of all archives of the namespace at `location`, in the pipeline's store."""

    source: str
    location: str
    topic: str
    topic_id: str


class ReplayProfile(Model):
    """The pace of a replay.

    `max_records` bounds a batch, over all sources. `client_id` is that of the consumers, where Kafka bounds their bytes per second by it.
    `sinks` are those whose queries replay, where that are not all: the others have the pace of the spec (ADR 78).
    Of `archives` those are read first whose logs do not have all records any more (ADR 75).
    With a `start`, new queries begin at the first record of that time in each partition. Then they keep no state, or, where `warms_up`, only
    state that the watermark removes (ADR 86).
    Of all outputs just the rows are written for which the condition `only` is true (ADR 89).
    With `executors`, the driver has so many while a query has more than one slice to read (ADR 95).
    """

    max_records: Annotated[int, Field(ge=1)] = REPLAY_RECORDS
    client_id: str | None = None
    sinks: tuple[str, ...] = ()
    archives: tuple[ArchivedSource, ...] = ()
    start: datetime | None = None
    warms_up: bool = False
    only: str | None = None
    executors: Annotated[int, Field(ge=1)] | None = None

    def covers(self, sink: str) -> bool:
        """Return whether the query of a sink replays."""
        return not self.sinks or sink in self.sinks
