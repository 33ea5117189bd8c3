"""The requests of `kappa savepoint` to the API server: the same changes that kubectl would make."""

from typing import Any

from pydantic import ValidationError

from kappa_crds import API_VERSION
from kappa_crds.kinds import find_kind
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.resource import Resource
from kappa_crds.savepoint import Export, SavepointSpec, Verify
from kappa_crds.savepoint_work import VerifyBy
from kappa_operator.cli.errors import CommandError
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.savepoint.objects import SavepointResource


def refer(key: Key) -> ObjectRef:
    """Return the reference of one of the platform's resources."""
    return ObjectRef(API_VERSION, *key)


async def read_resource(api: ApiCluster, key: Key) -> Resource[Any, Any]:
    """Return a resource; CommandError where it is missing or cannot be read."""
    body = await api.get(refer(key))
    if body is None:
        names = [
            each["metadata"]["name"] for each in await api.list_objects(API_VERSION, key.kind, key.namespace)
        ]
        known = ", ".join(sorted(names)) or "none"
        raise CommandError(
            f'{key.kind} "{key.name}" not found in namespace "{key.namespace}"; found there: {known}'
        )
    try:
        return find_kind(key.kind).parse(body)
    except ValidationError as error:
        raise CommandError(f"{key} cannot be read: {error.errors()[0]['msg']}") from error


async def create_savepoint(api: ApiCluster, key: Key, spec: SavepointSpec) -> Key:
    """Create a Savepoint of an existing Pipeline; an imported one needs only its StateStores to exist."""
    imported = spec.import_
    if imported is None:
        await read_resource(api, Key("Pipeline", key.namespace, spec.pipeline_ref))
    for store in (imported.store_ref, imported.target_store_ref) if imported else ():
        if store is not None:
            await read_resource(api, Key("StateStore", key.namespace, store))
    metadata = {"name": key.name, "namespace": key.namespace}
    await api.create(
        {"apiVersion": API_VERSION, "kind": key.kind, "metadata": metadata, "spec": spec.to_manifest()}
    )
    return key


async def list_savepoints(
    api: ApiCluster, namespace: str | None, pipeline: str | None
) -> list[SavepointResource]:
    """Return the savepoints of a namespace or of all, or of one pipeline, the newest first."""
    bodies = await api.list_objects(API_VERSION, "Savepoint", namespace)
    found: list[SavepointResource] = [find_kind("Savepoint").parse(body) for body in bodies]
    wanted = [each for each in found if pipeline in (None, each.spec.pipeline_ref)]
    return sorted(wanted, key=lambda each: str(each.metadata.creation_timestamp), reverse=True)


async def request_export(api: ApiCluster, key: Key, export: Export, request: str) -> Key:
    """Request a copy of a savepoint in a StateStore, also where one exists; return the savepoint."""
    found: SavepointResource = await read_resource(api, key)
    await read_resource(api, Key("StateStore", key.namespace, export.store_ref))
    others = [each for each in found.spec.exports if each.store_ref != export.store_ref]
    wanted = export if len(others) == len(found.spec.exports) else export.replace(request=request)
    exports = [each.to_manifest() for each in (*others, wanted)]
    await api.merge(refer(key), {"spec": {"exports": exports}})
    return key


async def request_verification(api: ApiCluster, key: Key, by: VerifyBy, request: str) -> Key:
    """Request the verification of a savepoint, also of a verified one; return it."""
    await read_resource(api, key)
    verify = Verify(by=by, request=request)
    await api.merge(refer(key), {"spec": {"verify": verify.to_manifest()}})
    return key


async def request_restore(api: ApiCluster, savepoint: Key, pipeline: str | None, request: str) -> Key:
    """Request that a pipeline restores from a savepoint, also where it did before; return the pipeline."""
    found: SavepointResource = await read_resource(api, savepoint)
    if found.status.taken is None:
        raise CommandError(f"Savepoint {savepoint.name} is not taken yet; wait for it, or name another one")
    key = Key("Pipeline", savepoint.namespace, pipeline or found.spec.pipeline_ref)
    target: Resource[PipelineSpec, Any] = await read_resource(api, key)
    before = target.spec.restore
    again = request if before is not None and before.savepoint == savepoint.name else ""
    patch = {"spec": {"restore": {"savepoint": savepoint.name, "request": again}}}
    await api.merge(refer(key), patch)
    return key


async def request_collection(api: ApiCluster, namespace: str, store: str | None, request: str) -> Key:
    """Request the removal of unneeded files from a state store; return it."""
    key = Key("StateStore", namespace, store or await _find_only_store(api, namespace))
    await read_resource(api, key)
    await api.merge(refer(key), {"spec": {"collection": {"request": request}}})
    return key


async def _find_only_store(api: ApiCluster, namespace: str) -> str:
    bodies = await api.list_objects(API_VERSION, "StateStore", namespace)
    names = sorted(body["metadata"]["name"] for body in bodies)
    if len(names) != 1:
        several = f"has several StateStores ({', '.join(names)}); name one"
        problem = several if names else "has no StateStore; create one"
        raise CommandError(f'namespace "{namespace}" {problem}')
    return str(names[0])
