"""The responses of brokers as the sampler uses them: what is known, and for everything else why it is unknown."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiokafka.errors import for_code

from kappa_operator.lag.markers import Batch
from kappa_operator.lag.model import GroupPartition, Partition, PartitionLog

_INTERNAL = "__"
_LEADERLESS = 5
"""The error LEADER_NOT_AVAILABLE of Kafka's protocol."""

MOST_COMMITS = 500_000


@dataclass(frozen=True, slots=True)
class Topology:
    """The leader of each partition, and the ids of topics. `unavailable` are the partitions without a leader, and why."""

    brokers: tuple[int, ...]
    ids: Mapping[str, bytes]
    leaders: Mapping[Partition, int]
    unavailable: Mapping[Partition, str]


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups by their coordinator; `silent` are the brokers that did not respond, and why."""

    by_broker: Mapping[int, tuple[str, ...]]
    silent: Mapping[int, str]


@dataclass(slots=True)
class Commits:
    """The committed offsets of groups, at most MOST_COMMITS; `unread` are the groups, and `refused` the group partitions, whose offsets are unknown, and why."""

    offsets: dict[str, dict[Partition, int]] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    refused: dict[GroupPartition, str] = field(default_factory=dict)
    count: int = 0


@dataclass(slots=True)
class Logs:
    """The start and end of each log; `unavailable` are the partitions whose log is unknown, and why."""

    logs: dict[Partition, PartitionLog] = field(default_factory=dict)
    unavailable: dict[Partition, str] = field(default_factory=dict)


class Unanswered(Exception):
    """A broker did not respond; the text has the cause."""


def name_error(code: int) -> str:
    """Return the name of a protocol error, such as `NotLeaderForPartitionError`."""
    error = for_code(code)
    return f"error of the broker: {getattr(error, 'message', None) or error.__name__}"


def parse_topology(answer: Any) -> Topology:
    """Return the topics of a metadata response without Kafka's own."""
    ids, leaders, unavailable = {}, {}, {}
    for error, name, identity, internal, rows, *_ in answer.topics:
        if error or internal or name.startswith(_INTERNAL):
            continue
        ids[name] = identity
        for number, leader, failure in rows:
            partition = Partition(name, number)
            if leader < 0:
                unavailable[partition] = name_error(failure or _LEADERLESS)
            else:
                leaders[partition] = leader
    return Topology(tuple(broker[0] for broker in answer.brokers), ids, leaders, unavailable)


def add_commits(
    commits: Commits, known: dict[str, dict[int, Partition]], group: str, topics: Any, error: int
) -> None:
    """Add the committed offsets of a group; `known` caches the partitions, so that each object is created once."""
    if error:
        commits.unread[group] = name_error(error)
        return
    if commits.count > MOST_COMMITS:
        commits.unread[group] = f"the groups have more than {MOST_COMMITS} committed offsets"
        return
    offsets = commits.offsets[group] = {}
    commits.count += sum(len(rows) for _, rows, _ in topics)
    for topic, rows, _ in topics:
        numbers = known[topic]
        for number, offset, failure in rows:
            partition = numbers.get(number)
            if partition is None:
                partition = numbers[number] = Partition(topic, number)
            if failure:
                commits.refused[GroupPartition(group, partition)] = name_error(failure)
            elif offset >= 0:
                offsets[partition] = offset


def add_logs(logs: Logs, partitions: Sequence[Partition], answers: Sequence[Any]) -> None:
    """Add three responses on the same partitions: log starts, last stable offsets and log ends."""
    failed = next((answer for answer in answers if isinstance(answer, Unanswered)), None)
    if failed is not None:
        logs.unavailable |= dict.fromkeys(partitions, str(failed))
        return
    starts, stables, ends = (
        {(topic, row[0]): row for topic, rows, _ in answer.topics for row in rows} for answer in answers
    )
    for partition in partitions:
        rows = [answer.get(partition) for answer in (starts, stables, ends)]
        error = next((row[1] if row else -1 for row in rows if not row or row[1]), 0)
        if error:
            logs.unavailable[partition] = name_error(error)
            continue
        start, stable, end = (row[3] for row in rows if row)
        logs.logs[partition] = PartitionLog(start, end, min(stable, end))


def choose_batch(offset: int, batches: Iterable[tuple[int, int, bool]]) -> Batch:
    """Return the batch with the offset, or the next existing one; a gap before a batch counts as part of it."""
    for _, last, is_marker in batches:
        if last >= offset:
            return Batch(offset, last, is_marker)
    return Batch(offset, offset, False)
