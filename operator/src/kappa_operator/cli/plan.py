"""`kappa plan`: the operator's own observe and decide over the cluster with the manifests, and no action.

It shows the next decision of the operator. A step that depends on the outcome of an earlier one is not guessed: the plan names what it
waits for.
"""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from kappa_crds import API_VERSION
from kappa_crds.conditions import ConditionType, find_condition
from kappa_crds.kinds import find_kind
from kappa_crds.manifests import ManifestError, read_manifests
from kappa_crds.resource import ResourceStatus
from kappa_operator.cdcsource.model import CDCSourceObserved
from kappa_operator.cli.change import Judge, describe_change, find_judge
from kappa_operator.cli.errors import CommandError, Exit
from kappa_operator.cli.installation import find_settings
from kappa_operator.cli.options import Context, Filename, Files, Namespace, OutputFormat, list_files
from kappa_operator.cli.output import Output, name_resource, print_result
from kappa_operator.cli.requests import choose_namespace
from kappa_operator.engine.actions import AddFinalizer, KeepLagHistories, RecordStatus
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.descriptions import describe_action
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.kinds import Observed
from kappa_operator.engine.plan import Plan
from kappa_operator.kafka.clients import AdminClients
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.pipeline.drivers import HttpDrivers, open_session
from kappa_operator.pipeline.model import PipelineObserved
from kappa_operator.verdict.source_change import describe_source_change

Body = dict[str, Any]
_NEWEST = 2**62
"""A resource version above all that an API server gives."""


@dataclass(frozen=True)
class PlannedResource:
    """What the operator would do for a resource, the status that follows, and lines on a change of its revision."""

    key: Key
    actions: tuple[str, ...]
    status: ResourceStatus | None = None
    change: tuple[str, ...] = ()

    def describe(self) -> Iterator[str]:
        """Yield the plan as text."""
        yield f"{self.key.kind} {self.key.namespace}/{self.key.name}"
        yield from (f"  + {action}" for action in self.actions)
        if not self.actions:
            yield "  (nothing to do)"
        ready = None if self.status is None else find_condition(self.status.conditions, ConditionType.READY)
        if self.status is not None and ready is not None:
            yield f"  = {self.status.state} · {ready.reason} · {ready.message}"
        yield from (f"  · {line}" for line in getattr(self.status, "tuning", ()))
        yield from self.change

    def to_data(self) -> dict[str, Any]:
        """Return the plan as data."""
        status = None if self.status is None else self.status.to_manifest()
        change = [line.strip() for line in self.change]
        return {**self.key._asdict(), "actions": list(self.actions), "change": change, "status": status}


def plan(
    files: Files = None,
    *,
    filename: Filename = None,
    namespace: Namespace = "",
    context: Context = None,
    verdict: Annotated[
        bool, typer.Option(help="Compile changed pipelines on this machine and check what a change means for the state.")
    ] = True,
    output: OutputFormat = Output.TABLE,
) -> None:  # fmt: skip
    """Show what the operator would do if the manifests were applied now, and why. Changes nothing."""
    judge = find_judge() if verdict else None
    planned, note = asyncio.run(
        plan_manifests(list_files(files, filename), choose_namespace(namespace, context), context, judge)
    )
    notes = [] if note is None else [f"# {note}"]
    print_result(
        output,
        lambda: "\n".join([*notes, *(line for each in planned for line in each.describe())]),
        lambda: [each.to_data() for each in planned],
        lambda: (name_resource(each.key.kind, each.key.name) for each in planned),
    )


async def plan_manifests(
    files: Iterable[str], namespace: str, context: str | None, judge: Judge | None = None
) -> tuple[list[PlannedResource], str | None]:
    """Return the plan of each manifest and a note on assumed settings; `judge` compares revisions on this machine."""
    try:
        manifests = [manifest for file in files for manifest in read_manifests(file, namespace)]
    except ManifestError as error:
        raise CommandError(str(error), Exit.USAGE) from error
    async with await ApiCluster.connect(context) as cluster, open_session() as session:
        kafka = AdminClients()
        namespaces = {manifest["metadata"]["namespace"] for manifest in manifests}
        settings, note = await find_settings(cluster, namespaces)
        operator = OperatorContext(cluster, ResourceCache(KIND_TABLE), kafka, HttpDrivers(session), settings)
        for present in namespaces:
            await sync_cache(cluster, operator.cache, present)
        keys = [await overlay(cluster, operator.cache, manifest) for manifest in manifests]
        try:
            return [await plan_one(operator, key, judge) for key in keys], note
        finally:
            await kafka.close()
            await operator.connect.close()


async def sync_cache(cluster: ApiCluster, cache: ResourceCache, namespace: str) -> None:
    """Read the custom resources of a namespace."""
    for kind in cache.kinds:
        async for page in cluster.list_pages(API_VERSION, kind, namespace):
            for body in page:
                cache.put(body)


async def overlay(cluster: ApiCluster, cache: ResourceCache, manifest: Body) -> Key:
    """Put the manifest into the cache as the API server would store it."""
    live = await cluster.get(ObjectRef.of(manifest))
    stored = await cluster.try_out({**manifest, "status": None} if "status" in manifest else manifest)
    stored["metadata"]["resourceVersion"] = str(_NEWEST)
    stored["status"] = (live or {}).get("status", {})
    return cache.put(stored)


def _expect_finalizers(cache: ResourceCache, key: Key, plan: Plan) -> bool:
    """Put the finalizers that the plan adds on the cached resource; return whether there are any, to show the next step."""
    added = [each.finalizer for each in plan.actions if isinstance(each, AddFinalizer)]
    body = cache.get_body(key)
    if not added or body is None:
        return False
    metadata = body["metadata"]
    metadata["finalizers"] = [*metadata.get("finalizers", []), *added]
    metadata["resourceVersion"] = str(_NEWEST + 1)
    cache.put(body)
    return True


async def plan_one(context: OperatorContext, key: Key, judge: Judge | None = None) -> PlannedResource:
    """Return the plan of one resource."""
    observed, plan = await _decide(context, key)
    if _expect_finalizers(context.cache, key, plan):
        observed, plan = await _decide(context, key)
    planned = summarize(key, plan)
    if isinstance(observed, CDCSourceObserved):
        return replace(planned, change=tuple(await _describe_source(context, key, observed)))
    if not isinstance(observed, PipelineObserved):
        return planned
    return replace(planned, change=tuple(await describe_change(context, observed, judge)))


async def _describe_source(context: OperatorContext, key: Key, observed: CDCSourceObserved) -> list[str]:
    """Return what the change of a source means for its topics, compared with the source as it is in the cluster."""
    live = await context.cluster.get(ObjectRef(API_VERSION, *key))
    old = None if live is None else find_kind(key.kind).parse(live).spec
    return [f"  · {line}" for line in describe_source_change(old, observed.resource.spec, key.name)]


async def _decide(context: OperatorContext, key: Key) -> tuple[Observed, Plan]:
    entry = context.kinds[key.kind]
    observed = await entry.observe(context, key, ())
    if observed is None:
        raise CommandError(f"{key} was deleted meanwhile")
    return observed, entry.decide(observed, datetime.now(UTC))


def summarize(key: Key, plan: Plan) -> PlannedResource:
    """Return the actions of a plan, and the status after it, or else the one that it records before it acts."""
    actions = (action for action in plan.actions if not isinstance(action, KeepLagHistories))
    recorded = (action.status for action in reversed(plan.actions) if isinstance(action, RecordStatus))
    return PlannedResource(key, tuple(map(describe_action, actions)), plan.status or next(recorded, None))
