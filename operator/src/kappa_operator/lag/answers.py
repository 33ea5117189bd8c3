"""What brokers answered, in the terms of the sampler: what is known, and for everything else why it is not."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiokafka.errors import for_code

from kappa_operator.lag.markers import Batch
from kappa_operator.lag.model import Partition, PartitionLog, Share

_INTERNAL = "__"
_LEADERLESS = 5
"""The error LEADER_NOT_AVAILABLE of Kafka's protocol."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Who leads which partition, and what the topics' ids are. `dark` are partitions that nobody leads, and why."""

    brokers: tuple[int, ...]
    ids: Mapping[str, bytes]
    leaders: Mapping[Partition, int]
    dark: Mapping[Partition, str]


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups by the broker that coordinates them; `silent` are brokers that did not say, and why."""

    by_broker: Mapping[int, tuple[str, ...]]
    silent: Mapping[int, str]


@dataclass(slots=True)
class Commits:
    """What groups have committed; `unread` are groups of which it is not known, `refused` single shares, and why."""

    offsets: dict[str, dict[Partition, int]] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    refused: dict[Share, str] = field(default_factory=dict)


@dataclass(slots=True)
class Logs:
    """Where logs start and end; `dark` are those of which it is not known, and why."""

    logs: dict[Partition, PartitionLog] = field(default_factory=dict)
    dark: dict[Partition, str] = field(default_factory=dict)


class Unanswered(Exception):
    """A broker did not answer; the text says why."""


def say_code(code: int) -> str:
    """Say an error of the protocol by its name there, such as `NotLeaderForPartitionError`."""
    error = for_code(code)
    return f"the broker says {getattr(error, 'message', None) or error.__name__}"


def parse_topology(answer: Any) -> Topology:
    """Return the topics of a metadata answer, but Kafka's own."""
    ids, leaders, dark = {}, {}, {}
    for error, name, identity, internal, rows, *_ in answer.topics:
        if error or internal or name.startswith(_INTERNAL):
            continue
        ids[name] = identity
        for number, leader, failure in rows:
            partition = Partition(name, number)
            if leader < 0:
                dark[partition] = say_code(failure or _LEADERLESS)
            else:
                leaders[partition] = leader
    return Topology(tuple(broker[0] for broker in answer.brokers), ids, leaders, dark)


def take_commits(
    commits: Commits, known: dict[str, dict[int, Partition]], group: str, topics: Any, error: int
) -> None:
    """Add what a group has committed; `known` are the partitions that were met so far, of which each is made once."""
    if error:
        commits.unread[group] = say_code(error)
        return
    offsets = commits.offsets[group] = {}
    for topic, rows, _ in topics:
        numbers = known[topic]
        for number, offset, failure in rows:
            partition = numbers.get(number)
            if partition is None:
                partition = numbers[number] = Partition(topic, number)
            if failure:
                commits.refused[Share(group, partition)] = say_code(failure)
            elif offset >= 0:
                offsets[partition] = offset


def take_logs(logs: Logs, partitions: Sequence[Partition], answers: Sequence[Any]) -> None:
    """Add what three answers say of the same partitions: their starts, their last stable offsets and their ends."""
    failed = next((answer for answer in answers if isinstance(answer, Unanswered)), None)
    if failed is not None:
        logs.dark |= dict.fromkeys(partitions, str(failed))
        return
    starts, stables, ends = (
        {(topic, row[0]): row for topic, rows, _ in answer.topics for row in rows} for answer in answers
    )
    for partition in partitions:
        rows = [answer.get(partition) for answer in (starts, stables, ends)]
        error = next((row[1] if row else -1 for row in rows if not row or row[1]), 0)
        if error:
            logs.dark[partition] = say_code(error)
            continue
        start, stable, end = (row[3] for row in rows if row)
        logs.logs[partition] = PartitionLog(start, end, min(stable, end))


def choose_batch(offset: int, batches: Iterable[tuple[int, int, bool]]) -> Batch:
    """Return the batch that holds the offset, or the next one that is there; a gap before it counts as part of it."""
    for _, last, is_marker in batches:
        if last >= offset:
            return Batch(offset, last, is_marker)
    return Batch(offset, offset, False)
