"""kopf's part: watch events become keys on the queue. Nothing is decided here.

Only `on.event` is used: no annotations, no finalizers and no per-object daemons of kopf's own, so that ten thousand
resources cost ten thousand small entries in the cache and nothing else.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, cast

import kopf
from kopf._cogs.structs.references import Insights, NamespaceName

from kappa_crds import GROUP, VERSION
from kappa_operator import backoff
from kappa_operator.engine.cluster import PAGE
from kappa_operator.engine.keys import Key
from kappa_operator.engine.kinds import KindTable
from kappa_operator.engine.watch_thread import Step

Event = dict[str, Any]
Call = Callable[[Step], Awaitable[None]]
"""Runs a coroutine in the event loop of kopf: `WatchThread.call`."""
HandOver = Callable[..., None]
"""Has the operator's event loop call a function with its arguments: `WatchThread.hand_over`."""
WATCHED_PODS = "app.kubernetes.io/managed-by=kappa-operator,kappa-platform.io/role!=executor"
"""The pods whose events the API server sends: a cluster has thousands of others, and no decision depends on executors."""


class Notes(NamedTuple):
    """What is called with each event of a custom resource, and with the resource that owns the pod of an event."""

    resource: Callable[[Event], None]
    owner: Callable[[Key], None]


class PodWatches:
    """The namespaces whose pods are watched, where the operator may not watch the pods of all."""

    def __init__(self, call: Call) -> None:
        # kopf takes `insights` as a public argument of its operator, but does not export the class.
        self.insights = Insights()
        self._call = call

    async def set(self, namespace: str, *, watched: bool) -> None:
        """Watch the pods of a namespace, or stop: a watch that is refused would be retried without end."""
        namespaces = self.insights.namespaces

        async def change() -> None:
            async with self.insights.revised:
                (namespaces.add if watched else namespaces.discard)(NamespaceName(namespace))
                self.insights.revised.notify_all()

        if watched != (namespace in namespaces):
            await self._call(change)


def build_registry() -> kopf.OperatorRegistry:
    """Return kopf's registry, in which nothing is watched."""
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(log_in)
    return registry


def register_resources(
    registry: kopf.OperatorRegistry, note: Callable[[Event], None], kinds: KindTable, hand_over: HandOver
) -> None:
    """Have the resources of each kind watched."""

    # A coroutine that waits for nothing: kopf runs plain functions in threads, which costs more than all they do.
    async def note_resource(event: kopf.RawEvent, **_: Any) -> None:
        hand_over(note, cast(Event, event))

    for entry in kinds.values():
        kopf.on.event(GROUP, VERSION, entry.kind.plural, registry=registry)(note_resource)


def register_pods(
    registry: kopf.OperatorRegistry, note: Callable[[Key], None], kinds: KindTable, hand_over: HandOver
) -> None:
    """Have the pods watched that belong to resources, and `note` called with the resource of each event."""
    for entry in kinds.values():
        if entry.pods is not None:
            labels: dict[str, Any] = {entry.pods.label: kopf.PRESENT, **entry.pods.labels}
            handler = _build_owner_handler(note, entry.pods.label, entry.name, hand_over)
            kopf.on.event("", "v1", "pods", labels=labels, registry=registry)(handler)


def log_in(**kwargs: Any) -> kopf.ConnectionInfo | None:
    """Return kopf's credentials: the pod's service account, or else the kubeconfig."""
    return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)


def _build_owner_handler(
    note: Callable[[Key], None], label: str, kind: str, hand_over: HandOver
) -> Callable[..., Awaitable[None]]:
    async def note_owned(event: kopf.RawEvent, **_: Any) -> None:
        metadata: Event = dict(event["object"]["metadata"])
        hand_over(note, Key(kind, metadata["namespace"], metadata["labels"][label]))

    return note_owned


class NoDiffs(kopf.DiffBaseStorage):
    """Keeps nothing and compares nothing: events only requeue a resource, and kopf would copy every object to compare."""

    def build(self, *, body: kopf.Body, extra_fields: object = None) -> kopf.BodyEssence:
        """Return nothing to compare."""
        return cast(kopf.BodyEssence, {})

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        """Return nothing handled before."""
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Keep nothing."""


def build_kopf_settings() -> kopf.OperatorSettings:
    """Return kopf's settings: no Events of its own, small pages, workers that end soon."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.networking.error_backoffs = backoff.WATCH
    settings.watching.chunk_size = PAGE
    settings.watching.server_timeout = 300
    settings.watching.label_selectors["", "v1", "pods"] = WATCHED_PODS
    # A worker holds its place so long: 200 in 0.2 s were 1,000 objects a second.
    settings.queueing.idle_timeout = 0.01
    settings.queueing.worker_limit = 200
    settings.persistence.diffbase_storage = NoDiffs()
    settings.scanning.disabled = True
    return settings
