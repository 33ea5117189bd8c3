"""How often drivers that run are polled: the more there are, the less often each of them, so that the cost is bounded.

Where they are too many for the shortest interval, each driver has its own place within the interval, so that polls are never all due at once.
Those that are due at nearly the same time are made together: with code and data in the processor's cache they take two thirds of the time.
"""

import zlib
from datetime import datetime
from typing import NamedTuple


class Pace(NamedTuple):
    """The shortest and the longest interval in seconds, the polls per second of all drivers between the two, and how many seconds of them are made together."""

    shortest: float
    longest: float
    rate: float
    together: float

    def get_interval(self, drivers: int) -> float:
        """Return the seconds between two polls of one of so many drivers."""
        return min(self.longest, max(self.shortest, drivers / self.rate))

    def get_wait(self, drivers: int, key: object, now: datetime) -> float:
        """Return the seconds until the next poll of the driver with this key: half to one and a half intervals, one on average."""
        interval = self.get_interval(drivers)
        if interval <= self.shortest:
            return interval
        place = interval * zlib.crc32(str(key).encode()) / 2**32
        wait = interval * 1.5 - (now.timestamp() - place + interval / 2) % interval
        return wait + -(now.timestamp() + wait) % self.together


LAGGING = Pace(3.0, 30.0, 100.0, together=0.1)
IDLE = Pace(10.0, 150.0, 7.0, together=2.0)
"""A driver with nothing to read changes little, and watch events report its end: 1,000 of them may cost a few percent of a core."""
