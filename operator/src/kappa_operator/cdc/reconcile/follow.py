"""Follows the topic until the connector has written all that had committed at a position of the log.

Evidence is one of three: the slot has confirmed the position, which Debezium does once Kafka has the records; a change from behind the
position was read, as changes are written in the order of their commits; or, where nothing changes, a heartbeat was written after the
connector had received the position. A connector that is paused receives the log too, but writes no heartbeats.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from kappa_operator.cdc.reconcile.database import Database, Progress
from kappa_operator.cdc.reconcile.events import EventReader, Record
from kappa_operator.cdc.reconcile.heartbeat import Heartbeats
from kappa_operator.cdc.reconcile.topic import TopicReader

_ASKED_EVERY = 0.5
Report = Callable[[str], None]
Add = Callable[[Record], None]


@dataclass
class Follower:
    """Reads the topic. `report` gets a line about progress, as often as there is something new.

    `is_hidden` where the user of the database may not see what the connector has received.
    """

    database: Database
    topic: TopicReader
    heartbeats: Heartbeats
    events: EventReader
    report: Report
    is_hidden: bool = False

    def read_all(self, add: Add) -> None:
        """Read all that is in the topic now."""
        ends = self.topic.find_ends()
        total = sum(ends.values())
        self.topic.read(ends, add, lambda: self.report(f"read {self.events.records:,} records of {total:,}"))

    def pass_position(self, position: int, add: Add, *, wait: float) -> bool:
        """Read until the connector has passed a position; return whether it has within this time, in seconds."""
        until, asked, progress, received_at = time.monotonic() + wait, 0.0, Progress(), 0
        while True:
            now = time.monotonic()
            if now - asked >= _ASKED_EVERY:
                asked, progress = now, self.database.read_progress()
                self.is_hidden = progress.is_hidden
                if progress.received >= position:
                    received_at = received_at or progress.received_at
            if self._is_past(position, progress, received_at):
                self.read_all(add)
                return True
            if now >= until:
                return False
            self.report(self._describe(position, progress))
            self.topic.poll(add)

    def _is_past(self, position: int, progress: Progress, received_at: int) -> bool:
        if max(self.events.latest, progress.confirmed) >= position:
            return True
        return received_at > 0 and self.heartbeats.read_latest(self.events.server) > received_at

    def _describe(self, position: int, progress: Progress) -> str:
        behind = position - max(self.events.latest, progress.confirmed)
        return f"wait for the connector, which has not shown the last {behind:,} bytes of the log"
