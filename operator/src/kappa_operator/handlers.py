"""kopf's part: watch events become keys on the queue. Nothing is decided here.

Only `on.event` is used: no annotations, no finalizers and no per-object daemons of kopf's own, so that ten thousand
resources cost ten thousand small entries in the mirror and nothing else.
"""

from collections.abc import Callable
from typing import Any

import kopf

from kappa_crds import GROUP, VERSION
from kappa_crds.kinds import KINDS
from kappa_operator import metrics
from kappa_operator.controller import Controller
from kappa_operator.health import Echoes
from kappa_operator.keys import Key
from kappa_operator.mirror import Mirror
from kappa_operator.queue import WorkQueue
from kappa_operator.resources.pipeline import PIPELINE_LABEL, ROLE_LABEL
from kappa_operator.settings import Settings

Event = dict[str, Any]
STATE_STORE_LABEL = "kappa-platform.io/state-store"
_LEASE_KIND = "Lease"


def build_registry(
    mirror: Mirror, queue: WorkQueue, controller: Controller, echoes: Echoes, settings: Settings
) -> kopf.OperatorRegistry:
    """Return kopf's registry with one handler for each watched kind."""
    registry = kopf.OperatorRegistry()

    def note_resource(event: kopf.RawEvent, **_: Any) -> None:
        body: Event = dict(event["object"])
        metrics.EVENTS.labels(body["kind"]).inc()
        if event["type"] == "DELETED":
            key = mirror.drop(body)
            echoes.forget(key)
            queue.add(key)
            controller.wake(key)
            return
        version = int(body["metadata"]["resourceVersion"])
        key = _get_key(body)
        echoes.seen(key, version)
        if version > mirror.get_version(key):
            mirror.put(body)
            queue.add(key)
            controller.wake(key)

    for kind in KINDS:
        kopf.on.event(GROUP, VERSION, kind.plural, registry=registry)(note_resource)
    kopf.on.event(
        "", "v1", "pods", labels={PIPELINE_LABEL: kopf.PRESENT, ROLE_LABEL: "driver"}, registry=registry
    )(_build_owner_handler(queue, PIPELINE_LABEL, "Pipeline"))
    kopf.on.event("", "v1", "pods", labels={STATE_STORE_LABEL: kopf.PRESENT}, registry=registry)(
        _build_owner_handler(queue, STATE_STORE_LABEL, "StateStore")
    )
    _watch_lease(registry, echoes, settings)
    return registry


def _watch_lease(registry: kopf.OperatorRegistry, echoes: Echoes, settings: Settings) -> None:
    def is_ours(namespace: str | None, name: str | None, **_: Any) -> bool:
        return namespace == settings.namespace and name == settings.lease_name

    def note_lease(event: kopf.RawEvent, **_: Any) -> None:
        metadata: Event = dict(event["object"]["metadata"])
        key = Key(_LEASE_KIND, metadata["namespace"], metadata["name"])
        echoes.seen(key, int(metadata["resourceVersion"]))

    kopf.on.event("coordination.k8s.io", "v1", "leases", when=is_ours, registry=registry)(note_lease)


def _build_owner_handler(queue: WorkQueue, label: str, kind: str) -> Callable[..., None]:
    def note_owned(event: kopf.RawEvent, **_: Any) -> None:
        metadata: Event = dict(event["object"]["metadata"])
        queue.add(Key(kind, metadata["namespace"], metadata["labels"][label]))

    return note_owned


def _get_key(body: Event) -> Key:
    metadata = body["metadata"]
    return Key(body["kind"], metadata["namespace"], metadata["name"])


def build_kopf_settings() -> kopf.OperatorSettings:
    """Return kopf's settings: no Events of its own, small pages, workers that end soon."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.watching.chunk_size = 500
    settings.watching.server_timeout = 300
    settings.queueing.idle_timeout = 0.2
    settings.queueing.worker_limit = 200
    settings.scanning.disabled = True
    return settings
