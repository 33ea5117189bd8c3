"""The seams through which the operator sees and changes the context, in one value.

Tests put fakes here: a cluster in memory, a Kafka in memory, a clock that they turn.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from kappa_crds.progress import Progress
from kappa_crds.resource import Resource
from kappa_crds.statestore import StateStoreSpec, StateStoreStatus
from kappa_operator.engine.actions import CallWebhook
from kappa_operator.engine.cache import ResourceCache, get_version
from kappa_operator.engine.cluster import Body, Cluster
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.kinds import KindTable
from kappa_operator.engine.recent import RecentReads, View
from kappa_operator.errors import NotLeading
from kappa_operator.kafka.clients import KafkaClients
from kappa_operator.lag.memory import LagMemory
from kappa_operator.lag.model import ClusterSample
from kappa_operator.lagpolicy.notification import Delivery
from kappa_operator.lagpolicy.webhooks import HttpWebhooks
from kappa_operator.pipeline.progress_cache import ProgressCache
from kappa_operator.pipeline.rollout import RolloutLimiter
from kappa_operator.settings import Settings


class Drivers(Protocol):
    """The control ports of drivers."""

    async def fetch_progress(self, address: str, token: str) -> Progress:
        """Return the progress that the driver reports; raise DriverUnreachable where it does not respond."""

    async def stop(self, address: str, token: str, within: float) -> None:
        """Ask the driver to stop at the end of its batch, within so many seconds; raise DriverUnreachable where it does not answer."""

    async def activate(self, address: str, token: str) -> None:
        """Have a standby driver take over; a repeated request is fine. Raise DriverUnreachable where it does not respond."""

    async def take_savepoint(self, address: str, token: str, name: str, location: str) -> None:
        """Ask the driver for a savepoint; asking twice is fine. Raise DriverUnreachable where it does not answer."""


class Buckets(Protocol):
    """Stores that are mounted nowhere: buckets of S3-compatible stores, and folders in HDFS."""

    async def check(
        self, store: Resource[StateStoreSpec, StateStoreStatus], credentials: dict[str, str]
    ) -> None:
        """Write, read and delete a file or an object; raise StoreFailure in the store's own words."""


class Webhooks(Protocol):
    """The webhooks of policies: one call of each policy at a time, beside the reconciles."""

    def start(self, action: CallWebhook, token: str | None) -> None:
        """Begin a call; the same attempt once more changes nothing. Raise WebhookFailure where the host may not be called."""

    def get(self, policy: Key) -> Delivery | None:
        """Return what came of the last attempt of a policy, None while it is under way or where there was none."""

    def forget(self, policy: Key) -> None:
        """End and forget the call of a policy that is gone."""


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """All that the operator can reach."""

    cluster: Cluster
    cache: ResourceCache
    kafka: KafkaClients
    drivers: Drivers
    buckets: Buckets
    settings: Settings
    get_lag: Callable[[Key], ClusterSample | None] = lambda _cluster: None
    """Returns the last lag sample of a KafkaCluster; None before the first one of this leader."""
    webhooks: Webhooks = field(default_factory=HttpWebhooks)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    is_leading: Callable[[], bool] = lambda: True
    expect_event: Callable[[Key, int], None] = lambda _key, _version: None
    histories: LagMemory = field(default_factory=LagMemory)
    progress: ProgressCache = field(default_factory=ProgressCache)
    rollouts: RolloutLimiter = field(default_factory=RolloutLimiter)
    reads: View = field(default_factory=lambda: View(RecentReads()))

    async def read_recent(self, ref: ObjectRef, age: float) -> Body | None:
        """Return the object as it was at most `age` seconds ago, None where it is absent."""
        return await self.reads.read(ref, age, partial(self.cluster.get, ref))

    @property
    def kinds(self) -> KindTable:
        """Return the table of kinds."""
        return self.cache.kinds

    def note(self, written: Body) -> None:
        """Remember an object as the API server returned it from a write, ahead of the watch.

        A write that changed nothing, or whose event was quicker than its response, has no event still to come.
        """
        if self.cache.is_news(written):
            self.expect_event(self.cache.put(written), get_version(written))

    def check_leading(self) -> None:
        """Raise NotLeading where this replica may not act any more."""
        if not self.is_leading():
            raise NotLeading("the lease is lost; another replica acts")
