"""The only way to Kafka: the clients of all clusters, by the `KafkaCluster` resource they belong to.

`AdminClients` is the seam: the tests' twin keeps topics in a dict. A client is
created when it is first needed and replaced when its settings, secrets included, have changed.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from kappa_crds.reasons import Reason
from kappa_operator.engine.actions import KafkaAction
from kappa_operator.engine.keys import Key
from kappa_operator.errors import AuthenticationFailed, KafkaFailure
from kappa_operator.fair import FairSlots
from kappa_operator.kafka.client import KafkaClient
from kappa_operator.kafka.model import (
    ClusterView,
    GroupView,
    KafkaAccess,
    Producer,
    Rate,
    TopicView,
    UserView,
)
from kappa_operator.log.facts import Known, LogFacts, Question

MOST_CLIENTS = 100
"""Clients of all namespaces. Each has some ten threads."""
_SLOTS, _CHECKS = 32, 4
"""Calls at the same time, each of which takes a thread, and checks among them, for which the library may start a thousand."""
_MOST_BROKERS = 600
CROWDED_FOR = 600.0
"""Seconds for which a cluster with too many brokers is not connected to again: each attempt costs a thread for each broker."""
Resolve = Callable[[], Awaitable[KafkaAccess]]


@dataclass(frozen=True, slots=True)
class Crowded:
    """A cluster with too many brokers: its access, until when (monotonic seconds), and why."""

    fingerprint: str
    until: float
    message: str


class AdminClients:
    """Clients by KafkaCluster. Every call to Kafka raises KafkaFailure with the broker's message."""

    def __init__(self, most: int = MOST_CLIENTS, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._crowded: dict[Key, Crowded] = {}
        self._most, self._slots, self._checks = most, FairSlots(_SLOTS), FairSlots(_CHECKS)
        self._brokers: dict[Key, int] = {}
        self._clients: dict[Key, KafkaClient] = {}
        self._connecting: defaultdict[Key, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._closing: set[asyncio.Task[None]] = set()
        self._refused: dict[Key, str] = {}
        """Fingerprints of accesses that Kafka refused, until the check of the KafkaCluster tries again."""

    def connect(self, cluster: Key, access: KafkaAccess) -> None:
        """Use this access from now on; a client with the same access is kept."""
        if self.uses(cluster, access):
            return
        if cluster not in self._clients:
            self._check_room(cluster)
        client = KafkaClient(access, cluster.namespace, self._slots)
        self.release(cluster)
        self._clients[cluster] = client

    def _check_room(self, cluster: Key) -> None:
        """Raise KafkaFailure where the namespace would hold more clients than are free: each has threads and connections."""
        own = sum(key.namespace == cluster.namespace for key in self._clients)
        if own >= self._most - len(self._clients):
            raise KafkaFailure(
                f'the operator holds {len(self._clients)} connections to Kafka, {own} of namespace "{cluster.namespace}", of'
                f" {self._most} that it may hold; it is retried, and deleting KafkaClusters makes room",
                reason=Reason.LIMIT_REACHED,
            )

    async def ensure(self, cluster: Key, resolve: Resolve, *, again: bool = False) -> None:
        """Keep the client that is there, or make one with the access that `resolve` finds out, once for all callers.

        An access that Kafka refused is used `again` only by the check of the KafkaCluster.
        """
        if cluster in self._clients:
            return
        async with self._connecting[cluster]:
            if cluster in self._clients:
                return
            access = await resolve()
            if not again and self._refused.get(cluster) == access.fingerprint:
                raise AuthenticationFailed(f"Kafka refused the log-in of {cluster}; its check tries again")
            self._refused.pop(cluster, None)
            self._check_crowded(cluster, access)
            self.connect(cluster, access)

    def _check_crowded(self, cluster: Key, access: KafkaAccess) -> None:
        """Raise the failure again where the same access found too many brokers a short time ago."""
        known = self._crowded.get(cluster)
        if known is not None and known.fingerprint == access.fingerprint and self._clock() < known.until:
            raise KafkaFailure(known.message, reason=Reason.LIMIT_REACHED)
        self._crowded.pop(cluster, None)

    def forget_refusal(self, cluster: Key) -> None:
        """Forget that Kafka refused a log-in, or named too many brokers: the KafkaCluster is gone."""
        self._refused.pop(cluster, None)
        self._crowded.pop(cluster, None)

    def has(self, cluster: Key) -> bool:
        """Return whether there is a client for the cluster."""
        return cluster in self._clients

    def uses(self, cluster: Key, access: KafkaAccess) -> bool:
        """Return whether the client of the cluster was made with this access."""
        known = self._clients.get(cluster)
        return known is not None and known.fingerprint == access.fingerprint

    def release(self, cluster: Key) -> None:
        """Close the client, if there is one."""
        client = self._clients.pop(cluster, None)
        self._brokers.pop(cluster, None)
        if client is not None:
            task = asyncio.get_running_loop().create_task(client.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def describe_cluster(self, cluster: Key) -> ClusterView:
        """Return the cluster as it answers now."""
        with self._use(cluster) as client:
            async with self._checks.hold(cluster.namespace):
                view = await client.describe_cluster()
                self._count_brokers(cluster, view.brokers)
            return replace(view, topics=await client.count_topics())

    def _count_brokers(self, cluster: Key, found: int) -> None:
        """Close the client where its namespace has more brokers than are free: each costs a thread."""
        others = {each: count for each, count in self._brokers.items() if each != cluster}
        own = sum(count for each, count in others.items() if each.namespace == cluster.namespace)
        if own + found <= _MOST_BROKERS - sum(others.values()) - found:
            self._brokers[cluster] = found
            return
        message = (
            f'Kafka reports {found} brokers, beside {own} of other KafkaClusters of namespace "{cluster.namespace}";'
            f" the operator connects to at most {_MOST_BROKERS}, and in one namespace to half of them; it is tried again after"
            f" {CROWDED_FOR / 60:.0f} minutes, or when the connection of the KafkaCluster changes"
        )
        client = self._clients.get(cluster)
        if client is not None:
            self._crowded[cluster] = Crowded(client.fingerprint, self._clock() + CROWDED_FOR, message)
        self.release(cluster)
        raise KafkaFailure(message, reason=Reason.LIMIT_REACHED)

    async def describe_topic(
        self, cluster: Key, topic: str, configs: frozenset[str] = frozenset()
    ) -> TopicView | None:
        """Return the topic with these of its configs, or None where there is none."""
        with self._use(cluster) as client:
            return await client.describe_topic(topic, configs)

    async def read_quota(self, cluster: Key, producer: Producer, kind: Rate = Rate.PRODUCER) -> float | None:
        """Return the bytes a second for each broker, None where the client has no quota of its own."""
        with self._use(cluster) as client:
            return await client.read_quota(producer, kind)

    async def read_group(self, cluster: Key, group: str) -> GroupView:
        """Return a consumer group."""
        with self._use(cluster) as client:
            return await client.read_group(group)

    async def read_log(self, cluster: Key, questions: Sequence[Question], known: Known) -> LogFacts:
        """Return the facts that prove logs whole."""
        with self._use(cluster) as client:
            return await client.read_log(questions, known)

    async def read_user(self, cluster: Key, user: str) -> UserView:
        """Return a user as Kafka shows it."""
        with self._use(cluster) as client:
            return await client.users.read(user)

    async def put_user(self, cluster: Key, user: str, mechanism: str, password: str) -> None:
        """Create a user, or set its password."""
        with self._use(cluster) as client:
            await client.users.put(user, mechanism, password)

    async def apply(self, action: KafkaAction) -> None:
        """Execute the action and return when its effect can be seen."""
        with self._use(action.cluster) as client:
            await client.apply(action)

    async def close(self) -> None:
        """Close all clients."""
        for cluster in list(self._clients):
            self.release(cluster)
        await asyncio.gather(*self._closing)

    @contextmanager
    def _use(self, cluster: Key) -> Iterator[KafkaClient]:
        """Use the client. One whose log-in is refused is closed: the library would repeat the log-in without end."""
        client = self._clients.get(cluster)
        if client is None:
            raise KafkaFailure(f"there is no connection to {cluster} yet")
        try:
            with client.use():
                yield client
        except AuthenticationFailed:
            if self._clients.get(cluster) is client:
                self._refused[cluster] = client.fingerprint
                self.release(cluster)
            raise
