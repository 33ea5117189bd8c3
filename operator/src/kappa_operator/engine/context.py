"""The seams through which the operator sees and changes the context, in one value.

Tests put fakes here: a cluster in memory, a Kafka in memory, a clock that they turn.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from kappa_operator.connect.client import HttpConnect
from kappa_operator.engine.cache import ResourceCache, get_version
from kappa_operator.engine.cluster import ApiCluster, Body
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.kinds import KindTable
from kappa_operator.engine.recent import RecentReads, View
from kappa_operator.errors import NotLeading
from kappa_operator.kafka.clients import AdminClients
from kappa_operator.lag.memory import LagMemory
from kappa_operator.lag.model import ClusterSample
from kappa_operator.lagpolicy.webhooks import HttpWebhooks
from kappa_operator.log.eta import ReplaySample
from kappa_operator.log.overtake import RaceSample
from kappa_operator.pipeline.drivers import HttpDrivers
from kappa_operator.pipeline.progress_cache import ProgressCache
from kappa_operator.pipeline.revision import BuiltRevision
from kappa_operator.pipeline.rollout import RolloutLimiter
from kappa_operator.reprocessing.samples import ReplaySamples
from kappa_operator.reprocessing.soak import SoakMemory
from kappa_operator.settings import Settings


class WatchPods(Protocol):
    """Starts or stops to watch the pods of a namespace."""

    async def __call__(self, namespace: str, *, watched: bool) -> None:
        """Watch the pods of the namespace from now on, or not any more."""


async def _watch_all(namespace: str, *, watched: bool) -> None:
    """Change nothing: the pods of all namespaces are watched."""


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """All that the operator can reach."""

    cluster: ApiCluster
    cache: ResourceCache
    kafka: AdminClients
    drivers: HttpDrivers
    settings: Settings
    get_lag: Callable[[Key], ClusterSample | None] = lambda _cluster: None
    """Returns the last lag sample of a KafkaCluster; None before the first one of this leader."""
    webhooks: HttpWebhooks = field(default_factory=HttpWebhooks)
    connect: HttpConnect = field(default_factory=HttpConnect)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    is_leading: Callable[[], bool] = lambda: True
    expect_event: Callable[[Key, int], None] = lambda _key, _version: None
    histories: LagMemory = field(default_factory=LagMemory)
    progress: ProgressCache = field(default_factory=ProgressCache)
    rollouts: RolloutLimiter = field(default_factory=RolloutLimiter)
    replays: ReplaySamples[ReplaySample] = field(default_factory=ReplaySamples)
    races: ReplaySamples[RaceSample] = field(default_factory=ReplaySamples)
    soaks: SoakMemory = field(default_factory=SoakMemory)
    revisions: dict[Key, BuiltRevision] = field(default_factory=dict)
    """The revision of each pipeline that was built last."""
    watch_pods: WatchPods = _watch_all
    """Starts or stops to watch the pods of a namespace."""
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
