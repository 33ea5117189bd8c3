"""Reads what a decision about a LagPolicy needs: the last sample of its groups, its pipelines, and other policies of the same groups."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kappa_crds.lagpolicy import LagPolicySpec, PipelineSelector
from kappa_crds.lagremediation import RemediationKind
from kappa_crds.reasons import Reason
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.cluster import Body
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key
from kappa_operator.engine.plan import Failure
from kappa_operator.engine.references import find_referred, is_meant
from kappa_operator.errors import KappaError, ReferenceProblem
from kappa_operator.lag.groups import find_groups, find_named, name_group
from kappa_operator.lag.memory import Remembered
from kappa_operator.lag.model import ClusterSample
from kappa_operator.lagpolicy.model import (
    LagPolicyObserved,
    LagPolicyResource,
    Rival,
    read_histories,
    read_loads,
)
from kappa_operator.lagpolicy.quotas import observe_quotas
from kappa_operator.lagpolicy.remediation.observe import find_savepoints, find_topics, read_pipeline


async def observe_lagpolicy(
    context: OperatorContext, key: Key, failures: tuple[Failure, ...]
) -> LagPolicyObserved | None:
    """Return what there is to know of the policy's groups, or None where the policy is gone."""
    resource: LagPolicyResource | None = context.cache.read(key)
    if resource is None:
        return None
    cluster, problem = None, None
    try:
        cluster = find_referred(context.cache, "KafkaCluster", key.namespace, resource.spec.cluster_ref)
    except ReferenceProblem as error:
        problem = error
    known, quotas = _recall(context, key, resource), await observe_quotas(context, resource, cluster)
    observed = LagPolicyObserved(
        resource, histories=known.histories, loads=known.loads, quotas=quotas, delivery=context.webhooks.get(key),
        problem=problem, failures=failures,
    )  # fmt: skip
    return observed if cluster is None else _add_groups(context, key, observed, cluster)


def forget_policy(context: OperatorContext, key: Key) -> None:
    """Forget the lag history of a policy that is gone, and end its call of a webhook."""
    context.histories.forget(key)
    context.webhooks.forget(key)


def _recall(context: OperatorContext, key: Key, resource: LagPolicyResource) -> Remembered:
    """Return what is remembered: in memory, or else in the status."""
    known = context.histories.recall(key, resource.metadata.uid)
    if known is not None:
        return known
    return Remembered(read_histories(resource.status.lag_history), read_loads(resource.status.loads))


def _add_groups(
    context: OperatorContext, key: Key, observed: LagPolicyObserved, cluster: Key
) -> LagPolicyObserved:
    """Return the observation with the groups that the policy selects in the Kafka cluster, and what belongs to them."""
    cache, resource = context.cache, observed.resource
    selector = resource.spec.selector
    pipelines = find_pipelines(cache, key.namespace, selector.pipelines, cluster)
    sampled = context.get_lag(cluster)
    seen = frozenset() if sampled is None else frozenset(pair.group for pair in sampled.samples)
    groups = select(cache, key.namespace, resource.spec, cluster, seen)
    kept = {
        pair: each
        for pair, each in observed.histories.items()
        if pair.group in groups or pair.group not in seen
    }
    return replace(
        observed,
        cluster=cluster.name,
        sampled=_narrow(sampled, groups),
        histories=kept,
        wanted=(*sorted(pipelines), *find_named(selector.groups)),
        pipelines={group: read_pipeline(body) for group, body in pipelines.items()},
        topics=find_topics(cache, key, cluster) if _needs_topics(resource) else {},
        savepoints=find_savepoints(cache, resource),
        rivals=tuple(_find_rivals(cache, key, cluster, seen, groups)),
        problems=tuple(_find_problems(cache, key.namespace, selector.pipelines)),
    )


def select(
    cache: ResourceCache, namespace: str, spec: LagPolicySpec, cluster: Key, known: Iterable[str]
) -> frozenset[str]:
    """Return the groups that a spec selects, those of pipelines also where Kafka does not know them."""
    pipelines = find_pipelines(cache, namespace, spec.selector.pipelines, cluster)
    return find_groups(known, spec.selector.groups) | frozenset(pipelines)


def find_pipelines(
    cache: ResourceCache, namespace: str, selector: PipelineSelector | None, cluster: Key
) -> dict[str, Body]:
    """Return the pipelines that are selected and read from the cluster, by their groups."""
    if selector is None:
        return {}
    found: dict[str, Body] = {}
    for key in cache.find("Pipeline", namespace):
        body = cache.get_body(key) or {}
        named = body.get("spec", {}).get("clusterRef")
        if _is_selected(selector, key.name, body) and is_meant(cache, cluster, named):
            found[name_group(namespace, key.name)] = body
    return found


def _is_selected(selector: PipelineSelector, name: str, body: Body) -> bool:
    if selector.names is not None:
        return name in selector.names
    labels = body.get("metadata", {}).get("labels") or {}
    return (selector.match_labels or {}).items() <= labels.items()


def _narrow(sampled: ClusterSample | None, groups: frozenset[str]) -> ClusterSample | None:
    if sampled is None:
        return None
    return replace(
        sampled, samples={pair: sample for pair, sample in sampled.samples.items() if pair.group in groups}
    )


def _needs_topics(resource: LagPolicyResource) -> bool:
    """Return whether retention may be held, or is held still."""
    remediation = resource.spec.remediation
    is_wanted = remediation is not None and remediation.hold_retention is not None
    return is_wanted or any(
        each.kind is RemediationKind.HOLD_RETENTION for each in resource.status.remediations
    )


def _find_problems(
    cache: ResourceCache, namespace: str, selector: PipelineSelector | None
) -> Iterator[KappaError]:
    for name in (selector.names or ()) if selector is not None else ():
        if cache.get_version(Key("Pipeline", namespace, name)) < 0:
            message = f'Pipeline "{name}" not found in namespace "{namespace}"; create it, or remove it from spec.selector.pipelines.names'
            yield ReferenceProblem(message, reason=Reason.PIPELINE_NOT_FOUND)


def _find_rivals(
    cache: ResourceCache, policy: Key, cluster: Key, known: frozenset[str], groups: frozenset[str]
) -> Iterator[Rival]:
    """Yield the other policies of the namespace that select some of the groups."""
    for key in cache.find("LagPolicy", policy.namespace):
        other: LagPolicyResource | None = cache.get(key)
        if key == policy or other is None or not is_meant(cache, cluster, other.spec.cluster_ref):
            continue
        shared = select(cache, key.namespace, other.spec, cluster, known) & groups
        if shared:
            yield Rival(key.name, other.spec, tuple(sorted(shared)))
