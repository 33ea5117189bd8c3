"""What the watches last said, kept small.

Decisions read custom resources from here instead of the API server. Objects are kept as compact JSON and parsed when
needed: ten thousand topics then take some ten megabytes, not a hundred. A small index answers which `Topic` resources
claim a name in Kafka.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from kappa_crds.kinds import find_kind
from kappa_crds.resource import Resource
from kappa_operator.engine.keys import Key

Body = dict[str, Any]
_METADATA = (
    "name", "namespace", "uid", "generation", "resourceVersion", "creationTimestamp", "deletionTimestamp",
    "finalizers", "labels", "annotations",
)  # fmt: skip
_KEPT_PARSED = ("KafkaCluster", "StateStore")
"""Kinds that are few, and that each of many others refers to."""
_REMEMBERED_DELETIONS = 1000
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Mirror:
    """The last known custom resources by key."""

    def __init__(self) -> None:
        self._bodies: dict[Key, bytes] = {}
        self._versions: dict[Key, int] = {}
        self._parsed: dict[Key, Resource[Any, Any]] = {}
        self._states: dict[Key, str] = {}
        self._upgrades: dict[Key, Body] = {}
        self._topics: defaultdict[str, set[Key]] = defaultdict(set)
        self._deleted: dict[Key, int] = {}
        self._names: defaultdict[tuple[str, str], set[Key]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._bodies)

    def put(self, body: Body) -> Key:
        """Remember the object, unless the same or a newer version of it is known already."""
        key = get_key(body)
        if not self.is_news(body):
            return key
        self._bodies[key] = _compact(body)
        self._parsed.pop(key, None)
        self._versions[key] = get_version(body)
        self._states[key] = (body.get("status") or {}).get("state") or ""
        self._names[key.kind, key.namespace].add(key)
        if key.kind == "Topic":
            self._topics[get_topic_name(body)].add(key)
        if key.kind == "Pipeline":
            self._upgrades[key] = (body.get("status") or {}).get("upgrade") or {}
        return key

    def is_news(self, body: Body) -> bool:
        """Return whether this version of the object was not known yet, and is not from before its deletion."""
        key = get_key(body)
        return get_version(body) > max(self._versions.get(key, -1), self._deleted.get(key, -1))

    def drop(self, body: Body) -> Key:
        """Forget the object that a watch showed as deleted; an answer from before that comes too late."""
        key = get_key(body)
        self.forget(key)
        self._deleted[key] = get_version(body)
        if len(self._deleted) > _REMEMBERED_DELETIONS:
            del self._deleted[next(iter(self._deleted))]
        return key

    def forget(self, key: Key) -> None:
        """Forget a resource that is gone."""
        body = self.get_body(key)
        if body is None:
            return
        del self._bodies[key], self._versions[key], self._states[key]
        self._parsed.pop(key, None)
        self._upgrades.pop(key, None)
        self._names[key.kind, key.namespace].discard(key)
        if key.kind == "Topic":
            self._topics[get_topic_name(body)].discard(key)

    def get_body(self, key: Key) -> Body | None:
        """Return the object as JSON, or None."""
        raw = self._bodies.get(key)
        if raw is None:
            return None
        body: Body = json.loads(raw)
        return body

    def get(self, key: Key) -> Resource[Any, Any] | None:
        """Return the typed resource, or None; raise pydantic.ValidationError for one that an older CRD let in."""
        if key in self._parsed:
            return self._parsed[key]
        body = self.get_body(key)
        if body is None:
            return None
        resource = find_kind(key.kind).parse(body)
        if key.kind in _KEPT_PARSED:
            self._parsed[key] = resource
        return resource

    def get_version(self, key: Key) -> int:
        """Return the resource version last seen, or -1."""
        return self._versions.get(key, -1)

    def find(self, kind: str, namespace: str) -> list[Key]:
        """Return the keys of a kind in a namespace, sorted by name."""
        return sorted(self._names[kind, namespace])

    def count_states(self) -> Counter[tuple[str, str]]:
        """Return how many resources there are by kind and state, which is empty before the operator looked at one."""
        return Counter((key.kind, state) for key, state in list(self._states.items()))

    def list_upgrades(self) -> list[tuple[Key, Body]]:
        """Return `status.upgrade` of each pipeline, empty for one that was never changed."""
        return list(self._upgrades.items())

    def find_claims(self, topic: str) -> list[Key]:
        """Return the `Topic` resources, in any namespace, that claim this name in Kafka."""
        return sorted(self._topics.get(topic, ()))

    def find_all(self, kind: str | None = None) -> Iterator[Key]:
        """Yield all keys, or those of a kind."""
        return (key for key in list(self._bodies) if kind is None or key.kind == kind)


def get_key(body: Body) -> Key:
    """Return the key of a custom resource's JSON."""
    return Key(body["kind"], body["metadata"]["namespace"], body["metadata"]["name"])


def get_version(body: Body) -> int:
    """Return the resource version, a number that grows with every write."""
    return int(body["metadata"]["resourceVersion"])


def get_topic_name(body: Body) -> str:
    """Return the name in Kafka that a `Topic` resource claims."""
    return str(body.get("spec", {}).get("topicName") or body["metadata"]["name"])


def _compact(body: Body) -> bytes:
    metadata = {key: body["metadata"][key] for key in _METADATA if key in body["metadata"]}
    annotations = {
        key: value for key, value in metadata.get("annotations", {}).items() if key != _LAST_APPLIED
    }
    if "annotations" in metadata:
        metadata["annotations"] = annotations
    kept = {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "metadata": metadata,
        "spec": body.get("spec", {}),
        "status": body.get("status") or {},
    }
    return json.dumps(kept, separators=(",", ":")).encode()
