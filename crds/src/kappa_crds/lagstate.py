"""The lag state and severity of a consumer group.

Both are ordered: the worst of several is their `max` by `rank`.
"""

from enum import StrEnum


class LagState(StrEnum):
    """The states of a share (a group in a partition), of a group and of a LagPolicy, from good to bad."""

    OK = "OK"
    UNKNOWN = "Unknown"
    WARNING = "Warning"
    REWOUND = "Rewound"
    STALLED = "Stalled"
    STOPPED = "Stopped"
    LOSING = "Losing"

    @property
    def rank(self) -> int:
        """Return how bad it is, 0 for OK."""
        return _STATES[self]


class Severity(StrEnum):
    """The severity, by the bounds of a LagPolicy."""

    NONE = "None"
    WARNING = "Warning"
    CRITICAL = "Critical"

    @property
    def rank(self) -> int:
        """Return how bad it is, 0 for None."""
        return _SEVERITIES[self]


_STATES = {state: rank for rank, state in enumerate(LagState)}
_SEVERITIES = {severity: rank for rank, severity in enumerate(Severity)}
