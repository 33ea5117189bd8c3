"""The custom resources as the watches last showed them, kept small.

Decisions read custom resources from here instead of the API server. Objects are kept as compact JSON and parsed when
needed: ten thousand topics then take some ten megabytes, not a hundred. Indexes answer without parsing which resources
claim a name outside the cluster, which resources name another one, and which of those are not ready or being deleted.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Container, Iterator
from typing import Any, TypeVar

from pydantic import ValidationError

from kappa_crds.conditions import ConditionType
from kappa_crds.conversion import convert
from kappa_crds.resource import Resource
from kappa_operator.engine.keys import Key
from kappa_operator.engine.kinds import Body, KindTable, map_references
from kappa_operator.engine.limits import LIMITED, OBJECT_BYTES, Excess, GetLimit, Places, no_limit

_METADATA = (
    "name", "namespace", "uid", "generation", "resourceVersion", "creationTimestamp", "deletionTimestamp",
    "finalizers", "labels", "annotations", "ownerReferences",
)  # fmt: skip
IndexKey = TypeVar("IndexKey")
_REMEMBERED_DELETIONS = 1000
_LONG = ("labels", "annotations")
"""Metadata that is left out of a resource beyond a limit."""
_RECENTLY_PARSED = 200
"""Of kinds that are not kept parsed; a reconcile reads the topics of its pipeline several times."""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class ResourceCache:
    """The last known custom resources by key. `kinds` defines what is indexed of each kind."""

    def __init__(self, kinds: KindTable, get_limit: GetLimit = no_limit) -> None:
        self.kinds = kinds
        self.places = Places(kinds, get_limit)
        self._most_bytes = get_limit(OBJECT_BYTES)
        self._sizes: dict[Key, int] = {}
        self._references = map_references(kinds)
        self._bodies: dict[Key, bytes] = {}
        self._versions: dict[Key, int] = {}
        self._parsed: dict[Key, Resource[Any, Any]] = {}
        self._recent: dict[Key, Resource[Any, Any]] = {}
        self._states: dict[Key, str] = {}
        self._excerpts: dict[Key, Body] = {}
        self._claims: dict[Key, str] = {}
        self._claiming: defaultdict[str, set[Key]] = defaultdict(set)
        self._deleted: dict[Key, int] = {}
        self._names: defaultdict[tuple[str, str], set[Key]] = defaultdict(set)
        self._generations: dict[Key, int] = {}
        self._waiting: set[Key] = set()
        self._deleting: set[Key] = set()
        self._outdated: set[Key] = set()
        self._named: dict[Key, frozenset[Key]] = {}
        self._naming: defaultdict[Key, set[Key]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._bodies)

    def put(self, body: Body, *, whole: bool = False) -> Key:
        """Remember the object, unless the same or a newer version of it is known already.

        Of one beyond a limit only a part is kept, unless it is wanted `whole`.
        """
        key = get_key(body)
        if not self.is_news(body):
            return key
        self._keep(key, body, whole)
        self._forget_parsed(key)
        self._versions[key] = get_version(body)
        self._states[key] = (body.get("status") or {}).get("state") or ""
        self._names[key.kind, key.namespace].add(key)
        entry = self.kinds[key.kind]
        if entry.claim is not None:
            self._forget_claim(key)
            self._claims[key] = entry.claim(body)
            self._claiming[self._claims[key]].add(key)
        if entry.excerpt is not None:
            self._excerpts[key] = entry.excerpt(body)
        self._index(key, body)
        is_present = convert(key.kind, body).get("spec") == body.get("spec")
        (self._outdated.discard if is_present else self._outdated.add)(key)
        return key

    def _keep(self, key: Key, body: Body, whole: bool) -> None:
        displaced = self.places.add(key, body)
        if displaced is not None and displaced != key and displaced not in self._sizes:
            self._shorten(displaced)
        self._sizes.pop(key, None)
        self._bodies[key] = raw = _compact(body)
        size = len(raw) - len(json.dumps(body.get("status") or {}))
        if not whole and (size > self._most_bytes or not self.places.has_place(key)):
            self._shorten(key, size)

    def _shorten(self, key: Key, size: int = 0) -> None:
        body = self.get_body(key)
        if body is not None:
            metadata = {name: each for name, each in body["metadata"].items() if name not in _LONG}
            self._bodies[key] = json.dumps({**body, "metadata": metadata, "spec": {}}).encode()
            self._forget_parsed(key)
            self._sizes[key] = size

    def find_excess(self, key: Key) -> Excess | None:
        """Return the limit that the resource is beyond, None where there is none."""
        size = self._sizes.get(key, 0)
        if size > self._most_bytes:
            return Excess(OBJECT_BYTES, self._most_bytes, size, each=True)
        return self.places.find_excess(key)

    def is_shortened(self, key: Key) -> bool:
        """Return whether the cache has only the metadata and the status of the resource."""
        return key in self._sizes

    def restore(self, body: Body) -> None:
        """Keep the whole object, of which the cache has only a part."""
        self._versions.pop(get_key(body), None)
        self.put(body, whole=True)

    def find_limited(self, key: Key) -> Iterator[Key]:
        """Yield the resources of a kind and namespace that report a limit and are among the oldest now."""
        placed = self.places.list_placed(key)
        yield from (each for each in placed if each != key and self._states.get(each) == LIMITED)

    def _index(self, key: Key, body: Body) -> None:
        is_deleting = "deletionTimestamp" in body["metadata"]
        self._generations[key] = body["metadata"].get("generation", 0)
        (self._deleting.add if is_deleting else self._deleting.discard)(key)
        (self._waiting.discard if is_ready(body) and not is_deleting else self._waiting.add)(key)
        named = self.read_named(key, body)
        if named != self._named.get(key):
            self._forget_named(key)
            self._named[key] = named
            for each in named:
                self._naming[each].add(key)

    def read_named(self, key: Key, body: Body) -> frozenset[Key]:
        """Return the resources that a resource's JSON names."""
        entry, spec, status = self.kinds[key.kind], body.get("spec") or {}, body.get("status") or {}
        absent = ((field, "") for field in entry.defaults if not spec.get(field))
        parts = [spec, *(status.get(field) for field in entry.status_names)]
        found = (*_find_names(parts, self._references), *absent)
        return frozenset(Key(self._references[field], key.namespace, name) for field, name in found)

    def _forget_named(self, key: Key) -> None:
        for each in self._named.pop(key, ()):
            _discard(self._naming, each, key)

    def _forget_claim(self, key: Key) -> None:
        if key in self._claims:
            _discard(self._claiming, self._claims.pop(key), key)

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
        if key not in self._bodies:
            return
        del self._bodies[key], self._versions[key], self._states[key], self._generations[key]
        self.places.remove(key)
        self._sizes.pop(key, None)
        self._forget_parsed(key)
        self._waiting.discard(key)
        self._deleting.discard(key)
        self._outdated.discard(key)
        self._forget_named(key)
        self._forget_claim(key)
        self._excerpts.pop(key, None)
        _discard(self._names, (key.kind, key.namespace), key)

    def is_outdated(self, key: Key) -> bool:
        """Return whether the stored spec has names of an earlier release."""
        return key in self._outdated

    def get_body(self, key: Key) -> Body | None:
        """Return the object as JSON, or None."""
        raw = self._bodies.get(key)
        if raw is None:
            return None
        body: Body = json.loads(raw)
        return body

    def read(self, key: Key) -> Resource[Any, Any] | None:
        """Return the typed resource, or None; raise pydantic.ValidationError for one that this version cannot read."""
        known = self._parsed.get(key) or self._recent.get(key)
        if known is not None:
            return known
        body = self.get_body(key)
        if body is None:
            return None
        entry = self.kinds[key.kind]
        resource = entry.kind.parse(body)
        (self._parsed if entry.keeps_parsed else self._recent)[key] = resource
        if len(self._recent) > _RECENTLY_PARSED:
            del self._recent[next(iter(self._recent))]
        return resource

    def _forget_parsed(self, key: Key) -> None:
        self._parsed.pop(key, None)
        self._recent.pop(key, None)

    def get(self, key: Key) -> Resource[Any, Any] | None:
        """Return the typed resource; None where it is gone, and where it cannot be read: its own status reports that."""
        try:
            return self.read(key)
        except ValidationError:
            return None

    def get_version(self, key: Key) -> int:
        """Return the resource version last seen, or -1."""
        return self._versions.get(key, -1)

    def get_generation(self, key: Key) -> int | None:
        """Return the generation last seen: another one is another spec."""
        return self._generations.get(key)

    def is_waiting(self, key: Key) -> bool:
        """Return whether the resource is not ready, or is being deleted."""
        return key in self._waiting

    def is_deleting(self, key: Key) -> bool:
        """Return whether the resource is being deleted."""
        return key in self._deleting

    def find_named(self, key: Key) -> frozenset[Key]:
        """Return the resources that this one names. One without a name is the only one of its kind in the namespace."""
        return self._named.get(key, frozenset())

    def find_naming(self, key: Key) -> set[Key]:
        """Return the resources that name this one, or mean it as the only one of its kind in the namespace."""
        return self._naming.get(key, set()) | self._naming.get(key._replace(name=""), set())

    def has_namespace(self, namespace: str) -> bool:
        """Return whether any resource of the namespace is known."""
        return any((kind, namespace) in self._names for kind in self.kinds)

    def find(self, kind: str, namespace: str) -> list[Key]:
        """Return the keys of a kind in a namespace, sorted by name."""
        return sorted(self._names.get((kind, namespace), ()))

    def count_states(self) -> Counter[tuple[str, str]]:
        """Return how many resources there are by kind and state, which is empty before the operator looked at one."""
        return Counter((key.kind, state) for key, state in list(self._states.items()))

    def list_excerpts(self, kind: str) -> list[tuple[Key, Body]]:
        """Return the excerpt of each resource of a kind, as the kind's entry has it."""
        return [(key, excerpt) for key, excerpt in self._excerpts.items() if key.kind == kind]

    def list_raw(self, kind: str) -> list[tuple[Key, bytes]]:
        """Return the resources of a kind as JSON. A thread may call this: the copy of a dict is one step."""
        return [(key, raw) for key, raw in self._bodies.copy().items() if key.kind == kind]

    def find_rivals(self, key: Key) -> list[Key]:
        """Return the other resources of the kind, in any namespace, that claim the same name outside the cluster."""
        claiming = self._claiming.get(self._claims.get(key, ""), ())
        return sorted(each for each in claiming if each.kind == key.kind and each != key)

    def find_all(self, kind: str | None = None) -> Iterator[Key]:
        """Yield all keys, or those of a kind."""
        return (key for key in list(self._bodies) if kind is None or key.kind == kind)


def get_key(body: Body) -> Key:
    """Return the key of a custom resource's JSON."""
    return Key(body["kind"], body["metadata"]["namespace"], body["metadata"]["name"])


def get_version(body: Body) -> int:
    """Return the resource version, a number that grows with every write."""
    return int(body["metadata"]["resourceVersion"])


def is_ready(body: Body) -> bool:
    """Return whether a resource's condition Ready is true."""
    conditions = (body.get("status") or {}).get("conditions")
    found = [each for each in conditions if isinstance(each, dict)] if isinstance(conditions, list) else []
    return any(each.get("type") == ConditionType.READY and each.get("status") == "True" for each in found)


def _discard(index: dict[IndexKey, set[Key]], place: IndexKey, key: Key) -> None:
    """Take a key out of an index, which keeps no empty sets."""
    index[place].discard(key)
    if not index[place]:
        del index[place]


def _find_names(part: Any, fields: Container[str]) -> Iterator[tuple[str, str]]:
    """Yield the fields that name a resource, with each name, wherever they are in the JSON."""
    if isinstance(part, list):
        for each in part:
            yield from _find_names(each, fields)
    elif isinstance(part, dict):
        for field, value in part.items():
            if field in fields:
                names = value if isinstance(value, list) else [value]
                yield from ((field, name) for name in names if isinstance(name, str))
            yield from _find_names(value, fields)


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
