"""Follows the topic until the connector has written all that had committed at a position of the log.

A change from behind the position is evidence that it has, as changes are written in the order of their commits. Other evidence depends on
the database.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from kappa_operator.cdc.reconcile.events import EventReader, Record
from kappa_operator.cdc.reconcile.source import Evidence
from kappa_operator.cdc.reconcile.topic import TopicReader

Report = Callable[[str], None]
Add = Callable[[Record], None]


@dataclass
class Follower:
    """Reads the topic. `report` gets a line about progress, as often as there is something new."""

    evidence: Evidence
    topic: TopicReader
    events: EventReader
    report: Report

    def read_all(self, add: Add) -> None:
        """Read all that is in the topic now."""
        ends = self.topic.find_ends()
        total = sum(ends.values())
        self.topic.read(ends, add, lambda: self.report(f"read {self.events.records:,} records of {total:,}"))

    def pass_position(self, position: int, add: Add, *, wait: float) -> bool:
        """Read until the connector has passed a position; return whether it has within this time, in seconds."""
        until = time.monotonic() + wait
        while True:
            passed = self.evidence.find_passed(position, self.events.server)
            reached = max(self.events.latest, passed)
            if reached >= position:
                self.read_all(add)
                return True
            if time.monotonic() >= until:
                return False
            self.report(self.evidence.describe(position, reached))
            self.topic.poll(add)
