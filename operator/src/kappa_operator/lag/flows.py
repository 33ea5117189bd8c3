"""How much comes into each topic, from where its logs end: no record is read for it.

Offsets stand for records, so ends of transactions count as if they were some. A log that is first seen, or that was made anew, begins to
count from there: what it held before came at a time that nobody knows. Records that leave a log change nothing. While a partition of a
topic cannot be seen, the topic has no rate, and none is made up of what came meanwhile.
"""

from collections.abc import Iterable, Mapping

from kappa_operator.lag.model import Partition, PartitionLog

WINDOW = 60.0
"""Seconds over which a rate is measured; more where looks are further apart."""
_APART = 10.0
"""Seconds between two looks that are kept to compare with."""


class Flows:
    """What came into the topics of one Kafka cluster. Times are of a monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._ends: dict[Partition, int] = {}
        self._totals: dict[str, int] = {}
        self._looks: list[tuple[float, dict[str, int]]] = []
        self._rates: dict[str, float] = {}
        self._anew: set[str] = set()

    @property
    def totals(self) -> Mapping[str, int]:
        """Return the records that came into each topic since it was first seen; what was returned once does not change any more."""
        return self._totals

    @property
    def rates(self) -> Mapping[str, float]:
        """Return the records that come into each topic a second; nothing of a topic of which it is not known."""
        return self._rates

    def add(self, at: float, logs: Mapping[Partition, PartitionLog], dark: Iterable[Partition]) -> None:
        """Add a look; `dark` are the partitions that are there and could not be seen."""
        unseen = {partition.topic for partition in dark}
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
        """Forget a partition whose topic was made anew, and what was compared with."""
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
        """Keep the look, so that there is always one that is as old as the window."""
        if not self._looks or at - self._looks[-1][0] >= _APART:
            self._looks.append((at, now))
        while len(self._looks) > 1 and at - self._looks[1][0] >= WINDOW:
            del self._looks[0]
