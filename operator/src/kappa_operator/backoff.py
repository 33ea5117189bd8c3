"""Pauses between attempts, for everything that is retried: they double, are bounded, and differ a little from key to key.

Without that difference, all that failed together would be retried together. The pause is a function of the attempt and the key
alone, so that a process that starts again computes the same one.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

_SPREAD = 0.1
"""The largest part of a pause that is left out."""
_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses in seconds: `first` after the first failure, then twice as long each time, at most `longest`."""

    first: float
    longest: float

    def pause(self, failures: int, key: object) -> float:
        """Return the seconds to wait after so many failures in a row."""
        doubled = self.first * 2.0 ** min(_DOUBLINGS, max(0, failures - 1))
        return self._spread(min(self.longest, doubled), f"{key}/{failures}")

    def pause_since(self, elapsed: float, key: object) -> float:
        """Return the seconds to wait where something has failed for `elapsed` seconds: as long again, which doubles the time."""
        return self._spread(min(self.longest, max(self.first, elapsed)), f"{key}/{elapsed}")

    def __iter__(self) -> Iterator[float]:
        """Yield the pauses without end."""
        failures = 0
        while True:
            failures += 1
            yield self.pause(failures, id(self))

    def _spread(self, seconds: float, seed: str) -> float:
        return seconds * (1 - _SPREAD * (zlib.crc32(seed.encode()) % 1000) / 1000)


QUEUE = Backoff(1.0, 300.0)
"""A reconcile that raised an error."""
WATCH = Backoff(0.5, 30.0)
"""A watch that ended. It is retried without end: with one, a namespace that is gone would end the operator for all others."""
TOPIC = Backoff(2.0, 300.0)
"""A topic that Kafka refused, or whose Kafka cluster does not answer."""
LOG_IN = Backoff(15.0, 900.0)
"""A log-in that Kafka refused: repeated ones lock accounts, and look like an attack."""
STORE = Backoff(30.0, 600.0)
"""A check of a state store that failed."""
DATABASE = Backoff(15.0, 600.0)
"""A check of a database that found an error, or could not be made."""
PROOF = Backoff(300.0, 21600.0)
"""A proof that tables equal their topics, which could not be made: it reads whole tables."""
ARCHIVE = Backoff(30.0, 600.0)
"""A run of an archive that failed."""
SAVEPOINT = Backoff(5.0, 300.0)
"""A savepoint, its verification, a copy of it, or its deletion."""
WEBHOOK = Backoff(10.0, 600.0)
"""A notification that the webhook did not accept."""
