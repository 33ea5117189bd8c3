"""Samples the consumer lag of one Kafka cluster: all groups and partitions at once.

Committed offsets are read before the ends of the logs, so that a group is never ahead of a log that only grew meanwhile. What is kept from
one sample to the next makes the next one cheap, and is all that a restart loses: the ends of logs, and the responses on timestamps and
markers.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from kappa_operator.errors import KafkaFailure
from kappa_operator.lag.brokers import Brokers
from kappa_operator.lag.flows import Flows
from kappa_operator.lag.log_history import LogHistory
from kappa_operator.lag.markers import Batch, Markers
from kappa_operator.lag.model import ClusterSample, GroupPartition, Partition, Sample
from kappa_operator.lag.positions import (
    Evidence,
    Position,
    Target,
    build_sample,
    find_pairs,
    place,
    skip_markers,
)
from kappa_operator.lag.responses import Commits, Groups, Logs, Topology
from kappa_operator.lag.retentions import Retentions
from kappa_operator.lag.timestamps import AHEAD, Answer, Search

Item = TypeVar("Item")

_PATIENCE = 10.0
"""Seconds for the search of timestamps in one sample; the next one continues an unfinished search."""
_ROUNDS = 100
_PROBES = 5000
_PROBE_ROUNDS = 4
_AT_ONCE = 4000
_BREATH = 1000
"""Steps after which other tasks of the event loop run."""


class Sampler:
    """Samples one cluster. `keeps` selects groups."""

    def __init__(
        self,
        brokers: Brokers,
        retentions: Retentions,
        *,
        keeps: Callable[[str], bool] = lambda _group: True,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
        patience: float = _PATIENCE,
    ) -> None:
        self._brokers = brokers
        self._retentions = retentions
        self._keeps = keeps
        self._now = now
        self._monotonic = monotonic
        self._patience = patience
        self._looks = LogHistory()
        self._flows = Flows()
        self._markers = Markers()
        self._answers: dict[Partition, tuple[Answer, ...]] = {}
        self._ids: Mapping[str, bytes] = {}
        self._homes: dict[str, int] = {}
        self._secret: set[str] = set()
        self._last = ClusterSample(now(), 0.0)

    async def sample(self) -> ClusterSample:
        """Return the present sample, with what is unknown. Never raises KafkaFailure."""
        began = self._monotonic()
        try:
            sampled = await self._take_sample()
        except KafkaFailure as failure:
            sampled = self._last.as_failed(self._now(), failure.message)
        self._last = replace(sampled, seconds=self._monotonic() - began)
        return self._last

    async def close(self) -> None:
        """Close the connections."""
        await self._brokers.close()
        await self._retentions.close()

    async def _take_sample(self) -> ClusterSample:
        topology = await self._brokers.read_topology()
        self._notice_new_topics(topology)
        groups = await self._brokers.list_groups(topology.brokers)
        wanted = {
            broker: [name for name in names if self._keeps(name)]
            for broker, names in groups.by_broker.items()
        }
        commits = await self._brokers.read_commits(wanted)
        self._record_coordinators(wanted, groups, commits)
        at, looked = self._now(), self._monotonic()
        logs = await self._brokers.read_logs(topology.leaders)
        logs.unavailable |= topology.unavailable
        self._looks.add(looked, logs.logs)
        await asyncio.sleep(0)
        self._looks.keep(topology.leaders)
        self._flows.add(looked, logs.logs, logs.unavailable)
        return await self._judge(at, topology, commits, logs)

    async def _judge(self, at: datetime, topology: Topology, commits: Commits, logs: Logs) -> ClusterSample:
        """Return the sample from the positions of groups."""
        positions, unknown = await self._place(topology, commits, logs)
        await self._read_markers(topology, positions)
        if self._markers:
            positions = [skip_markers(position, self._markers) for position in positions]
        topics = {position.pair.partition.topic for position in positions}
        retentions = await self._retentions.read(topics)
        evidence = Evidence(at, {}, self._markers, retentions, self._looks.measure_removal, self._secret)
        searches = await self._begin_searches(positions, evidence)
        await self._search(topology, searches)
        self._answers = await _remember(searches)
        evidence = replace(evidence, searches=searches)
        samples: dict[GroupPartition, Sample] = {}
        async for position in _in_turns(positions):
            samples[position.pair] = build_sample(position, evidence)
        known = frozenset(commits.offsets) | frozenset(commits.unread)
        return ClusterSample(
            at, 0.0, known, logs.logs, samples, unknown, commits.unread, logs.unavailable,
            written=self._flows.totals, rates=self._flows.rates,
        )  # fmt: skip

    def _notice_new_topics(self, topology: Topology) -> None:
        """Forget topics that were deleted or recreated."""
        changed = {name for name, each in self._ids.items() if topology.ids.get(name, each) != each}
        if changed:
            for partition in topology.leaders:
                if partition.topic in changed:
                    self._looks.forget(partition)
                    self._flows.forget(partition)
                    self._markers.forget(partition)
                    self._answers.pop(partition, None)
        self._ids = topology.ids

    def _record_coordinators(self, wanted: Mapping[int, list[str]], groups: Groups, commits: Commits) -> None:
        """Report the groups of unavailable brokers as unread: a group that no broker lists may still exist."""
        homes = {group: broker for broker, names in wanted.items() for group in names}
        for group, broker in self._homes.items():
            if broker not in groups.by_broker and group not in homes:
                homes[group] = broker
                gone = f"broker {broker}, the coordinator of the group, is unavailable"
                commits.unread[group] = groups.silent.get(broker, gone)
        self._homes = homes

    async def _place(
        self, topology: Topology, commits: Commits, logs: Logs
    ) -> tuple[list[Position], dict[GroupPartition, str]]:
        """Return the positions of groups, and why those of others are unknown."""
        sizes: dict[str, list[Partition]] = defaultdict(list)
        for partition in topology.leaders:
            sizes[partition.topic].append(partition)
        positions, unknown = [], dict(commits.refused)
        async for pair, committed in _in_turns(find_pairs(commits.offsets, sizes)):
            log = logs.logs.get(pair.partition)
            if pair in unknown:
                continue
            if log is not None:
                positions.append(place(pair, committed, log))
            elif committed is not None:
                gone = "the topic was deleted, or this user has no permission to describe it"
                unknown[pair] = logs.unavailable.get(pair.partition, gone)
        for pair in (*self._last.samples, *self._last.unknown):
            if pair.group in commits.unread:
                unknown[pair] = commits.unread[pair.group]
        return positions, unknown

    async def _read_markers(self, topology: Topology, positions: list[Position]) -> None:
        """Read the offset after the committed one where it may be a marker: the group does not move, or the log is known to have some."""
        suspects = [
            position
            async for position in _in_turns(positions)
            if position.is_behind and self._is_suspect(position)
        ]
        begins: dict[Partition, int] = {}
        for position in suspects:
            partition = position.pair.partition
            begins[partition] = min(position.begin, begins.get(partition, position.begin))
        self._markers.keep(begins)
        suspects.sort(key=lambda position: position.limit - position.begin)
        for _ in range(_PROBE_ROUNDS):
            offsets: dict[Partition, int] = {}
            for pair, _, _, begin, limit in suspects:
                offset = self._markers.ask(pair.partition, begin, limit)
                if offset is not None and pair.partition.topic not in self._secret:
                    offsets.setdefault(pair.partition, offset)
                if len(offsets) >= _PROBES:
                    break
            if not offsets:
                return
            for partition, batch in (await self._brokers.find_batches(topology.leaders, offsets)).items():
                if isinstance(batch, Batch):
                    self._markers.take(partition, batch)
                else:
                    self._secret.add(partition.topic)

    def _is_suspect(self, position: Position) -> bool:
        pair = position.pair
        if pair.partition.topic in self._secret:
            return False
        last = self._last.samples.get(pair)
        is_unchanged = last is not None and last.committed == position.committed
        return (
            is_unchanged
            or position.log.stable < position.log.end
            or self._markers.is_transactional(pair.partition)
        )

    async def _begin_searches(
        self, positions: Iterable[Position], evidence: Evidence
    ) -> dict[Target, Search]:
        """Start searches from former responses and from the times of samples; also for the oldest records of logs that lose records."""
        now, looked = evidence.at.timestamp(), self._monotonic()
        searches: dict[Target, Search] = {}
        async for (_, partition), _, log, begin, limit in _in_turns(positions):
            if begin >= limit:
                continue
            targets = [Target(partition, begin)]
            if self._looks.measure_removal(partition) is not None:
                targets.append(Target(partition, log.start))
            for target in targets:
                if target in searches:
                    continue
                guess = self._looks.guess_time(*target)
                retention = evidence.retentions[partition.topic]
                searches[target] = search = Search(
                    target.offset,
                    log.start,
                    log.end,
                    ceiling=int(now * 1000) + AHEAD,
                    gaps=retention.compacts and not retention.by_append,
                    guess=None if guess is None else int((now - (looked - guess)) * 1000),
                )
                search.recall(self._answers.get(partition, ()))
        return searches

    async def _search(self, topology: Topology, searches: Mapping[Target, Search]) -> None:
        """Send the requests of all searches, round by round, until all are done or time is up."""
        deadline = self._monotonic() + self._patience
        left = {target: search for target, search in searches.items() if not search.done}
        for _ in range(_ROUNDS):
            if not left or self._monotonic() > deadline:
                return
            for layer in _cut_layers(left):
                await self._send(topology, layer)
            left = {target: search for target, search in left.items() if not search.done}

    async def _send(self, topology: Topology, layer: Mapping[Partition, Search]) -> None:
        questions = {partition: search.ask() for partition, search in layer.items()}
        for partition, answer in (await self._brokers.find_stamps(topology.leaders, questions)).items():
            search = layer[partition]
            if isinstance(answer, str):
                search.done, search.why = True, answer
            elif answer.offset < 0:
                search.take(Answer(answer.asked, search.end, answer.stamp))
            else:
                search.take(answer)


def _cut_layers(searches: Mapping[Target, Search]) -> Iterator[dict[Partition, Search]]:
    """Yield at most some thousand searches, each in another partition."""
    layers: list[dict[Partition, Search]] = []
    depths: dict[Partition, int] = defaultdict(int)
    for target, search in searches.items():
        depth = depths[target.partition]
        depths[target.partition] += 1
        if depth == len(layers):
            layers.append({})
        layers[depth][target.partition] = search
    for layer in layers:
        items = list(layer.items())
        for begin in range(0, len(items), _AT_ONCE):
            yield dict(items[begin : begin + _AT_ONCE])


async def _remember(searches: Mapping[Target, Search]) -> dict[Partition, tuple[Answer, ...]]:
    found: dict[Partition, set[Answer]] = defaultdict(set)
    async for target, search in _in_turns(searches.items()):
        found[target.partition].update(search.remember())
    return {partition: tuple(answers) for partition, answers in found.items()}


async def _in_turns(items: Iterable[Item]) -> AsyncIterator[Item]:
    for index, item in enumerate(items):
        if not index % _BREATH:
            await asyncio.sleep(0)
        yield item
