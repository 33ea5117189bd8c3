"""The samples of replays, from which the time is estimated that is left. They are in memory only."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Generic, Protocol, TypeVar

from kappa_operator.engine.keys import Key
from kappa_operator.lag.model import Partition

_SAMPLES = 30
_SPACING = timedelta(seconds=10)


class Sample(Protocol):
    """What was observed at a time."""

    @property
    def at(self) -> datetime:
        """Return the time."""


SampleT = TypeVar("SampleT", bound=Sample)


class ReplaySamples(Generic[SampleT]):
    """The samples of replays in this process, by Reprocessing and partition: a new process samples again."""

    def __init__(self) -> None:
        self._samples: dict[Key, dict[Partition, list[SampleT]]] = {}

    def add(self, key: Key, positions: Mapping[Partition, SampleT]) -> Mapping[Partition, Sequence[SampleT]]:
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
