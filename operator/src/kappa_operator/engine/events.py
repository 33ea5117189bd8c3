"""Events that report what happened, without repetition.

The name of an Event is a hash of its reason, its message, its resource and the hour: the same report within an hour is the
same Event. Source of the format: events.k8s.io/v1.
"""

import hashlib
from datetime import datetime
from typing import Any

from kappa_crds import API_VERSION
from kappa_crds.resource import Resource
from kappa_operator.engine.actions import EmitEvent, Manifest

_NOTE_LIMIT = 1024


def build_event(resource: Resource[Any, Any], event: EmitEvent, identity: str, now: datetime) -> Manifest:
    """Return the Event as a manifest."""
    metadata = resource.metadata
    content = f"{metadata.uid}/{event.reason}/{event.message}/{now:%Y%m%d%H}"
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    stamp = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{metadata.name[:200]}.{digest}", "namespace": metadata.namespace},
        "eventTime": stamp,
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason,
        "action": "Reconcile",
        "note": event.message[:_NOTE_LIMIT],
        "regarding": {
            "apiVersion": API_VERSION,
            "kind": resource.kind,
            "name": metadata.name,
            "namespace": metadata.namespace,
            "uid": metadata.uid,
        },
        "reportingController": "kappa-platform.io/operator",
        "reportingInstance": identity[:128],
    }
