"""How often drivers that run are polled: the more there are, the less often each of them, so that the cost is bounded."""

from typing import NamedTuple


class Pace(NamedTuple):
    """The shortest and the longest interval in seconds, and the polls per second of all drivers between the two."""

    shortest: float
    longest: float
    rate: float

    def get_interval(self, drivers: int) -> float:
        """Return the seconds between two polls of one of so many drivers."""
        return min(self.longest, max(self.shortest, drivers / self.rate))


LAGGING = Pace(3.0, 30.0, 100.0)
IDLE = Pace(10.0, 90.0, 12.0)
"""A driver with nothing to read changes little, and watch events report its end: 1,000 of them may cost a few percent of a core."""
