"""How many executors a pipeline needs: as many as drain what waits within the target, and as few as would hold.

More are decided on while a bound is overstepped, from what came in and what one executor took meanwhile. Fewer are decided on after a
quiet time, and only if fewer would have taken the most that came in during that time, with a fifth to spare.
"""

import math
from dataclasses import dataclass
from datetime import datetime

from kappa_crds.lagremediation import BatchLimitRemediation, ScaleRemediation, ThrottleRemediation
from kappa_crds.lagstate import LagState, Severity
from kappa_crds.quantities import format_count, format_duration, parse_duration
from kappa_operator.lag.evaluate import Verdict
from kappa_operator.lag.load import Load

MARGIN = 1.1
"""How much faster than needed, since rates are smoothed and executors take their time to start."""
SPARE = 0.8
"""Up to which part of what executors can take they may be used after there are fewer."""
_MOST_DOUBLINGS = 3
Settings = ScaleRemediation | BatchLimitRemediation | ThrottleRemediation


@dataclass(frozen=True, slots=True)
class Change:
    """Executors that are wanted, and why."""

    executors: int
    why: str


def decide_executors(
    settings: ScaleRemediation,
    load: Load,
    waits: int,
    verdict: Verdict,
    *,
    last: datetime | None,
    regrets: int,
) -> Change | None:
    """Return another number of executors, None where the present one is right or unknown.

    `last` is when the number was changed last, `regrets` how often fewer were too few. A change counts from when its executors are at work.
    """
    now = load.at
    if last is not None and (now - max(last, load.since)).total_seconds() < parse_duration(
        settings.cool_down
    ):
        return None
    if verdict.severity is not Severity.NONE:
        return _decide_more(settings, load, waits, verdict)
    quiet = measure_quiet(settings, regrets)
    starts = [moment for moment in (load.well_since, load.since, last) if moment is not None]
    if load.well_since is None or (now - max(starts)).total_seconds() < quiet:
        return None
    return _decide_fewer(settings, load)


def measure_quiet(settings: Settings, regrets: int) -> float:
    """Return the seconds for which all has to be well before there are fewer, and over which the most that comes in is looked for."""
    return parse_duration(settings.quiet_for) * (1 << min(regrets, _MOST_DOUBLINGS))


def count_regrets(settings: Settings, *, fell: datetime | None, now: datetime, regrets: int) -> int:
    """Return how often in a row fewer were too few, when more are needed now. `fell` is when the last change was made, if it was to fewer.

    What held for twice the quiet time was right at its time.
    """
    if fell is None:
        return regrets
    held = (now - fell).total_seconds() >= 2 * measure_quiet(settings, regrets)
    return 0 if held else regrets + 1


def _decide_more(settings: ScaleRemediation, load: Load, waits: int, verdict: Verdict) -> Change | None:
    if verdict.state not in (LagState.WARNING, LagState.LOSING, LagState.REWOUND) or not load.each:
        return None  # one that is stalled does not need more executors
    target = parse_duration(settings.drain_within)
    wanted = MARGIN * (load.came + waits / target)
    needed = min(settings.max, math.ceil(wanted / load.each))
    if needed <= load.executors:
        return None
    return Change(
        needed,
        f"{format_count(waits)} records wait and {format_count(load.came)}/s come; an executor takes {format_count(load.each)}/s, so"
        f" {needed} instead of {load.executors} drain them within {format_duration(target)}",
    )


def _decide_fewer(settings: ScaleRemediation, load: Load) -> Change | None:
    if not load.each:
        return None
    needed = min(settings.max, max(settings.min, math.ceil(load.highest / (SPARE * load.each))))
    if needed >= load.executors:
        return None
    return Change(
        needed,
        f"at most {format_count(load.highest)}/s came lately; an executor takes {format_count(load.each)}/s, so {needed} are enough"
        f" instead of {load.executors}",
    )
