"""A Kubernetes API server in a dict.

What it does as the real one: uids, resource versions that grow, the generation, the status subresource, conflicts on
a stale resource version or another uid, finalizers and deletion timestamps, owners whose objects go with them, one
`create` of a name, server-side apply by one field manager.

What it does not do: schemas, defaults and CEL; field managers (apply merges maps and replaces lists, and a field left
out of a later apply stays, but for the status, which is replaced as a whole, and our own finalizers); watches (see
`subscribe`); admission (see `refusals`); anything that controllers do, such as running pods or binding claims.
"""

import asyncio
import copy
import itertools
import json
import marshal
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from fakes.fuse import Fuse
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import AlreadyExists, Conflict, NotFound, Refused

Body = dict[str, Any]
Subscriber = Callable[[str, Body], None]
Content = TypeVar("Content")
Refusal = Callable[[Body | None, Body], str | None]

_OURS = "kappa-platform.io/"


class FakeCluster(ApiCluster):
    """The twin of `cluster.ApiCluster`.

    `refusals` are asked before each write with the object before and after; a text refuses it. `between_pages` is called after
    each page of a list, which fails with `unlistable` where that is set. The methods without `async` are for tests: they are what
    users and controllers do, and never burn the fuse.
    """

    def __init__(
        self, fuse: Fuse | None = None, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.fuse = fuse or Fuse()
        self.now = now
        self.refusals: list[Refusal] = []
        self.between_pages: Callable[[list[Body]], None] = lambda page: None
        self.unlistable: Exception | None = None
        self.logs: dict[ObjectRef, str] = {}
        self._objects: dict[ObjectRef, Body] = {}
        self._versions = itertools.count(1)
        self._uids = itertools.count(1)
        self._event_uids = itertools.count(1)
        self._subscribers: list[Subscriber] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> "FakeCluster":
        """Return a cluster with the same objects and no subscribers. An object that is stored is never changed in place."""
        copied: FakeCluster = object.__new__(type(self))
        memo[id(self)] = copied
        apart = {"_objects": dict(self._objects), "_subscribers": []}
        rest = {name: value for name, value in vars(self).items() if name not in apart}
        vars(copied).update(copy.deepcopy(rest, memo) | apart)
        return copied

    # what the operator calls

    async def get(self, ref: ObjectRef) -> Body | None:
        """Return a copy of the object."""
        return self.read(ref)

    async def read_log(self, pod: ObjectRef, seconds: int, most_bytes: int) -> str:
        """Return what `logs` has of the pod."""
        if pod not in self.logs:
            raise NotFound(f"there is no {pod}")
        return self.logs[pod][:most_bytes]

    async def list_objects(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        fields: str = "",
    ) -> list[Body]:
        """Return copies of the objects that match."""
        return [body for body in self.find(api_version, kind, namespace, labels) if _selects(fields, body)]

    async def list_pages(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        fields: str = "",
    ) -> AsyncIterator[list[Body]]:
        """Yield copies of the objects as they are when the list begins, two at a time; others have a turn between pages."""
        if self.unlistable is not None:
            raise self.unlistable
        found = await self.list_objects(api_version, kind, namespace, labels, fields)
        for at in range(0, max(1, len(found)), 2):
            page = found[at : at + 2]
            yield page
            self.between_pages(page)
            await asyncio.sleep(0)

    async def create(self, manifest: Body) -> Body:
        """Create the object."""
        if ObjectRef.of(manifest) in self._objects:
            raise AlreadyExists(f"{ObjectRef.of(manifest)} already exists")
        return self._finish(self._insert(manifest))

    async def replace(self, manifest: Body) -> Body:
        """Replace the object, status aside."""
        before = self._require(ObjectRef.of(manifest), manifest["metadata"])
        sent = _send(manifest)
        after = {**sent, "metadata": {**before["metadata"], **sent["metadata"]}}
        if "status" in before:
            after["status"] = before["status"]
        return self._finish(self._store(before, after))

    async def apply(self, manifest: Body, manager: str | None = None) -> Body:
        """Merge the manifest into the object, or create it."""
        return self._finish(self._change(manifest))

    async def apply_status(self, manifest: Body) -> Body:
        """Replace the status."""
        before = self._require(ObjectRef.of(manifest), manifest["metadata"])
        after = {**before, "status": _send(manifest["status"])}
        return self._finish(self._store(before, after, is_status=True))

    async def merge(self, ref: ObjectRef, patch: Body, manager: str = "kappa-cli") -> Body:
        """Merge a patch into the object; None takes a field away."""
        before = self._require(ref, patch.get("metadata", {}))
        after = _drop_nulls(_merge(before, patch))
        return self._finish(self._store(before, after, is_status="spec" not in patch))

    async def delete(self, ref: ObjectRef, uid: str | None = None) -> None:
        """Delete the object, if it is the one with that uid."""
        body = self._objects.get(ref)
        if body is None or uid not in (None, body["metadata"]["uid"]):
            return
        self.remove(ref)
        self.fuse.wrote()

    def _finish(self, body: Body) -> Body:
        self.fuse.wrote()
        return _copy(body)

    # what tests call

    def subscribe(self, subscriber: Subscriber) -> None:
        """Have `subscriber(type, object)` called for each change, as a watch would."""
        self._subscribers.append(subscriber)

    def unsubscribe_all(self) -> None:
        """Forget all subscribers: their process died."""
        self._subscribers.clear()

    def read(self, ref: ObjectRef) -> Body | None:
        """Return a copy of the object, or None."""
        return _copy(self._objects.get(ref))

    def find(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> list[Body]:
        """Return copies of the objects that match, by name."""
        return [
            _copy(body)
            for ref, body in sorted(self._objects.items())
            if (ref.api_version, ref.kind) == (api_version, kind)
            and namespace in (None, ref.namespace)
            and (labels or {}).items() <= body["metadata"].get("labels", {}).items()
        ]

    def put(self, manifest: Body) -> Body:
        """Create the object or replace its spec, as a user's `kubectl apply` does."""
        before = self._objects.get(ObjectRef.of(manifest))
        if before is None:
            return _copy(self._insert(manifest))
        after = {**before, **_send({k: v for k, v in manifest.items() if k != "metadata"})}
        return _copy(self._store(before, after))

    def patch(self, ref: ObjectRef, **parts: Any) -> Body:
        """Merge `spec=…`, `status=…` or `metadata=…` into an object, as a controller does."""
        before = self._objects[ref]
        return _copy(self._store(before, _merge(before, parts), is_status="spec" not in parts))

    def remove(self, ref: ObjectRef) -> None:
        """Delete the object, as a user does: finalizers hold it, owned objects follow it."""
        body = self._objects.get(ref)
        if body is None:
            return
        if body["metadata"].get("finalizers"):
            after = _copy(body)
            after["metadata"].setdefault("deletionTimestamp", _stamp(self.now()))
            self._store(body, after, is_status=True)
        else:
            self._drop(ref)

    # the rules

    def _insert(self, manifest: Body) -> Body:
        self._check(None, manifest)
        body = _send(manifest)
        body.pop("status", None)
        metadata = body["metadata"]
        metadata.pop("resourceVersion", None)
        # Those of Events are counted apart: whether one was written does not matter to what comes after.
        number = next(self._event_uids if body["kind"] == "Event" else self._uids)
        metadata["uid"] = f"event-{number}" if body["kind"] == "Event" else f"uid-{number}"
        metadata["creationTimestamp"] = metadata.get("creationTimestamp") or _stamp(self.now())
        metadata["generation"] = 1
        return self._write(body, "ADDED")

    def _change(self, manifest: Body) -> Body:
        ref, metadata = ObjectRef.of(manifest), manifest["metadata"]
        if ref not in self._objects:
            if "uid" in metadata:
                raise Conflict(f"{ref} with uid {metadata['uid']} is gone")
            return self._insert(manifest)
        before = self._require(ref, metadata)
        after = _merge(before, {key: value for key, value in manifest.items() if key != "status"})
        if "finalizers" in metadata:
            foreign = [
                name for name in before["metadata"].get("finalizers", []) if not name.startswith(_OURS)
            ]
            after["metadata"]["finalizers"] = foreign + metadata["finalizers"]
        return self._store(before, after)

    def _store(self, before: Body, after: Body, *, is_status: bool = False) -> Body:
        metadata = dict(after["metadata"])
        after = {**after, "metadata": metadata}
        metadata["resourceVersion"] = before["metadata"]["resourceVersion"]
        if after == before:
            return before
        if not is_status:
            self._check(before, after)
            if _get_content(before) != _get_content(after):
                metadata["generation"] = before["metadata"]["generation"] + 1
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            self._drop(ObjectRef.of(after))
            return after
        return self._write(after, "MODIFIED")

    def _write(self, body: Body, event: str) -> Body:
        body["metadata"]["resourceVersion"] = str(next(self._versions))
        self._objects[ObjectRef.of(body)] = body
        self._tell(event, body)
        return body

    def _drop(self, ref: ObjectRef) -> None:
        body = self._objects.pop(ref)
        self._tell("DELETED", body)
        for owned, other in list(self._objects.items()):
            owners = other["metadata"].get("ownerReferences", [])
            if any(owner["uid"] == body["metadata"]["uid"] for owner in owners):
                self.remove(owned)

    def _require(self, ref: ObjectRef, metadata: Mapping[str, Any]) -> Body:
        body = self._objects.get(ref)
        if body is None:
            raise NotFound(f"{ref} not found")
        for field in ("uid", "resourceVersion"):
            if field in metadata and metadata[field] != body["metadata"][field]:
                raise Conflict(f"{ref}: {field} is {body['metadata'][field]}, not {metadata[field]}")
        return body

    def _check(self, before: Body | None, after: Body) -> None:
        for refuse in self.refusals:
            text = refuse(before, after)
            if text is not None:
                raise Refused(text)

    def _tell(self, event: str, body: Body) -> None:
        for subscriber in self._subscribers:
            subscriber(event, _copy(body))


def refuse_shrinking_claims(before: Body | None, after: Body) -> str | None:
    """Refuse what the real API server refuses of a claim; for `FakeCluster.refusals`."""
    if before is None or after["kind"] != "PersistentVolumeClaim":
        return None
    old, new = (int(body["spec"]["resources"]["requests"]["storage"][:-2]) for body in (before, after))
    return (
        "spec.resources.requests.storage: Forbidden: field can not be less than previous value"
        if new < old
        else None
    )


def _selects(fields: str, body: Body) -> bool:
    """Return whether a field selector holds: `path=value` and `path!=value`, joined by commas; what is absent is empty."""
    for term in filter(None, fields.split(",")):
        path, _, wanted = term.partition("=")
        found: Any = body
        for name in path.removesuffix("!").split("."):
            found = (found or {}).get(name)
        if ((found or "") == wanted) == path.endswith("!"):
            return False
    return True


def _merge(base: Any, patch: Any) -> Any:
    """Return the stored content with a patch in it; what the patch does not name is the same object, which nothing changes in place."""
    if not (isinstance(base, dict) and isinstance(patch, dict)):
        return _send(patch)
    return {**base, **{key: _merge(base.get(key), value) for key, value in patch.items()}}


def _drop_nulls(body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    return {key: _drop_nulls(value) for key, value in body.items() if value is not None}


def _get_content(body: Body) -> Body:
    return {key: value for key, value in body.items() if key not in ("metadata", "status")}


def _stamp(now: datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def _send(content: Content) -> Content:
    """Return content as it comes through JSON; what JSON does not have is an error, as on the way to a real server."""
    sent: Content = json.loads(json.dumps(content))
    return sent


def _copy(stored: Content) -> Content:
    """Return a copy of what came through JSON already, in a quarter of the time that JSON takes."""
    copied: Content = marshal.loads(marshal.dumps(cast(Any, stored)))  # noqa: S302
    return copied
