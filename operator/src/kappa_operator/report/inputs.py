"""The inputs of a report at one moment: only immutable objects, so that a thread can work on them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kappa_crds.progress import Progress
from kappa_operator.engine.keys import Key
from kappa_operator.lag.history import LagHistory
from kappa_operator.lag.model import ClusterSample, GroupPartition
from kappa_operator.lag.rules import Rules


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """A LagPolicy: its rules, and its lag histories."""

    rules: Rules
    histories: Mapping[GroupPartition, LagHistory]


@dataclass(frozen=True, slots=True)
class ClusterInput:
    """A KafkaCluster, its last sample, and the policies of its groups."""

    key: Key
    every: float
    sampled: ClusterSample | None = None
    policies: tuple[PolicyInput, ...] = ()


@dataclass(frozen=True, slots=True)
class PipelineInput:
    """A pipeline: its consumer group, its state and the reason of Ready, and the last progress of its driver with its time."""

    key: Key
    group: str
    state: str | None = None
    reason: str | None = None
    progress: tuple[datetime, Progress] | None = None


@dataclass(frozen=True, slots=True)
class ReportInput:
    """All inputs. `replica` is the name of the leader."""

    replica: str
    clusters: tuple[ClusterInput, ...] = ()
    pipelines: tuple[PipelineInput, ...] = field(default_factory=tuple)
