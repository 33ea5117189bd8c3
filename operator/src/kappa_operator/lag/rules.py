"""The rules for a consumer group: bounds of lag, and the time windows of the evaluation."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Threshold:
    """Bounds, None for no bound. `lag`, `time_to_loss` and `patience` (how long lag may be over a bound) are in seconds."""

    lag: float | None = None
    records: int | None = None
    time_to_loss: float | None = None
    patience: float = 120.0


@dataclass(frozen=True, slots=True)
class Rules:
    """Bounds and windows, in seconds.

    A group is stalled where its offset does not move for `window` with unread records. A state is cleared after `clear_after` without
    a cause, and is unknown after `silence` without a sample.
    """

    warning: Threshold | None = None
    critical: Threshold | None = None
    window: float = 300.0
    clear_after: float = 120.0
    silence: float = 300.0
