"""Samples each connected KafkaCluster at its interval, while this replica is the leader.

A sample is taken by a task beside the reconciles, which never wait for it; it waits for brokers most of its time. The last sample is kept
here. A sampler is kept for its memory, and replaced when the connection settings of its cluster change.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase

import structlog

from kappa_crds.conditions import ConditionType, is_true
from kappa_crds.kafkacluster import LagSampling
from kappa_crds.quantities import parse_duration
from kappa_operator.engine.keys import Key
from kappa_operator.errors import AuthenticationFailed, KappaError
from kappa_operator.fair import FairSlots
from kappa_operator.kafka.configs import ConfigReader
from kappa_operator.kafka.connection import Connection
from kappa_operator.kafka.frames import NAMESPACE
from kappa_operator.kafka.model import KafkaAccess
from kappa_operator.kafkacluster.decide import KafkaClusterResource
from kappa_operator.lag.brokers import Brokers
from kappa_operator.lag.model import ClusterSample
from kappa_operator.lag.retentions import Retentions
from kappa_operator.lag.sampler import Sampler

log = structlog.get_logger(__name__)

TICK = 1.0
"""Seconds between two checks for due samples."""
_SLOTS = 32
"""Samples that are taken at the same time."""
MOST_PARTITIONS = 1_000_000
"""Partitions and group partitions in the samples of all clusters: each takes some hundred bytes."""
Keeps = Callable[[str], bool]


def build_sampler(access: KafkaAccess, keeps: Keeps) -> Sampler:
    """Return a sampler of a real cluster."""
    connection = Connection(access)
    return Sampler(Brokers(connection), Retentions(ConfigReader(connection)), keeps=keeps)


@dataclass(frozen=True, slots=True)
class _Kept:
    sampler: Sampler
    made_of: tuple[str, LagSampling]


class Sampling:
    """The samplers of all clusters. `find` yields the KafkaClusters, `resolve` returns how to reach one.

    `on_new_groups` is called after a sample with other groups than the one before: LagPolicies may select them.
    """

    def __init__(
        self,
        find: Callable[[], Iterable[KafkaClusterResource]],
        resolve: Callable[[KafkaClusterResource], Awaitable[KafkaAccess]],
        *,
        on_new_groups: Callable[[Key], None] = lambda cluster: None,
        build: Callable[[KafkaAccess, Keeps], Sampler] = build_sampler,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find = find
        self._resolve = resolve
        self._on_new_groups = on_new_groups
        self._build = build
        self._monotonic = monotonic
        self._slots = FairSlots(_SLOTS)
        self._samplers: dict[Key, _Kept] = {}
        self._found: dict[Key, ClusterSample] = {}
        self._due: dict[Key, float] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    def get(self, cluster: Key) -> ClusterSample | None:
        """Return the last sample of the cluster, None without one."""
        return self._found.get(cluster)

    def list_found(self) -> Iterator[tuple[str, ClusterSample]]:
        """Yield the namespace/name of each cluster and its last sample; safe to call from a thread."""
        for key, sampled in list(self._found.items()):
            yield f"{key.namespace}/{key.name}", sampled

    async def run(self) -> None:
        """Take samples until cancelled; then close the connections and drop the samples."""
        try:
            while True:
                await self.start_due()
                await asyncio.sleep(TICK)
        finally:
            await self._stop(list(self._tasks.keys() | self._samplers.keys()))

    async def start_due(self) -> None:
        """Start due samples, and stop those of clusters that were deleted or are not sampled."""
        wanted = {Key.of(cluster): cluster for cluster in self._find() if cluster.spec.lag.enabled}
        await self._stop([key for key in (self._samplers.keys() | self._found.keys()) if key not in wanted])
        for key, cluster in wanted.items():
            is_idle = key not in self._tasks or self._tasks[key].done()
            is_known = key in self._found or is_true(cluster.status.conditions, ConditionType.READY)
            if is_idle and is_known and self._monotonic() >= self._due.get(key, 0.0):
                self._due[key] = self._monotonic() + parse_duration(cluster.spec.lag.interval)
                self._tasks[key] = asyncio.create_task(self._take_sample(key, cluster))

    async def finish(self) -> None:
        """Wait for the running samples."""
        await asyncio.gather(*self._tasks.values())

    async def _take_sample(self, key: Key, cluster: KafkaClusterResource) -> None:
        """Take one sample. An unexpected error is logged and ends nothing; the former sample does not count as the present one."""
        before = self._found.get(key, ClusterSample(datetime.now(UTC), 0.0))
        NAMESPACE.set(key.namespace)
        try:
            async with self._slots.hold(key.namespace):
                sampler = await self._get_sampler(key, cluster)
                sampled = self._check_size(key, before, await sampler.sample())
        except AuthenticationFailed as error:
            await self._disconnect(key)
            sampled = before.as_failed(datetime.now(UTC), error.message)
        except KappaError as error:
            sampled = before.as_failed(datetime.now(UTC), error.message)
        except Exception as error:
            log.exception("unexpected error", resource=str(key))
            why = f"the sample failed with {type(error).__name__}; see the log"
            sampled = before.as_failed(datetime.now(UTC), why)
        if sampled.failure is not None and before.failure is None:
            log.warning("lag not sampled", resource=str(key), why=sampled.failure)
        self._found[key] = sampled
        if {pair.group for pair in sampled.samples} != {pair.group for pair in before.samples}:
            self._on_new_groups(key)

    def _check_size(self, key: Key, before: ClusterSample, sampled: ClusterSample) -> ClusterSample:
        """Return the sample, or that it is left out: the samples of a namespace may hold no more partitions than are free."""
        held = {each: _measure(found) for each, found in self._found.items() if each != key}
        own = sum(size for each, size in held.items() if each.namespace == key.namespace)
        size = _measure(sampled)
        if own + size <= MOST_PARTITIONS - sum(held.values()) - size:
            return sampled
        why = f"{size} partitions and group partitions are more than there is room for in this namespace; set lag.exclude or lag.enabled"
        return ClusterSample(datetime.now(UTC), 0.0).as_failed(datetime.now(UTC), why)

    async def _get_sampler(self, key: Key, cluster: KafkaClusterResource) -> Sampler:
        access = await self._resolve(cluster)
        made_of = (access.fingerprint, cluster.spec.lag)
        kept = self._samplers.get(key)
        if kept is not None and kept.made_of == made_of:
            return kept.sampler
        if kept is not None:
            await _close(key, kept.sampler)
        sampler = self._build(access, build_filter(cluster.spec.lag))
        self._samplers[key] = _Kept(sampler, made_of)
        return sampler

    async def _disconnect(self, key: Key) -> None:
        """Close the connections of a sampler, which is kept for its memory: they would log in again whenever they are lost."""
        kept = self._samplers.get(key)
        if kept is not None:
            await _close(key, kept.sampler)

    async def _stop(self, keys: Iterable[Key]) -> None:
        for key in keys:
            task = self._tasks.pop(key, None)
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
            kept = self._samplers.pop(key, None)
            if kept is not None:
                await _close(key, kept.sampler)
            self._found.pop(key, None)
            self._due.pop(key, None)


async def _close(key: Key, sampler: Sampler) -> None:
    """Close a sampler; an error there ends nothing else."""
    try:
        await sampler.close()
    except Exception:
        log.exception("unexpected error", resource=str(key))


def _measure(sampled: ClusterSample) -> int:
    return len(sampled.logs) + len(sampled.samples) + len(sampled.unknown)


def build_filter(sampling: LagSampling) -> Keeps:
    """Return the filter of groups to sample."""

    def keeps(group: str) -> bool:
        included = not sampling.include or any(_matches(group, each) for each in sampling.include)
        return included and not any(_matches(group, each) for each in sampling.exclude)

    return keeps


def _matches(group: str, pattern: str) -> bool:
    """Only * is special: a group's name may hold the other characters of shell patterns."""
    return fnmatchcase(group, pattern.replace("[", "[[]").replace("?", "[?]"))
