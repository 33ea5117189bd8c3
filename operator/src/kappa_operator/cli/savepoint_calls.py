"""What `kappa savepoint` asks of the API server: the same changes that kubectl would make."""

from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import ValidationError

from kappa_crds import API_VERSION
from kappa_crds.kinds import find_kind
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.resource import Resource
from kappa_crds.savepoint import SavepointSpec, Verify
from kappa_crds.savepoint_transfer import Export
from kappa_crds.savepoint_work import VerifyBy
from kappa_operator.engine.cluster import Body
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.savepoint.objects import SavepointResource


class SavepointProblem(Exception):
    """What was asked for cannot be done, with what to do instead."""


class Desk(Protocol):
    """The part of a cluster that a person at a desk needs."""

    async def get(self, ref: ObjectRef) -> Body | None:
        """Return the object, or None where there is none."""

    async def list_objects(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> list[Body]:
        """Return the objects of a kind."""

    async def create(self, manifest: Body) -> Body:
        """Create the object; raise AlreadyExists where one of that name is there."""

    async def merge(self, ref: ObjectRef, patch: Body) -> Body:
        """Merge a patch into an object."""


def refer(key: Key) -> ObjectRef:
    """Return the reference of one of the platform's resources."""
    return ObjectRef(API_VERSION, *key)


async def read_resource(desk: Desk, key: Key) -> Resource[Any, Any]:
    """Return a resource; SavepointProblem where there is none, or where it cannot be read."""
    body = await desk.get(refer(key))
    if body is None:
        there = [
            each["metadata"]["name"] for each in await desk.list_objects(API_VERSION, key.kind, key.namespace)
        ]
        known = ", ".join(sorted(there)) or "none"
        raise SavepointProblem(
            f"there is no {key.kind} {key.name} in namespace {key.namespace}; there are: {known}"
        )
    try:
        return find_kind(key.kind).parse(body)
    except ValidationError as error:
        raise SavepointProblem(f"{key} cannot be read: {error.errors()[0]['msg']}") from error


async def create_savepoint(desk: Desk, key: Key, spec: SavepointSpec) -> Key:
    """Create a Savepoint of a Pipeline that is there; one that is imported may be of one that is not, but of StateStores that are."""
    imported = spec.import_
    if imported is None:
        await read_resource(desk, Key("Pipeline", key.namespace, spec.pipeline_ref))
    for store in (imported.store_ref, imported.target_store_ref) if imported else ():
        if store is not None:
            await read_resource(desk, Key("StateStore", key.namespace, store))
    metadata = {"name": key.name, "namespace": key.namespace}
    await desk.create(
        {"apiVersion": API_VERSION, "kind": key.kind, "metadata": metadata, "spec": spec.to_manifest()}
    )
    return key


async def list_savepoints(desk: Desk, namespace: str, pipeline: str | None) -> list[SavepointResource]:
    """Return the savepoints of a namespace, or of one pipeline in it, the newest first."""
    bodies = await desk.list_objects(API_VERSION, "Savepoint", namespace)
    found: list[SavepointResource] = [find_kind("Savepoint").parse(body) for body in bodies]
    wanted = [each for each in found if pipeline in (None, each.spec.pipeline_ref)]
    return sorted(wanted, key=lambda each: str(each.metadata.creation_timestamp), reverse=True)


async def ask_for_export(desk: Desk, key: Key, export: Export, request: str) -> Key:
    """Have a savepoint copied to a StateStore, also where it was before; return the savepoint."""
    found: SavepointResource = await read_resource(desk, key)
    await read_resource(desk, Key("StateStore", key.namespace, export.store_ref))
    others = [each for each in found.spec.exports if each.store_ref != export.store_ref]
    anew = export if len(others) == len(found.spec.exports) else export.replace(request=request)
    exports = [each.to_manifest() for each in (*others, anew)]
    await desk.merge(refer(key), {"spec": {"exports": exports}})
    return key


async def ask_for_verification(desk: Desk, key: Key, by: VerifyBy, request: str) -> Key:
    """Have a savepoint read back, also one that was before; return it."""
    await read_resource(desk, key)
    verify = Verify(by=by, request=request)
    await desk.merge(refer(key), {"spec": {"verify": verify.to_manifest()}})
    return key


async def ask_for_restore(desk: Desk, savepoint: Key, pipeline: str | None, request: str) -> Key:
    """Have a pipeline go on from a savepoint, also where it did before; return the pipeline."""
    found: SavepointResource = await read_resource(desk, savepoint)
    if found.status.taken is None:
        raise SavepointProblem(
            f"Savepoint {savepoint.name} was not taken yet; wait for it, or name another one"
        )
    key = Key("Pipeline", savepoint.namespace, pipeline or found.spec.pipeline_ref)
    target: Resource[PipelineSpec, Any] = await read_resource(desk, key)
    before = target.spec.restore
    again = request if before is not None and before.savepoint == savepoint.name else ""
    patch = {"spec": {"restore": {"savepoint": savepoint.name, "request": again}}}
    await desk.merge(refer(key), patch)
    return key


async def ask_for_collection(desk: Desk, namespace: str, store: str | None, request: str) -> Key:
    """Have a state store looked through; return it."""
    key = Key("StateStore", namespace, store or await _find_only_store(desk, namespace))
    await read_resource(desk, key)
    await desk.merge(refer(key), {"spec": {"collection": {"request": request}}})
    return key


async def _find_only_store(desk: Desk, namespace: str) -> str:
    bodies = await desk.list_objects(API_VERSION, "StateStore", namespace)
    names = sorted(body["metadata"]["name"] for body in bodies)
    if len(names) != 1:
        there = f"there are {', '.join(names)}; name one" if names else "there is none; create one"
        raise SavepointProblem(f"which StateStore of namespace {namespace}: {there}")
    return str(names[0])
