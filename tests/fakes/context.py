"""An operator in memory: a cluster, Kafka and drivers, and a clock that tests turn.

`Process` is one life of the operator. When it is killed, `restart` gives the next one: the cluster and Kafka stay,
everything that the process remembered is gone.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from fakes.cluster import Body, FakeCluster
from fakes.connect import FakeConnect
from fakes.fuse import Fuse, Killed
from fakes.kafka import FakeBroker, FakeKafka
from fakes.permissions import PermittedCluster
from fakes.samples import FakeSamples
from kappa_crds import API_VERSION
from kappa_crds.comparison import ComparisonRequest, ComparisonSummary
from kappa_crds.progress import (
    ComparisonProgress,
    ComparisonState,
    DriverExit,
    DriverRole,
    Hold,
    HoldPhase,
    InputVector,
    Progress,
    SavepointProgress,
    TopicOffsets,
    find_common_cut,
)
from kappa_operator.consent import CONNECT, DATABASE, KAFKA, PREFIX, REGISTRY, S3, WEBHOOK
from kappa_operator.engine.actions import CallWebhook
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.kinds import KindTable
from kappa_operator.engine.recent import LONGEST, RecentReads, View
from kappa_operator.engine.reconcile import Outcome, reconcile
from kappa_operator.errors import Conflict, DriverRefused, DriverUnreachable, NotFound, WebhookFailure
from kappa_operator.lagpolicy.notification import Delivery
from kappa_operator.lagpolicy.webhooks import HttpWebhooks
from kappa_operator.pipeline.drivers import ControlAccess, HttpDrivers
from kappa_operator.pipeline.objects import PIPELINE_LABEL
from kappa_operator.settings import Settings

START = datetime(2026, 1, 1, tzinfo=UTC)
ATTEMPTS = 20


class Clock:
    """A clock that stands still until it is told to go on."""

    def __init__(self, now: datetime = START) -> None:
        self.time = now

    def __call__(self) -> datetime:
        return self.time

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.time += timedelta(seconds=seconds)


@dataclass
class FakeDrivers(HttpDrivers):
    """Drivers by address: their progress, and who was asked to stop. `kept` are the savepoints that are in the store.

    `elsewhere` are those in other stores, by location and name.

    `outputs_at` has, by host, the ends of the output topics that a driver reports after it has advanced.

    Each attempt to take one fails with `unsaved`, where that is there; with `slow` none comes to its end.
    """

    progress: dict[str, Progress] = field(default_factory=dict)
    stopped: list[str] = field(default_factory=list)
    activated: list[str] = field(default_factory=list)
    savepoints: list[tuple[str, str, str]] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
    elsewhere: set[tuple[str, str]] = field(default_factory=set)
    unsaved: DriverExit | None = None
    slow: bool = False
    differing: int = 0
    compared: list[ComparisonRequest] = field(default_factory=list)
    cannot_hold: bool = False
    outputs_at: dict[str, TopicOffsets] = field(default_factory=dict)

    async def fetch_progress(self, address: str, access: ControlAccess, *, namespace: str = "") -> Progress:
        """Return the progress; raise DriverUnreachable where there is none."""
        address = _find_host(address)
        if address not in self.progress:
            raise DriverUnreachable(f"{address} does not answer")
        return self.progress[address]

    async def stop(self, address: str, access: ControlAccess, within: float) -> None:
        """Note who was asked."""
        self.stopped.append(_find_host(address))

    async def activate(self, address: str, access: ControlAccess) -> None:
        """Note who was told to take over."""
        address = _find_host(address)
        if address not in self.progress:
            raise DriverUnreachable(f"{address} does not answer")
        self.activated.append(address)

    async def hold(self, address: str, access: ControlAccess, seconds: float) -> None:
        """Hold at once, where its queries are; one that holds holds longer."""
        progress = self._find(address)
        if self.cannot_hold:
            raise DriverRefused("this pipeline has no batches")
        until = (progress.reported_at or progress.started_at) + timedelta(seconds=seconds)
        held = progress.hold or Hold(phase=HoldPhase.HOLDING, until=until, position=find_position(progress))
        self._replace(address, hold=held.replace(until=until))

    async def advance(self, address: str, access: ControlAccess, target: InputVector) -> None:
        """Be there at once, with the ends that `outputs_at` has; refuse a target that is behind."""
        held = self._find(address).hold
        if held is None:
            raise DriverUnreachable(f"{address} does not hold")
        if find_common_cut((held.position, target)) != target:
            self._replace(address, hold=held.replace(target=target, refusal="the target is behind"))
            return
        ends = self.outputs_at.get(_find_host(address), {})
        self._replace(address, hold=held.replace(target=target, refusal="", position=target, outputs=ends))

    async def resume(self, address: str, access: ControlAccess) -> None:
        """Hold no more."""
        self._replace(address, hold=None)

    async def compare(self, address: str, access: ControlAccess, request: ComparisonRequest) -> None:
        """Compare at once; all rows are equal, or as many differ as `differing` has."""
        progress = self._find(address)
        if request.name in {each.name for each in progress.comparisons}:
            return
        self.compared.append(request)
        summary = ComparisonSummary(
            old_topic=request.old.topic, new_topic=request.new.topic, equal=7, changed=self.differing
        )
        done = ComparisonProgress(name=request.name, state=ComparisonState.DONE, summary=summary)
        self._replace(address, comparisons=(*progress.comparisons, done))

    async def set_role(self, address: str, access: ControlAccess, role: DriverRole) -> None:
        """Have the role from now on."""
        self._replace(address, role=role)

    def _find(self, address: str) -> Progress:
        address = _find_host(address)
        if address not in self.progress:
            raise DriverUnreachable(f"{address} does not answer")
        return self.progress[address]

    def _replace(self, address: str, **fields: Any) -> None:
        self.progress[_find_host(address)] = self._find(address).replace(**fields)

    async def take_savepoint(self, address: str, access: ControlAccess, name: str, location: str) -> None:
        """Note who was asked for what; it is taken at once, and only once."""
        address = _find_host(address)
        self.savepoints.append((address, name, location))
        progress = self.progress[address]
        if self.unsaved is not None or self.slow:
            begun = SavepointProgress(name=name, location=location, done=not self.slow, failure=self.unsaved)
            self.progress[address] = progress.replace(savepoints=(begun,))
            return
        if name not in {each.name for each in progress.savepoints}:
            self.kept.add(name)
            taken = report_taken(name, location, progress.started_at)
            self.progress[address] = progress.replace(savepoints=(*progress.savepoints, taken))


@dataclass
class FakeWebhooks(HttpWebhooks):
    """Webhooks that answer each attempt with the next of `answers`: None where they take it, or why not. They take what no answer is left for."""

    fuse: Fuse = field(default_factory=Fuse)
    answers: list[str | None] = field(default_factory=list)
    calls: list[CallWebhook] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    refused: str | None = None
    _found: dict[Key, Delivery] = field(default_factory=dict)

    def check(self, url: str) -> None:
        """Refuse every host where the fake is to."""
        if self.refused is not None:
            raise WebhookFailure(self.refused)

    def start(self, action: CallWebhook, token: str | None) -> None:
        """Answer the attempt, unless that has been done."""
        known = self._found.get(action.policy)
        if known is None or (known.id, known.attempt) != (action.id, action.attempt):
            self.calls.append(action)
            self.tokens.append(token)
            error = self.answers.pop(0) if self.answers else None
            self._found[action.policy] = Delivery(action.id, action.attempt, error)
            self.fuse.wrote()

    def get(self, policy: Key) -> Delivery | None:
        """Return the answer."""
        return self._found.get(policy)

    def forget(self, policy: Key) -> None:
        """Forget the answer."""
        self._found.pop(policy, None)

    def die(self) -> "FakeWebhooks":
        """Return the same with nothing remembered: what came of a call under way is lost with the process."""
        return replace(self, _found={})


def _find_host(address: str) -> str:
    """Return the address of a pod from the URL of its control port."""
    return urlsplit(address).hostname or address


def find_position(progress: Progress) -> InputVector:
    """Return the point up to which the queries of a driver have read."""
    sources = [source for query in progress.queries for source in query.sources]
    return find_common_cut(InputVector(offsets=source.end_offsets) for source in sources)


def report_taken(name: str, location: str, at: datetime) -> SavepointProgress:
    """Return what is told of a savepoint that was taken."""
    return SavepointProgress(
        name=name, location=location, done=True, taken=at, batches={"log": 7},
        shuffle_partitions=3, size_bytes=2048, copied_bytes=1024,
    )  # fmt: skip


_AWAKE = 10.0
"""Seconds: who asks to be looked at again so soon is about to do something."""


def _find_sleeper(keys: Sequence[Key], outcomes: Sequence[Outcome]) -> str:
    """Return what is wrong if the only resource writes again although nothing else has happened; empty where it asked to be looked at."""
    wait = outcomes[0].requeue_after
    if len(keys) > 1 or (wait is not None and wait <= _AWAKE):
        return ""
    return f"{keys[0]} has more to do, and wants to be looked at in {wait} s only"


class Operator:
    """One life of the operator on fakes. `kinds` is its table of kinds.

    One that `remembers` uses what the API server answered before, as the real one does, and watches pods.

    One that `is_strict` fails where a resource has more to do and does not ask to be looked at again.
    """

    is_strict = True

    def __init__(
        self,
        kinds: KindTable,
        *,
        cluster: FakeCluster | None = None,
        brokers: dict[str, FakeBroker] | None = None,
        drivers: FakeDrivers | None = None,
        lag: FakeSamples | None = None,
        webhooks: FakeWebhooks | None = None,
        connect: FakeConnect | None = None,
        clock: Clock | None = None,
        settings: Settings | None = None,
        remembers: bool = False,
        misses_pods: bool = False,
    ) -> None:
        self.remembers, self.misses_pods = remembers, misses_pods
        self.clock = clock or Clock()
        self.cluster = cluster or PermittedCluster(Fuse(), self.clock)
        self.brokers = {"kafka:9092": FakeBroker()} if brokers is None else brokers
        self.kafka = FakeKafka(self.brokers, self.cluster.fuse)
        self.kafka.now = self.clock
        self.drivers = drivers or FakeDrivers()
        self.lag = lag or FakeSamples()
        self.webhooks = webhooks or FakeWebhooks(fuse=self.cluster.fuse)
        self.connect = connect or FakeConnect(fuse=self.cluster.fuse)
        self.cache = ResourceCache(kinds, (settings or Settings()).get_limit)
        self.reads = RecentReads(lambda: self.clock().timestamp(), LONGEST if remembers else 0.0)
        self.context = OperatorContext(
            cluster=self.cluster, cache=self.cache, kafka=self.kafka, drivers=self.drivers,
            settings=settings or Settings(network_policies="{}", allow_clear_text=("*",)), now=self.clock, get_lag=self.lag.get,
            webhooks=self.webhooks, connect=self.connect, reads=View(self.reads),
        )  # fmt: skip
        for kind in kinds:
            for body in self.cluster.find(API_VERSION, kind):
                self.cache.put(body)
        self.cluster.subscribe(self._watch)

    def _watch(self, event: str, body: Body) -> None:
        if body["apiVersion"] == API_VERSION:
            (self.cache.drop if event == "DELETED" else self.cache.put)(body)
        labels = body["metadata"].get("labels", {})
        if body["kind"] == "Pod" and PIPELINE_LABEL in labels and not self.misses_pods:
            self.reads.drop(Key("Pipeline", body["metadata"]["namespace"], labels[PIPELINE_LABEL]))

    def restart(self, settings: Settings | None = None) -> "Operator":
        """Return the next life, with other settings where given: what is outside stays, what was remembered is gone."""
        self.cluster.unsubscribe_all()
        self.cluster.fuse.die_after(None)
        return Operator(
            self.context.kinds, cluster=self.cluster, brokers=self.brokers,
            drivers=self.drivers, lag=self.lag, clock=self.clock, webhooks=self.webhooks.die(),
            connect=self.connect, settings=settings or self.context.settings,
            remembers=self.remembers, misses_pods=self.misses_pods,
        )  # fmt: skip

    def share(self) -> tuple[Any, ...]:
        """Return what is outside the process."""
        return self.cluster, self.brokers, self.drivers, self.lag, self.clock, self.webhooks, self.connect

    def restart_on(self, outside: tuple[Any, ...]) -> "Operator":
        """Return a first life on a copy of what `share` returned."""
        cluster, brokers, drivers, lag, clock, webhooks, connect = outside
        return Operator(
            self.context.kinds, cluster=cluster, brokers=brokers, drivers=drivers, lag=lag, clock=clock, webhooks=webhooks.die(),
            connect=connect, settings=self.context.settings, remembers=self.remembers, misses_pods=self.misses_pods,
        )  # fmt: skip

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile once, as the controller does: what moved on meanwhile is looked at again."""
        for _ in range(ATTEMPTS):
            try:
                return await reconcile(self.context, key)
            except (Conflict, NotFound):
                continue
        raise AssertionError(f"{key} does not come to rest")

    async def settle(self, *keys: Key) -> "Operator":
        """Reconcile each resource until nothing is written any more, starting anew whenever the operator is killed.

        Whoever has more to write must have asked to be looked at again: the controller does not look at a resource for its own writes.
        """
        operator, slept = self, ""
        for _ in range(ATTEMPTS):
            before = operator.cluster.fuse.writes
            try:
                outcomes = [await operator.reconcile(key) for key in keys]
            except Killed:
                operator, slept = operator.restart(), ""
                continue
            if operator.cluster.fuse.writes == before:
                return operator
            assert not slept or not self.is_strict, slept
            slept = _find_sleeper(keys, outcomes)
        raise AssertionError(f"{', '.join(map(str, keys))} do not come to rest")

    def get(self, key: Key) -> Body | None:
        """Return the resource as the API server has it."""
        return self.cluster.read(ObjectRef(API_VERSION, key.kind, key.namespace, key.name))

    def get_condition(self, key: Key, kind: str = "Ready") -> tuple[str, str, str]:
        """Return status, reason and message of a condition."""
        body = self.get(key) or {}
        for condition in body.get("status", {}).get("conditions", []):
            if condition["type"] == kind:
                return condition["status"], condition["reason"], condition.get("message", "")
        return "", "", ""

    def list_events(self, reason: str | None = None) -> list[str]:
        """Return what Events said, oldest first."""
        events = self.cluster.find("events.k8s.io/v1", "Event")
        events.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
        return [event["note"] for event in events if reason in (None, event["reason"])]


def build_resource(kind: str, name: str, namespace: str = "shop", **spec: Any) -> Body:
    """Return a manifest of one of the platform's kinds."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


ALLOW_ALL = {f"{PREFIX}{use}": "*" for use in (KAFKA, REGISTRY, S3, WEBHOOK, CONNECT, DATABASE)}
"""Annotations of a Secret that allows every use, wherever it is sent."""


def build_secret(name: str, namespace: str = "shop", **data: str) -> Body:
    """Return a Secret that allows every use; underscores in the keys become dots."""
    encoded = {
        key.replace("_", "."): base64.b64encode(value.encode()).decode() for key, value in data.items()
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "annotations": ALLOW_ALL},
        "data": encoded,
    }
