"""What is remembered of a share from one sample to the next: small, frozen, and written as JSON.

A `Standing` holds moments, not counts of samples, so that it means the same whatever the pace of the samples is, and one that was
written down an hour ago is still right: an operator that starts anew goes on from it.
"""

import json
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self

from kappa_crds.lagstate import LagState, Severity

_CLOCKS = (
    "watched", "moved", "still", "over_warning", "over_critical", "near_warning", "near_critical", "rewound", "easing",
)  # fmt: skip
"""The fields that durations are measured from, and that a time which was not watched moves."""
_TIMES = frozenset({*_CLOCKS, "at", "since", "judged"})
_REQUIRED = ("at", "since", "watched")


class Standing(NamedTuple):
    """Where a share stands after its samples up to `at`.

    `state` and `severity` hold since `since`, as last raised or cleared. `watched` is the first look, `judged` the last one that told
    enough to judge by. `committed`, `start` and `end` are offsets of the last look; `done` is the offset below which there was nothing
    left to do at some look, whatever was committed. The rest are moments from which something has held without a break: `moved` (when the
    committed offset last advanced), `still` (records wait and it does not move), `over_…` (lag past a bound), `near_…` (time to loss past
    one), `rewound` (the offset went back, from `rewound_from`), `easing` (there is less cause than `state` and `severity` say).
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
        """Return whether all is well and nothing is on its way: such a standing need not be written down."""
        pending = (self.still, self.over_warning, self.over_critical, self.near_warning, self.near_critical)
        return self.state is LagState.OK and self.easing is None and not any(pending)

    def shift(self, seconds: float) -> Self:
        """Return the same with every clock moved, so that a time that was not watched is not counted."""
        by = timedelta(seconds=seconds)
        clocks = {name: value + by for name in _CLOCKS if (value := getattr(self, name)) is not None}
        return self._replace(**clocks)

    def to_json(self) -> str:
        """Return the standing as JSON text, without what is absent."""
        kept = {
            name: value.isoformat() if name in _TIMES else value
            for name, value in self._asdict().items()
            if value is not None
        }
        return json.dumps(kept, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the standing of a text; raise ValueError for what is none. Fields of another version are ignored."""
        raw = json.loads(text)
        if not isinstance(raw, dict) or not all(name in raw for name in _REQUIRED):
            raise ValueError(f"no standing of a share: {text[:80]!r}")
        try:
            return cls(**{name: _read(name, value) for name, value in raw.items() if name in cls._fields})
        except TypeError as error:
            raise ValueError(f"no standing of a share: {error}") from None


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
