"""The twin of `lag.brokers.Brokers`: logs in memory, which answer as Kafka does, and trouble where a test puts it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kappa_operator.errors import BrokerUnreachable
from kappa_operator.lag.forecast import Retention
from kappa_operator.lag.markers import Batch
from kappa_operator.lag.model import GroupPartition, Partition, PartitionLog
from kappa_operator.lag.responses import Commits, Groups, Logs, Topology
from kappa_operator.lag.timestamps import NEWEST, Answer

GONE = "the broker says UNKNOWN_TOPIC_OR_PARTITON"


@dataclass
class FakeLog:
    """Timestamps of the records by offset; `markers` are offsets that hold the end of a transaction, `open_from` begins an open one."""

    stamps: dict[int, int] = field(default_factory=dict)
    start: int = 0
    markers: set[int] = field(default_factory=set)
    open_from: int | None = None
    leader: int = 1
    trouble: str = ""

    @property
    def end(self) -> int:
        return max(self.stamps, default=self.start - 1) + 1

    def show(self) -> PartitionLog:
        return PartitionLog(self.start, self.end, self.end if self.open_from is None else self.open_from)

    def answer(self, asked: int) -> Answer:
        there = {offset: stamp for offset, stamp in self.stamps.items() if offset >= self.start}
        if asked == NEWEST:
            offset = max(there, key=lambda each: (there[each], -each))
            return Answer(asked, offset, there[offset])
        first = next((offset for offset in sorted(there) if there[offset] >= asked), -1)
        return Answer(asked, first, there.get(first, -1))


@dataclass
class FakeBrokers:
    """A cluster. `homes` says which broker coordinates a group, `silent` which brokers do not answer, and why."""

    logs: dict[Partition, FakeLog] = field(default_factory=dict)
    commits: dict[str, dict[Partition, int]] = field(default_factory=dict)
    ids: dict[str, bytes] = field(default_factory=dict)
    homes: dict[str, int] = field(default_factory=dict)
    silent: dict[int, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    refused: dict[GroupPartition, str] = field(default_factory=dict)
    may_read: bool = True
    away: bool = False
    numbers: tuple[int, ...] = (1, 2)
    questions: int = 0
    """Partitions that were asked for a timestamp."""
    rounds: int = 0
    looks: int = 0
    """Offsets of which it was asked what stands there."""

    async def read_topology(self) -> Topology:
        if self.away:
            raise BrokerUnreachable("consumer lag cannot be sampled: nobody is there")
        ids = {partition.topic: self.ids.get(partition.topic, b"1") for partition in self.logs}
        return Topology(
            self.numbers, ids, {partition: log.leader for partition, log in self.logs.items()}, {}
        )

    async def list_groups(self, brokers: Sequence[int]) -> Groups:
        listed = {
            broker: tuple(group for group in self.commits if self.homes.get(group, 1) == broker)
            for broker in brokers
            if broker not in self.silent
        }
        return Groups(listed, self.silent)

    async def read_commits(self, groups: Mapping[int, Sequence[str]]) -> Commits:
        asked = [group for some in groups.values() for group in some]
        known = {group: dict(self.commits[group]) for group in asked if group not in self.unread}
        unread = {group: self.unread[group] for group in asked if group in self.unread}
        return Commits(known, unread, dict(self.refused))

    async def read_logs(self, leaders: Mapping[Partition, int]) -> Logs:
        logs = Logs()
        for partition in leaders:
            log = self.logs.get(partition)
            if log is None or log.trouble:
                logs.unavailable[partition] = log.trouble if log else GONE
            else:
                logs.logs[partition] = log.show()
        return logs

    async def find_stamps(
        self, leaders: Mapping[Partition, int], questions: Mapping[Partition, int]
    ) -> dict[Partition, Answer | str]:
        self.questions += len(questions)
        self.rounds += 1
        return {
            partition: self.logs[partition].answer(asked) if partition in self.logs else GONE
            for partition, asked in questions.items()
        }

    async def find_batches(
        self, leaders: Mapping[Partition, int], offsets: Mapping[Partition, int]
    ) -> dict[Partition, Batch | str]:
        self.looks += len(offsets)
        if not self.may_read:
            return dict.fromkeys(offsets, "the broker says TOPIC_AUTHORIZATION_FAILED")
        return {
            partition: Batch(offset, offset, offset in self.logs[partition].markers)
            for partition, offset in offsets.items()
        }

    async def close(self) -> None:
        """Have nothing to close."""


class FakeRetentions:
    """The twin of `lag.retentions.Retentions`: all topics alike."""

    def __init__(self, retention: Retention) -> None:
        self.retention = retention

    async def read(self, topics: Sequence[str]) -> Mapping[str, Retention]:
        return dict.fromkeys(topics, self.retention)

    async def close(self) -> None:
        """Have nothing to close."""
