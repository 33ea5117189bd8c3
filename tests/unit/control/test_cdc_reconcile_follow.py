"""What counts as evidence that a connector has passed a position of the log."""

from collections.abc import Callable, Iterator

import pytest

from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.reconcile.database import Progress
from kappa_operator.cdc.reconcile.events import EventReader, Record
from kappa_operator.cdc.reconcile.follow import Follower
from kappa_operator.cdc.reconcile.heartbeat import Heartbeats
from kappa_operator.cdc.reconcile.model import Column, Kind, Table
from kappa_operator.cdc.reconcile.slot import SlotEvidence
from kappa_operator.cdc.reconcile.topic import Ends, TopicReader

KEY = Column("id", Kind.PLAIN, "integer")
TABLE = Table(TableName("public", "orders"), (KEY,), (KEY,))
POSITION = 1000


class FakeSlots:
    user = "reader"

    def __init__(self, *progress: Progress) -> None:
        self._answers = iter(progress)
        self._last = Progress()

    def read_progress(self) -> Progress:
        self._last = next(self._answers, self._last)
        return self._last


class FakeTopic(TopicReader):
    """A topic to which records are added while it is read."""

    def __init__(self, *records: Record) -> None:
        self._records: Iterator[Record] = iter(records)
        self.read_to_end = 0

    def find_ends(self) -> dict[int, int]:
        return {0: 0}

    def read(self, ends: Ends, add: Callable[[Record], None], tick: Callable[[], None]) -> None:
        self.read_to_end += 1

    def poll(self, add: Callable[[Record], None]) -> int:
        for record in self._records:
            add(record)
            return 1
        return 0


class FakeHeartbeats(Heartbeats):
    def __init__(self, latest: int) -> None:
        self._latest = latest

    def read_latest(self, server: str) -> int:
        return self._latest


def follow(
    progress: Progress, *, heartbeat: int = 0, records: tuple[Record, ...] = (), wait: float = 0.05
) -> tuple[bool, FakeTopic, list[str]]:
    lines: list[str] = []
    topic, events = FakeTopic(*records), EventReader(TABLE)
    evidence = SlotEvidence(FakeSlots(progress), FakeHeartbeats(heartbeat))
    follower = Follower(evidence, topic, events, lines.append)
    return follower.pass_position(POSITION, lambda record: void(events.read(record)), wait=wait), topic, lines


def void(_: object) -> None:
    """Throw the version away."""


def change(position: int, op: str = "c") -> Record:
    source = f'{{"name": "shop", "schema": "public", "table": "orders", "lsn": {position}, "txId": 1}}'
    return Record(0, 0, b'{"id": 1}', f'{{"op": "{op}", "source": {source}, "after": {{"id": 1}}}}'.encode())


@pytest.mark.parametrize(
    ("progress", "heartbeat", "is_past"),
    [
        (Progress(confirmed=POSITION), 0, True),
        (Progress(confirmed=POSITION - 1), 0, False),
        (Progress(received=POSITION, received_at=50), 51, True),
        (Progress(received=POSITION, received_at=50), 50, False),  # it may be from before
        (Progress(received=POSITION, received_at=50), 0, False),  # a paused connector
        (Progress(received=POSITION - 1, received_at=50), 99, False),
    ],
)
def test_the_slot_or_a_heartbeat_after_the_reception_is_evidence(
    progress: Progress, heartbeat: int, is_past: bool
) -> None:
    found, topic, _ = follow(progress, heartbeat=heartbeat)
    assert found is is_past
    assert topic.read_to_end == is_past, "all that was written by then has to be read"


@pytest.mark.parametrize(
    ("record", "is_past"),
    [
        (change(POSITION), True),
        (change(POSITION - 1), False),
        (change(POSITION + 9, "r"), False),  # a row of a snapshot, which is not in the order of the log
    ],
)
def test_a_change_from_behind_the_position_is_evidence(record: Record, is_past: bool) -> None:
    found, _, _ = follow(Progress(), records=(record,), wait=1.0 if is_past else 0.05)
    assert found is is_past


def test_the_wait_is_reported() -> None:
    _, _, lines = follow(Progress(confirmed=400))
    assert lines[0] == "wait for the connector, which has not shown the last 600 bytes of the log"
