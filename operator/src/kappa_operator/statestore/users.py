"""Who uses a StateStore: from names in specs to stores, and back."""

from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.keys import Key
from kappa_operator.engine.kinds import Body
from kappa_operator.engine.references import find_users, resolve_ready
from kappa_operator.statestore.objects import StateStoreResource


def resolve_store(cache: ResourceCache, namespace: str, name: str | None) -> StateStoreResource:
    """Return the ready StateStore that is meant; raise ReferenceProblem."""
    return resolve_ready(cache, "StateStore", namespace, name)


def find_store_users(cache: ResourceCache, store: Key) -> tuple[str, ...]:
    """Return the names of the pipelines that keep their state in the store."""
    alone = cache.find("StateStore", store.namespace) == [store]

    def uses(body: Body | None) -> bool:
        named = (body or {}).get("spec", {}).get("stateStoreRef")
        return bool(body) and (named == store.name or (named is None and alone))

    return tuple(key.name for key in find_users(cache, store, "Pipeline") if uses(cache.get_body(key)))


def find_store_archives(cache: ResourceCache, store: Key) -> tuple[str, ...]:
    """Return the names of the Topics whose archive is in the store."""
    alone = cache.find("StateStore", store.namespace) == [store]

    def archives(body: Body | None) -> bool:
        archive = (body or {}).get("spec", {}).get("archive")
        return (
            archive is not None and archive.get("stateStoreRef", store.name if alone else None) == store.name
        )

    topics = cache.find("Topic", store.namespace)
    return tuple(key.name for key in topics if archives(cache.get_body(key)))


def find_store_savepoints(cache: ResourceCache, store: Key, claim: str) -> tuple[str, ...]:
    """Return the names of the Savepoints whose files, or a copy of them, are on the claim of the store."""

    def is_there(body: Body | None) -> bool:
        status, spec = (body or {}).get("status", {}), (body or {}).get("spec", {})
        wanted = {export["storeRef"] for export in spec.get("exports", [])}
        copied = {
            copy["storeRef"] for copy in status.get("exports", []) if copy["state"] in ("Copying", "Exported")
        }
        return status.get("claimName") == claim or store.name in wanted & copied

    savepoints = cache.find("Savepoint", store.namespace)
    return tuple(key.name for key in savepoints if is_there(cache.get_body(key)))


def find_deleting_stores(cache: ResourceCache, key: Key) -> list[Key]:
    """Return the stores of the namespace whose deletion may wait for a resource; savepoints do not name the store that they are in."""
    return [store for store in cache.find("StateStore", key.namespace) if cache.is_deleting(store)]
