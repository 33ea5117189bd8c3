"""The lag state and severity of a consumer group.

Both are ordered: the worst of several is their `max` by `rank`.
"""

from enum import StrEnum
from functools import cached_property


class Ranked(StrEnum):
    """Words in order, the best first."""

    @cached_property
    def rank(self) -> int:
        """Return the place in the order, 0 for the best."""
        return list(type(self)).index(self)


class LagState(Ranked):
    """The states of a share (a group in a partition), of a group and of a LagPolicy, from good to bad."""

    OK = "OK"
    UNKNOWN = "Unknown"
    WARNING = "Warning"
    REWOUND = "Rewound"
    STALLED = "Stalled"
    STOPPED = "Stopped"
    LOSING = "Losing"


class Severity(Ranked):
    """The severity, by the bounds of a LagPolicy."""

    NONE = "None"
    WARNING = "Warning"
    CRITICAL = "Critical"
