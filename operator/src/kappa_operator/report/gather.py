"""Gathers the inputs of a report from memory alone, without any request."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress

from kappa_crds.conditions import ConditionType
from kappa_crds.quantities import parse_duration
from kappa_operator.engine.cluster import Body
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key
from kappa_operator.engine.references import find_referred
from kappa_operator.errors import ReferenceProblem
from kappa_operator.kafkacluster.observe import list_clusters
from kappa_operator.lag.groups import name_group
from kappa_operator.lagpolicy.model import LagPolicyResource, build_rules
from kappa_operator.report.build import ClusterInput, PipelineInput, PolicyInput, ReportInput


def gather_report(context: OperatorContext, namespace: str | None) -> ReportInput:
    """Return the inputs for a namespace, or for all."""
    policies = _find_policies(context, namespace)
    clusters = []
    for cluster in list_clusters(context.cache):
        key = Key.of(cluster)
        if namespace in (None, key.namespace) and cluster.spec.lag.enabled:
            every = parse_duration(cluster.spec.lag.interval)
            clusters.append(ClusterInput(key, every, context.get_lag(key), tuple(policies.get(key, ()))))
    return ReportInput(context.settings.identity, tuple(clusters), tuple(_find_pipelines(context, namespace)))


def _find_policies(context: OperatorContext, namespace: str | None) -> Mapping[Key, list[PolicyInput]]:
    found: defaultdict[Key, list[PolicyInput]] = defaultdict(list)
    for key in context.cache.find_all("LagPolicy"):
        with suppress(ReferenceProblem):
            policy: LagPolicyResource | None = context.cache.get(key)
            if policy is None or namespace not in (None, key.namespace):
                continue
            known = context.histories.recall(key, policy.metadata.uid)
            if known is not None:
                cluster = find_referred(context.cache, "KafkaCluster", key.namespace, policy.spec.cluster_ref)
                found[cluster].append(PolicyInput(build_rules(policy.spec), known.histories))
    return found


def _find_pipelines(context: OperatorContext, namespace: str | None) -> Iterator[PipelineInput]:
    """Yield pipelines. There may be many and requests are frequent, so only the reported fields are read."""
    for key in context.cache.find_all("Pipeline"):
        body = context.cache.get_body(key) if namespace in (None, key.namespace) else None
        if body is not None:
            group = name_group(key.namespace, key.name)
            yield PipelineInput(
                key, group, body["status"].get("state"), _find_reason(body), context.progress.get(key)
            )


def _find_reason(body: Body) -> str | None:
    """Return the reason of Ready."""
    conditions = body["status"].get("conditions", ())
    return next((each["reason"] for each in conditions if each["type"] == ConditionType.READY), None)
