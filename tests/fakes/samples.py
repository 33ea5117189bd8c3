"""What a sampler would have seen, by Kafka cluster."""

from datetime import datetime

from kappa_operator.engine.keys import Key
from kappa_operator.lag.model import ClusterSample, GroupPartition, Partition, PartitionLog, Sample


class FakeSamples:
    """The twin of a sampler: `sample` takes a sample; what it does not name does not exist."""

    def __init__(self) -> None:
        self.samples: dict[Key, ClusterSample] = {}

    def get(self, cluster: Key) -> ClusterSample | None:
        """Return the last sample."""
        return self.samples.get(cluster)

    def sample(self, cluster: Key, at: datetime, **looks: tuple[int, int, float | None]) -> None:
        """Take a sample: groups with what they have committed, the end of the log and how far they are behind, in partition 0 of `in`.

        Two underscores in a group are a dot, and a number after three of them is another partition.
        """
        samples: dict[GroupPartition, Sample] = {}
        for name, (committed, end, behind) in looks.items():
            group, _, number = name.partition("___")
            pair = GroupPartition(group.replace("__", "."), Partition("in", int(number or 0)))
            samples[pair] = Sample(at, PartitionLog(0, end, end), committed, behind)
        self.samples[cluster] = ClusterSample(
            at, 0.1, frozenset(pair.group for pair in samples), samples=samples
        )
