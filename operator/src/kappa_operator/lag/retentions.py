"""The retention of topics, read at intervals."""

import time
from collections.abc import Callable, Iterable, Mapping

from kappa_operator.errors import KafkaFailure
from kappa_operator.kafka.configs import ConfigReader, TopicConfigs
from kappa_operator.lag.forecast import STAMPS, UNKNOWN, Retention
from kappa_operator.topic.configs import CLEANUP, RETENTION_SIZE, RETENTION_TIME

_WANTED = frozenset({CLEANUP, RETENTION_TIME, RETENTION_SIZE, STAMPS})
_FRESH = 120.0
_AT_ONCE = 500


class Retentions:
    """The retention of the topics of one Kafka cluster, at most two minutes old; `UNKNOWN` without DESCRIBE_CONFIGS permission."""

    def __init__(self, reader: ConfigReader, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._monotonic = monotonic
        self._known: dict[str, tuple[float, Retention]] = {}

    async def read(self, topics: Iterable[str]) -> Mapping[str, Retention]:
        """Return the retention of these topics."""
        now, names = self._monotonic(), list(topics)
        fresh = {name for name in names if name in self._known and now - self._known[name][0] < _FRESH}
        old = [name for name in names if name not in fresh]
        for begin in range(0, len(old), _AT_ONCE):
            await self._read(old[begin : begin + _AT_ONCE], now)
        self._known = {name: self._known[name] for name in names}
        return {name: retention for name, (_, retention) in self._known.items()}

    async def _read(self, names: list[str], now: float) -> None:
        """Read some; one that cannot be read keeps its former value."""
        try:
            found = await self._reader.read(dict.fromkeys(names, _WANTED))
        except KafkaFailure:
            found = {}
        for name in names:
            configs = found.get(name)
            if isinstance(configs, TopicConfigs):
                self._known[name] = now, Retention.parse(configs.values)
            else:
                self._known[name] = now, self._known.get(name, (now, UNKNOWN))[1]

    async def close(self) -> None:
        """Close the connection."""
        await self._reader.close()
