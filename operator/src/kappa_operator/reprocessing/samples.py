"""The samples of replays, from which the time is estimated that is left. They are in memory only."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from kappa_operator.engine.keys import Key
from kappa_operator.lag.model import Partition
from kappa_operator.log.eta import ReplaySample

_SAMPLES = 30
_SPACING = timedelta(seconds=10)


class ReplaySamples:
    """The samples of replays in this process, by Reprocessing and partition: a new process samples again."""

    def __init__(self) -> None:
        self._samples: dict[Key, dict[Partition, list[ReplaySample]]] = {}

    def add(
        self, key: Key, positions: Mapping[Partition, ReplaySample]
    ) -> Mapping[Partition, Sequence[ReplaySample]]:
        """Remember one more sample of each partition; return all of them."""
        known = self._samples.setdefault(key, {})
        for partition, sample in positions.items():
            some = known.setdefault(partition, [])
            if some and sample.at - some[-1].at < _SPACING:
                continue
            known[partition] = [*some, sample][-_SAMPLES:]
        return {partition: known[partition] for partition in positions}

    def forget(self, key: Key) -> None:
        """Forget the samples of one that is gone or has ended."""
        self._samples.pop(key, None)
