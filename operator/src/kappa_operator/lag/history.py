"""The lag history of a group partition: what is kept from one sample to the next. It is small, frozen, and written as JSON.

A `LagHistory` holds times, not counts of samples, so that it does not depend on the sample interval, and one that was stored an hour ago
is still valid: an operator continues from it after a restart.
"""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self

from pydantic import TypeAdapter

from kappa_crds.lagstate import LagState, Severity

_CLOCKS = (
    "watched", "moved", "still", "over_warning", "over_critical", "near_warning", "near_critical", "rewound", "easing",
)  # fmt: skip
"""The fields that durations start from; a time without samples moves them."""


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
        return write_json(self._asdict())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the lag history of a text; raise ValueError where it is none. Fields of another version are ignored."""
        raw = _OBJECT.validate_json(text)
        return cls(*_HISTORY.validate_python({name: raw[name] for name in cls._fields if name in raw}))


_OBJECT = TypeAdapter(dict[str, Any])
_HISTORY = TypeAdapter(LagHistory)


def write_json(values: Mapping[str, Any]) -> str:
    """Return values as JSON text without absent ones; times are in ISO format."""
    kept = {name: value for name, value in values.items() if value is not None}
    return json.dumps(kept, separators=(",", ":"), default=datetime.isoformat)
