"""`kappa plan`: the operator's own observe and decide, with the manifests laid over the cluster, and no act.

What is printed is what the operator's next look would decide. A step that depends on the outcome of an earlier one is
not guessed: the plan says what it waits for.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from kappa_crds import API_VERSION
from kappa_crds.conditions import ConditionType, find_condition
from kappa_crds.manifests import ManifestError, read_manifests
from kappa_crds.resource import Resource, ResourceStatus
from kappa_crds.statestore import StateStoreSpec, StateStoreStatus
from kappa_operator.cli.change import Judge, describe_change
from kappa_operator.cli.installation import find_settings
from kappa_operator.engine.actions import AddFinalizer, KeepStandings, RecordStatus, describe_action
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.kinds import Observed
from kappa_operator.engine.plan import Plan
from kappa_operator.errors import KappaError
from kappa_operator.kafka.clients import AdminClients
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.pipeline.drivers import HttpDrivers, open_session
from kappa_operator.pipeline.schedule import KeptPipeline

Body = dict[str, Any]
_NEWEST = 2**62
"""A resource version above all that an API server gives."""


class PlanProblem(Exception):
    """A manifest that cannot be planned, with what is wrong."""


class UntouchedBuckets:
    """Leaves buckets alone: a check writes, and a plan must not."""

    async def check(
        self, store: Resource[StateStoreSpec, StateStoreStatus], credentials: dict[str, str]
    ) -> None:
        """Do nothing."""


async def plan_manifests(
    texts: Iterable[str], namespace: str, context: str | None, judge: Judge | None = None
) -> list[str]:
    """Return the lines of the plan; raise PlanProblem where a manifest is not acceptable. `judge` compares revisions here."""
    try:
        manifests = [manifest for text in texts for manifest in read_manifests(text, namespace)]
    except ManifestError as error:
        raise PlanProblem(str(error)) from error
    try:
        async with await ApiCluster.connect(context) as cluster, open_session() as session:
            kafka = AdminClients()
            namespaces = {manifest["metadata"]["namespace"] for manifest in manifests}
            settings, note = await find_settings(cluster, namespaces)
            operator = OperatorContext(
                cluster, ResourceCache(KIND_TABLE), kafka, HttpDrivers(session), UntouchedBuckets(), settings
            )
            for present in namespaces:
                await sync_cache(cluster, operator.cache, present)
            keys = [await overlay(cluster, operator.cache, manifest) for manifest in manifests]
            try:
                planned = [line for key in keys for line in await plan_one(operator, key, judge)]
                return planned if note is None else [f"# {note}", *planned]
            finally:
                await kafka.close()
    except KappaError as error:
        raise PlanProblem(error.message) from error


async def sync_cache(cluster: ApiCluster, cache: ResourceCache, namespace: str) -> None:
    """Read the custom resources of a namespace."""
    for kind in cache.kinds:
        async for page in cluster.list_pages(API_VERSION, kind, namespace):
            for body in page:
                cache.put(body)


async def overlay(cluster: ApiCluster, cache: ResourceCache, manifest: Body) -> Key:
    """Lay the manifest over the cluster's state, as the API server would store it."""
    live = await cluster.get(ObjectRef.of(manifest))
    stored = await cluster.try_out({**manifest, "status": None} if "status" in manifest else manifest)
    stored["metadata"]["resourceVersion"] = str(_NEWEST)
    stored["status"] = (live or {}).get("status", {})
    return cache.put(stored)


def _foresee_finalizers(cache: ResourceCache, key: Key, plan: Plan) -> bool:
    """Put the finalizers that the plan adds on the cached resource; return whether there are any, so that what follows is shown."""
    added, body = (
        [each.finalizer for each in plan.actions if isinstance(each, AddFinalizer)],
        cache.get_body(key),
    )
    if not added or body is None:
        return False
    metadata = body["metadata"]
    metadata["finalizers"] = [*metadata.get("finalizers", []), *added]
    metadata["resourceVersion"] = str(_NEWEST + 1)
    cache.put(body)
    return True


async def plan_one(context: OperatorContext, key: Key, judge: Judge | None = None) -> list[str]:
    """Return the lines of one resource's plan."""
    observed, plan = await _decide(context, key)
    if _foresee_finalizers(context.cache, key, plan):
        observed, plan = await _decide(context, key)
    lines = list(render_plan(key, plan))
    if not isinstance(observed, KeptPipeline):
        return lines
    return [*lines, *await describe_change(context, observed.pipeline, judge)]


async def _decide(context: OperatorContext, key: Key) -> tuple[Observed, Plan]:
    entry = context.kinds[key.kind]
    observed = await entry.observe(context, key, ())
    if observed is None:
        raise PlanProblem(f"{key} vanished")
    return observed, entry.decide(observed, datetime.now(UTC))


def render_plan(key: Key, plan: Plan) -> Iterator[str]:
    """Yield the plan as text: what would be done, and where that leads."""
    yield f"{key.kind} {key.namespace}/{key.name}"
    actions = [action for action in plan.actions if not isinstance(action, KeepStandings)]
    for action in actions:
        yield f"  + {describe_action(action)}"
    if not actions:
        yield "  (nothing to do)"
    status = find_status(plan)
    if status is None:
        return
    ready = find_condition(status.conditions, ConditionType.READY)
    if ready is not None:
        yield f"  = {status.state} · {ready.reason} · {ready.message}"
    tuning: tuple[str, ...] = getattr(status, "tuning", ())
    for line in tuning:
        yield f"  · {line}"


def find_status(plan: Plan) -> ResourceStatus | None:
    """Return where the plan leads: its status, or else what it records before it acts."""
    recorded = (action.status for action in reversed(plan.actions) if isinstance(action, RecordStatus))
    return plan.status or next(recorded, None)
