"""What a report is made of, gathered in one moment: only what does not change any more, so that a thread can work on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kappa_crds.progress import Progress
from kappa_operator.engine.keys import Key
from kappa_operator.lag.history import Standing
from kappa_operator.lag.model import Share, Sweep
from kappa_operator.lag.rules import Rules


@dataclass(frozen=True, slots=True)
class Judging:
    """A LagPolicy: what it goes by, and where shares stand."""

    rules: Rules
    standings: Mapping[Share, Standing]


@dataclass(frozen=True, slots=True)
class Looked:
    """A KafkaCluster, its last sweep, and the policies of its groups."""

    key: Key
    every: float
    sweep: Sweep | None = None
    judging: tuple[Judging, ...] = ()


@dataclass(frozen=True, slots=True)
class Driven:
    """A pipeline, the group that it commits to, its state and the reason of Ready, and what its driver said last, and when."""

    key: Key
    group: str
    state: str | None = None
    reason: str | None = None
    said: tuple[datetime, Progress] | None = None


@dataclass(frozen=True, slots=True)
class Gathered:
    """All that there is. `replica` is the name of the one that acts."""

    replica: str
    clusters: tuple[Looked, ...] = ()
    pipelines: tuple[Driven, ...] = field(default_factory=tuple)
