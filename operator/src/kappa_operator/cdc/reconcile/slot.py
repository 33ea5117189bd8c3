"""Evidence of how far a connector of PostgreSQL has come: its slot, or a heartbeat from after the reception of a position.

The slot has confirmed a position once Kafka has the records before it. Where nothing changes, a heartbeat was written after the connector
had received the position. A connector that is paused receives the log too, but writes no heartbeats.
"""

import time
from typing import Protocol

from kappa_operator.cdc.quoting import quote_postgresql
from kappa_operator.cdc.reconcile.database import Progress
from kappa_operator.cdc.reconcile.heartbeat import Heartbeats

_ASKED_EVERY = 0.5
_BEHIND = (
    "the connector has not shown in time that it has passed the position: check its task and its slot; in a table without changes it"
    " shows this by heartbeats, so set heartbeat.interval.ms"
)
_HIDDEN = (
    "the user may not see how far the connector has received the log, which shows in a database without changes that no change is"
    " missing; an administrator runs: GRANT pg_read_all_stats TO {user};"
)


class Slots(Protocol):
    """The database, as far as slots are concerned."""

    @property
    def user(self) -> str:
        """Return the user of the database."""

    def read_progress(self) -> Progress:
        """Return how far connectors have read."""


class SlotEvidence:
    """The evidence of one proof."""

    def __init__(self, slots: Slots, heartbeats: Heartbeats) -> None:
        self._slots, self._heartbeats = slots, heartbeats
        self._asked, self._progress = float("-inf"), Progress()
        self._position, self._received_at = 0, 0

    def find_passed(self, position: int, server: str) -> int:
        """Return the confirmed position, or the one that is asked for where a heartbeat is from after its reception."""
        if position != self._position:
            self._position, self._received_at, self._asked = position, 0, float("-inf")
        if time.monotonic() - self._asked >= _ASKED_EVERY:
            self._asked, self._progress = time.monotonic(), self._slots.read_progress()
            if self._progress.received >= position:
                self._received_at = self._received_at or self._progress.received_at
        if self._received_at > 0 and self._heartbeats.read_latest(server) > self._received_at:
            return max(position, self._progress.confirmed)
        return self._progress.confirmed

    def describe(self, position: int, reached: int) -> str:
        """Return how many bytes of the log are missing."""
        return f"wait for the connector, which has not shown the last {position - reached:,} bytes of the log"

    def explain(self) -> str:
        """Return the cause, with the statement that lets the user see more."""
        if self._progress.is_hidden:
            return _HIDDEN.format(user=quote_postgresql(self._slots.user))
        return _BEHIND
