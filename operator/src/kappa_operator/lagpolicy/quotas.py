"""The quotas of producers that a LagPolicy may slow down: read while something is critical, or one of them is held."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from kappa_crds.lagstate import Severity
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key
from kappa_operator.errors import KafkaFailure, KappaError, ReferenceProblem, SecretProblem
from kappa_operator.kafka.model import Producer
from kappa_operator.kafkacluster.connection import connect, resolve_cluster
from kappa_operator.lagpolicy.alert import find_alerts
from kappa_operator.lagpolicy.model import LagPolicyResource
from kappa_operator.lagpolicy.remediation.producers import QuotaFacts, is_held

Quotas = Mapping[tuple[str, str], QuotaFacts]
"""By the name of the KafkaCluster and of the producer."""


async def observe_quotas(context: OperatorContext, policy: LagPolicyResource, cluster: Key | None) -> Quotas:
    """Return the quotas of the producers that the policy holds, and of those that it names, where that matters now."""
    named = find_named(policy)
    wanted = {
        (each.cluster or "", Producer.parse(each.target))
        for each in policy.status.remediations
        if is_held(each)
    }
    is_exhausted = any(each.exhausted for each in policy.status.remediations)
    if cluster is not None and (wanted or is_exhausted or _is_critical(policy, context.now())):
        wanted |= {(cluster.name, producer) for producer in named}
    ways = {name: await _find_way(context, policy.metadata.namespace, name) for name, _ in wanted}
    found = await asyncio.gather(
        *(_read(context, ways[name], producer) for name, producer in sorted(wanted, key=str))
    )
    return {(each.cluster.name, str(each.producer)): _mark(each, named, cluster) for each in found}


def find_named(policy: LagPolicyResource) -> frozenset[Producer]:
    """Return the producers that a policy names."""
    remediation = policy.spec.remediation
    pause = None if remediation is None else remediation.throttle_producers
    return frozenset(Producer(each.client_id, each.user) for each in (pause.producers if pause else ()))


def _mark(facts: QuotaFacts, named: frozenset[Producer], cluster: Key | None) -> QuotaFacts:
    is_named = facts.producer in named and cluster in (None, facts.cluster)
    return replace(facts, named=is_named)


def _is_critical(policy: LagPolicyResource, now: datetime) -> bool:
    alerts = find_alerts(policy.spec, policy.metadata, now)
    return Severity.CRITICAL in (policy.status.severity, *(each.severity for each in alerts))


async def _find_way(context: OperatorContext, namespace: str, name: str) -> Key | QuotaFacts:
    """Return the cluster, connected; or what keeps it from being reached. A connection to a KafkaCluster that is gone still serves."""
    key, unnamed = Key("KafkaCluster", namespace, name), Producer()
    try:
        return await connect(context, resolve_cluster(context.cache, namespace, name))
    except ReferenceProblem as problem:
        if context.kafka.has(key):
            return key
        return QuotaFacts(key, unnamed, problem=problem, gone=context.cache.get_version(key) < 0)
    except (SecretProblem, KafkaFailure) as problem:
        return QuotaFacts(key, unnamed, problem=problem)


async def _read(context: OperatorContext, way: Key | QuotaFacts, producer: Producer) -> QuotaFacts:
    if isinstance(way, QuotaFacts):
        return replace(way, producer=producer)
    try:
        return QuotaFacts(way, producer, await context.kafka.read_quota(way, producer))
    except KappaError as problem:
        return QuotaFacts(way, producer, problem=problem)
