"""What a decision about a LagPolicy needs, and what it is made of."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from kappa_crds.lagpolicy import Bounds, LagPolicySpec, LagPolicyStatus
from kappa_crds.lagremediation import RemediationStatus
from kappa_crds.pipeline_status import PipelineState
from kappa_crds.quantities import parse_duration
from kappa_crds.resource import Resource
from kappa_operator.engine.plan import Failure
from kappa_operator.errors import KappaError
from kappa_operator.lag.history import LagHistory
from kappa_operator.lag.load import Load
from kappa_operator.lag.model import ClusterSample, GroupPartition, Partition
from kappa_operator.lag.rules import Rules, Threshold
from kappa_operator.lagpolicy.notification import Delivery
from kappa_operator.lagpolicy.remediation.model import PipelineFacts, SavepointFacts, TopicFacts
from kappa_operator.lagpolicy.remediation.producers import QuotaFacts

_ALIVE: Mapping[str | None, bool] = {
    PipelineState.RUNNING.value: True, PipelineState.SUSPENDED.value: False, PipelineState.FAILED.value: False,
}  # fmt: skip
"""Whether a pipeline's group lives, by the pipeline's state; other states do not show it."""

LagPolicyResource = Resource[LagPolicySpec, LagPolicyStatus]


@dataclass(frozen=True, slots=True)
class Rival:
    """Another policy that selects some of the same groups."""

    name: str
    spec: LagPolicySpec
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LagPolicyObserved:
    """All that a decision about a policy needs.

    `sampled` has only samples of the groups that the policy selects; None before the first sample. `wanted` are groups that the
    spec names. `alive` is whether pipelines' groups live, by the pipelines' own status. `problems` are what keeps a part of the
    policy from meaning anything, `problem` what keeps all of it.
    """

    resource: LagPolicyResource
    cluster: str | None = None
    sampled: ClusterSample | None = None
    histories: Mapping[GroupPartition, LagHistory] = field(default_factory=dict)
    wanted: tuple[str, ...] = ()
    pipelines: Mapping[str, PipelineFacts] = field(default_factory=dict)
    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    savepoints: Mapping[str, SavepointFacts] = field(default_factory=dict)
    quotas: Mapping[tuple[str, str], QuotaFacts] = field(default_factory=dict)
    loads: Mapping[str, Load] = field(default_factory=dict)
    delivery: Delivery | None = None
    rivals: tuple[Rival, ...] = ()
    problem: KappaError | None = None
    problems: tuple[KappaError, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def alive(self) -> dict[str, bool]:
        """Return whether pipelines' groups live, as far as the pipelines' status shows it."""
        return {group: _ALIVE[each.state] for group, each in self.pipelines.items() if each.state in _ALIVE}

    def find_quota(self, record: RemediationStatus) -> QuotaFacts | None:
        """Return the quota of a record, None where it was not read."""
        return self.quotas.get((record.cluster or "", record.target))


def build_rules(spec: LagPolicySpec) -> Rules:
    """Return the bounds and windows of a policy in seconds."""
    return Rules(
        _build_threshold(spec.warning),
        _build_threshold(spec.critical),
        parse_duration(spec.window),
        parse_duration(spec.clear_after),
        parse_duration(spec.unknown_after),
    )


def _build_threshold(bounds: Bounds | None) -> Threshold | None:
    if bounds is None:
        return None

    def seconds(text: str | None) -> float | None:
        return None if text is None else parse_duration(text)

    return Threshold(
        seconds(bounds.lag), bounds.records, seconds(bounds.time_to_loss), parse_duration(bounds.for_)
    )


def write_histories(histories: Mapping[GroupPartition, LagHistory]) -> dict[str, str]:
    """Return lag histories in the form of the status: by group, topic and partition."""
    return {
        f"{pair.group} {pair.partition.topic} {pair.partition.number}": history.to_json()
        for pair, history in histories.items()
    }


def read_histories(written: Mapping[str, str]) -> dict[GroupPartition, LagHistory]:
    """Return the lag history of a status; an unreadable entry is dropped."""
    found: dict[GroupPartition, LagHistory] = {}
    for name, text in written.items():
        with suppress(ValueError):
            group, topic, number = name.rsplit(" ", 2)
            found[GroupPartition(group, Partition(topic, int(number)))] = LagHistory.from_json(text)
    return found


def read_loads(written: Mapping[str, str]) -> dict[str, Load]:
    """Return the loads of a status; one that cannot be read is measured again."""
    found: dict[str, Load] = {}
    for name, text in written.items():
        with suppress(ValueError):
            found[name] = Load.from_json(text)
    return found
