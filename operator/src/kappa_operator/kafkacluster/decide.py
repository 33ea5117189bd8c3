"""What to say about a Kafka cluster: there is nothing to change in it, only a connection to check."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kappa_crds.kafkacluster import KafkaClusterSpec, KafkaClusterStatus, LagSampled
from kappa_crds.quantities import format_count, parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.resource import Resource
from kappa_operator.engine.plan import Plan, Verdict, build_conditions, ready, stalled, working
from kappa_operator.errors import KappaError
from kappa_operator.kafka.model import ClusterView
from kappa_operator.lag.model import Sweep

KafkaClusterResource = Resource[KafkaClusterSpec, KafkaClusterStatus]

FIRST_RETRY = 5.0


@dataclass(frozen=True, slots=True)
class KafkaClusterObserved:
    """The cluster as it answered, or the error instead, and the last sweep of consumer lag."""

    resource: KafkaClusterResource
    view: ClusterView | None = None
    sweep: Sweep | None = None
    problem: KappaError | None = None


def decide_kafkacluster(observed: KafkaClusterObserved, now: datetime) -> Plan:
    """Report what the check found, and check again: after `spec.checkEvery`, or sooner after a failure."""
    every = parse_duration(observed.resource.spec.check_every)
    status = _build_status(observed, every, now)
    return Plan(status=status, requeue_after=min(every, FIRST_RETRY) if observed.problem else every)


def _build_status(observed: KafkaClusterObserved, every: float, now: datetime) -> KafkaClusterStatus:
    resource, view = observed.resource, observed.view
    status, metadata = resource.status, resource.metadata
    verdict = build_verdict(observed)
    fields: dict[str, Any] = {
        "observed_generation": metadata.generation,
        "conditions": build_conditions(verdict, status.conditions, metadata.generation, now),
        "state": verdict.state,
    }
    if view is not None:
        fields |= {
            "cluster_id": view.cluster_id,
            "brokers": view.brokers,
            "controller": view.controller,
            "topics": view.topics,
            "last_seen": _choose_last_seen(status.last_seen, every, now),
        }
        if fields["last_seen"] != status.last_seen or status.lag is None or not resource.spec.lag.enabled:
            fields["lag"] = _say_sweep(observed)
    return status.replace(**fields)


def _say_sweep(observed: KafkaClusterObserved) -> LagSampled | None:
    """Say the last sweep; it is said as seldom as when the cluster was seen, so that sweeps write no status."""
    sweep = observed.sweep
    if sweep is None or not observed.resource.spec.lag.enabled:
        return None
    return LagSampled(
        at=sweep.at.replace(microsecond=0),
        milliseconds=round(sweep.seconds * 1000),
        groups=len(sweep.groups),
        partitions=len(sweep.logs),
        unknown=len(sweep.unknown) + len(sweep.unread) + len(sweep.dark),
        rate=_say_rate(sweep),
        failure=sweep.failure,
    )


def _say_rate(sweep: Sweep) -> str | None:
    if not sweep.rates:
        return None
    sign = "" if len(sweep.rates) == len(sweep.written) else "≥"
    return f"{sign}{format_count(sum(sweep.rates.values()))}/s"


def _choose_last_seen(before: datetime | None, every: float, now: datetime) -> datetime:
    """Keep a time that is young enough, so that a look out of turn writes no status."""
    if before is not None and timedelta(0) <= now - before < timedelta(seconds=every / 2):
        return before
    return now.replace(microsecond=0)


def build_verdict(observed: KafkaClusterObserved) -> Verdict:
    """Say how the connection is, in the broker's words where there is one to quote."""
    problem, view = observed.problem, observed.view
    if problem is not None:
        say = working if problem.retryable else stalled
        return say("Failed", problem.reason, problem.message)
    assert view is not None  # noqa: S101 - observe returns one of the two
    return ready(
        "Connected", Reason.CONNECTED, f"connected to cluster {view.cluster_id} with {_count(view.brokers)}"
    )


def _count(brokers: int) -> str:
    return "1 broker" if brokers == 1 else f"{brokers} brokers"
