"""The lag history of a group partition: what is kept from one sample to the next. It is small, frozen, and written as JSON.

A `LagHistory` holds times, not counts of samples, so that it does not depend on the sample interval, and one that was stored an hour ago
is still valid: an operator continues from it after a restart.
"""

import json
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self

from kappa_crds.lagstate import LagState, Severity

_CLOCKS = (
    "watched", "moved", "still", "over_warning", "over_critical", "near_warning", "near_critical", "rewound", "easing",
)  # fmt: skip
"""The fields that durations start from; a time without samples moves them."""
_TIMES = frozenset({*_CLOCKS, "at", "since", "judged"})
_REQUIRED = ("at", "since", "watched")


class LagHistory(NamedTuple):
    """The lag history of a group partition after its samples up to `at`.

    `state` and `severity` hold since `since`, as last raised or cleared. `watched` is the first sample, `judged` the last conclusive one. `committed`, `start` and `end` are offsets of the last sample; `done` is the offset below which no record was left at some sample,
    whatever was committed. The rest are times since which something has held without interruption: `moved` (when the
    committed offset last advanced), `still` (records wait and it does not move), `over_…` (lag past a bound), `near_…` (time to loss past
    one), `rewound` (the offset went back, from `rewound_from`), `easing` (the cause is less than that of `state` and `severity`).
    """

    at: datetime
    since: datetime
    watched: datetime
    state: LagState = LagState.UNKNOWN
    severity: Severity = Severity.NONE
    start: int = 0
    end: int = 0
    committed: int | None = None
    done: int | None = None
    judged: datetime | None = None
    moved: datetime | None = None
    still: datetime | None = None
    over_warning: datetime | None = None
    over_critical: datetime | None = None
    near_warning: datetime | None = None
    near_critical: datetime | None = None
    rewound: datetime | None = None
    rewound_from: int | None = None
    easing: datetime | None = None

    @property
    def is_plain(self) -> bool:
        """Return whether it is healthy and no start time is set: such a lag history need not be stored."""
        pending = (self.still, self.over_warning, self.over_critical, self.near_warning, self.near_critical)
        return self.state is LagState.OK and self.easing is None and not any(pending)

    def shift(self, seconds: float) -> Self:
        """Return the same with all start times moved, so that a time without samples does not count."""
        by = timedelta(seconds=seconds)
        clocks = {name: value + by for name in _CLOCKS if (value := getattr(self, name)) is not None}
        return self._replace(**clocks)

    def to_json(self) -> str:
        """Return the lag history as JSON text without absent fields."""
        kept = {
            name: value.isoformat() if name in _TIMES else value
            for name, value in self._asdict().items()
            if value is not None
        }
        return json.dumps(kept, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the lag history of a text; raise ValueError where it is none. Fields of another version are ignored."""
        raw = json.loads(text)
        if not isinstance(raw, dict) or not all(name in raw for name in _REQUIRED):
            raise ValueError(f"not a lag history: {text[:80]!r}")
        try:
            return cls(**{name: _read(name, value) for name, value in raw.items() if name in cls._fields})
        except TypeError as error:
            raise ValueError(f"not a lag history: {error}") from None


def _read(name: str, value: Any) -> Any:
    if name in _TIMES:
        return datetime.fromisoformat(value)
    if name == "state":
        return LagState(value)
    if name == "severity":
        return Severity(value)
    if not isinstance(value, int):
        raise TypeError(f"{name} is {value!r}, not an offset")
    return value
