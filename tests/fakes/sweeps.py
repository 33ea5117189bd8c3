"""What a sampler would have seen, by Kafka cluster."""

from datetime import datetime

from kappa_operator.engine.keys import Key
from kappa_operator.lag.model import Partition, PartitionLog, Sample, Share, Sweep


class FakeSweeps:
    """The twin of a sampler: `sweep` is a look, and what it does not name is as it was not there."""

    def __init__(self) -> None:
        self.sweeps: dict[Key, Sweep] = {}

    def get(self, cluster: Key) -> Sweep | None:
        """Return the last look."""
        return self.sweeps.get(cluster)

    def sweep(self, cluster: Key, at: datetime, **looks: tuple[int, int, float | None]) -> None:
        """Take a look: groups with what they have committed, the end of the log and how far they are behind, in partition 0 of `in`.

        Two underscores in a group are a dot, and a number after three of them is another partition.
        """
        samples: dict[Share, Sample] = {}
        for name, (committed, end, behind) in looks.items():
            group, _, number = name.partition("___")
            share = Share(group.replace("__", "."), Partition("in", int(number or 0)))
            samples[share] = Sample(at, PartitionLog(0, end, end), committed, behind)
        self.sweeps[cluster] = Sweep(at, 0.1, frozenset(share.group for share in samples), samples=samples)
