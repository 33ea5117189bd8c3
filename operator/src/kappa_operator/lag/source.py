"""Where samples come from, as whoever judges them sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from kappa_operator.keys import Key
from kappa_operator.lag.model import Sample, Share


@dataclass(frozen=True, slots=True)
class Sweep:
    """The last look at a Kafka cluster, and when it was. A share that could not be looked at is not among the samples."""

    at: datetime
    samples: Mapping[Share, Sample] = field(default_factory=dict)


class LagSource(Protocol):
    """What is known of the lag of each Kafka cluster."""

    def find(self, cluster: Key) -> Sweep | None:
        """Return the last look at the cluster, None where there was none yet."""


class NoLag:
    """A source that knows nothing."""

    def find(self, cluster: Key) -> Sweep | None:
        """Return None."""
        return None
