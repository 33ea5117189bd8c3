"""Gathers what a LagPolicy is about: the last look at its groups, its pipelines, and other policies of the same groups."""

from collections.abc import Iterable, Iterator

from pydantic import ValidationError

from kappa_crds.lagpolicy import LagPolicySpec, PipelineSelector
from kappa_crds.pipeline import PipelineState
from kappa_crds.reasons import Reason
from kappa_operator.cluster import Body
from kappa_operator.errors import KappaError, ReferenceProblem
from kappa_operator.keys import Key
from kappa_operator.lag.groups import find_groups, find_named, name_group
from kappa_operator.lag.source import Sweep
from kappa_operator.mirror import Mirror
from kappa_operator.observe.references import find_referred
from kappa_operator.plan.lagpolicy_model import LagPolicyObserved, LagPolicyResource, Rival, read_standings
from kappa_operator.plan.model import Failure
from kappa_operator.world import World

_ALIVE = {
    PipelineState.RUNNING.value: True,
    PipelineState.SUSPENDED.value: False,
    PipelineState.FAILED.value: False,
}
"""States of a pipeline that tell whether its group lives; the others tell nothing."""


async def observe_lagpolicy(
    world: World, key: Key, failures: tuple[Failure, ...]
) -> LagPolicyObserved | None:
    """Return what there is to know of the policy's groups, or None where the policy is gone."""
    resource: LagPolicyResource | None = world.mirror.get(key)
    if resource is None:
        world.standings.forget(key)
        return None
    standings = world.standings.recall(key, resource.metadata.uid)
    if standings is None:
        standings = read_standings(resource.status.standings)
    try:
        cluster = find_referred(world.mirror, "KafkaCluster", key.namespace, resource.spec.cluster_ref)
    except ReferenceProblem as problem:
        return LagPolicyObserved(resource, standings=standings, problem=problem)
    pipelines = find_pipelines(world.mirror, key.namespace, resource.spec.selector.pipelines, cluster)
    sweep = world.lag.find(cluster)
    known = frozenset() if sweep is None else frozenset(share.group for share in sweep.samples)
    groups = select(world.mirror, key.namespace, resource.spec, cluster, known)
    return LagPolicyObserved(
        resource, cluster.name, _narrow(sweep, groups),
        {share: standing for share, standing in standings.items() if share.group in groups or share.group not in known},
        wanted=(*sorted(pipelines), *find_named(resource.spec.selector.groups)),
        told={group: alive for group, state in pipelines.items() if (alive := _ALIVE.get(state or "")) is not None},
        rivals=tuple(_find_rivals(world.mirror, key, cluster, known, groups)),
        problems=tuple(_find_problems(world.mirror, key.namespace, resource.spec.selector.pipelines)),
    )  # fmt: skip


def select(
    mirror: Mirror, namespace: str, spec: LagPolicySpec, cluster: Key, known: Iterable[str]
) -> frozenset[str]:
    """Return the groups that a spec selects, those of pipelines also where Kafka does not know them."""
    pipelines = find_pipelines(mirror, namespace, spec.selector.pipelines, cluster)
    return find_groups(known, spec.selector.groups) | frozenset(pipelines)


def find_pipelines(
    mirror: Mirror, namespace: str, selector: PipelineSelector | None, cluster: Key
) -> dict[str, str | None]:
    """Return the states of the pipelines that are selected and read from the cluster, by their groups."""
    if selector is None:
        return {}
    found: dict[str, str | None] = {}
    for key in mirror.find("Pipeline", namespace):
        body = mirror.get_body(key) or {}
        if _is_selected(selector, key.name, body) and _reads_from(mirror, namespace, body, cluster):
            found[name_group(namespace, key.name)] = body.get("status", {}).get("state")
    return found


def _is_selected(selector: PipelineSelector, name: str, body: Body) -> bool:
    if selector.names is not None:
        return name in selector.names
    labels = body.get("metadata", {}).get("labels") or {}
    return (selector.match_labels or {}).items() <= labels.items()


def _reads_from(mirror: Mirror, namespace: str, body: Body, cluster: Key) -> bool:
    try:
        named = body.get("spec", {}).get("clusterRef")
        return find_referred(mirror, "KafkaCluster", namespace, named) == cluster
    except ReferenceProblem:
        return False


def _narrow(sweep: Sweep | None, groups: frozenset[str]) -> Sweep | None:
    if sweep is None:
        return None
    return Sweep(
        sweep.at, {share: sample for share, sample in sweep.samples.items() if share.group in groups}
    )


def _find_problems(mirror: Mirror, namespace: str, selector: PipelineSelector | None) -> Iterator[KappaError]:
    for name in (selector.names or ()) if selector is not None else ():
        if mirror.get_version(Key("Pipeline", namespace, name)) < 0:
            said = f"there is no Pipeline {name} in namespace {namespace}; create it, or take it out of spec.selector.pipelines.names"
            yield ReferenceProblem(said, reason=Reason.PIPELINE_NOT_FOUND)


def _find_rivals(
    mirror: Mirror, policy: Key, cluster: Key, known: frozenset[str], groups: frozenset[str]
) -> Iterator[Rival]:
    """Yield the other policies of the namespace that select some of the groups."""
    for key in mirror.find("LagPolicy", policy.namespace):
        if key == policy:
            continue
        try:
            other: LagPolicyResource | None = mirror.get(key)
            if (
                other is None
                or find_referred(mirror, "KafkaCluster", key.namespace, other.spec.cluster_ref) != cluster
            ):
                continue
        except (ValidationError, ReferenceProblem):  # its own look says so
            continue
        shared = select(mirror, key.namespace, other.spec, cluster, known) & groups
        if shared:
            yield Rival(key.name, other.spec, tuple(sorted(shared)))
