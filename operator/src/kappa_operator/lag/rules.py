"""What a consumer group is held to: bounds of lag, and the time windows over which it is judged."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Threshold:
    """Bounds, None where there is none. `lag`, `time_to_loss` and `patience` (how long a bound is overstepped) are in seconds."""

    lag: float | None = None
    records: int | None = None
    time_to_loss: float | None = None
    patience: float = 120.0


@dataclass(frozen=True, slots=True)
class Rules:
    """Bounds and windows, in seconds.

    An offset that does not move for `window` while records wait stands still. What was raised is cleared after `clear_after` without
    any cause, and after `silence` without a look nothing can be said.
    """

    warning: Threshold | None = None
    critical: Threshold | None = None
    window: float = 300.0
    clear_after: float = 120.0
    silence: float = 300.0
