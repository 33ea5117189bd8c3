"""Measures the records written to each topic by the ends of its logs; it reads no record.

Offsets count as records, transaction markers included. A log that is new, or belongs to a recreated topic, counts from its first sample:
when its earlier records came is unknown. Records that leave a log change nothing. While a partition is unavailable its topic has no rate.
"""

from collections.abc import Iterable, Mapping

from kappa_operator.lag.model import Partition, PartitionLog

WINDOW = 60.0
"""Seconds over which a rate is measured; more with a longer sample interval."""
_APART = 10.0
"""Seconds between two samples that are kept for comparison."""


class Flows:
    """The records written to the topics of one Kafka cluster. Times are those of a monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._ends: dict[Partition, int] = {}
        self._totals: dict[str, int] = {}
        self._looks: list[tuple[float, dict[str, int]]] = []
        self._rates: dict[str, float] = {}
        self._anew: set[str] = set()

    @property
    def totals(self) -> Mapping[str, int]:
        """Return the records written to each topic since its first sample; a returned mapping never changes."""
        return self._totals

    @property
    def rates(self) -> Mapping[str, float]:
        """Return the records written to each topic per second, without topics whose rate is unknown."""
        return self._rates

    def add(
        self, at: float, logs: Mapping[Partition, PartitionLog], unavailable: Iterable[Partition]
    ) -> None:
        """Add a sample; `unavailable` are the partitions that exist and whose log is unknown."""
        unseen = {partition.topic for partition in unavailable}
        came = self._count(logs)
        before = {topic: total for topic, total in self._totals.items() if topic not in self._anew}
        self._totals = {topic: before.get(topic, 0) + came.get(topic, 0) for topic in came.keys() | unseen}
        self._anew = set()
        for _, known in self._looks:
            for topic in unseen:
                known.pop(topic, None)
        now = {topic: total for topic, total in self._totals.items() if topic not in unseen}
        self._rates = self._measure(at, now)
        self._keep(at, now)

    def forget(self, partition: Partition) -> None:
        """Forget a partition whose topic was recreated, and its former samples."""
        self._ends.pop(partition, None)
        self._anew.add(partition.topic)
        for _, known in self._looks:
            known.pop(partition.topic, None)

    def _count(self, logs: Mapping[Partition, PartitionLog]) -> dict[str, int]:
        came: dict[str, int] = {}
        ends = self._ends
        for partition, log in logs.items():
            end, topic = log.end, partition.topic
            came[topic] = came.get(topic, 0) + max(0, end - ends.get(partition, end))
            ends[partition] = end
        return came

    def _measure(self, at: float, now: Mapping[str, int]) -> dict[str, float]:
        rates: dict[str, float] = {}
        for then, known in self._looks:
            if at > then:
                for topic in (known.keys() & now.keys()) - rates.keys():
                    rates[topic] = (now[topic] - known[topic]) / (at - then)
        return rates

    def _keep(self, at: float, now: dict[str, int]) -> None:
        """Keep the sample, so that one is always as old as the window."""
        if not self._looks or at - self._looks[-1][0] >= _APART:
            self._looks.append((at, now))
        while len(self._looks) > 1 and at - self._looks[1][0] >= WINDOW:
            del self._looks[0]
