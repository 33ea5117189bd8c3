"""Evaluates the lag of a consumer group over time: a fold over samples.

`advance` takes the lag history of a group partition and its next sample, and returns the next lag history. It keeps and counts no samples,
so neither the sample interval nor the commit interval of a group matters. The states:

- **OK**: lag is within all bounds, or was over one for less than `for`.
- **Warning**: lag in seconds or records has been over a bound for `for`.
- **Rewound**: the committed offset went back and has not reached its former position; at most for one window.
- **Stalled**: records wait and the committed offset has not moved for the window, while it moves in other partitions.
- **Stopped**: the same, and no committed offset of the group has moved for the window.
- **Losing**: records were removed before the group read them, or time to loss has been below a bound for `for`.
- **Unknown**: no conclusive sample for `silence`. It is never reported as OK.

A worse state is raised at once; a better one replaces it after `clear_after` without interruption. Time without samples (longer than
`silence`, or a clock that went back) does not count: it neither raises nor clears.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from kappa_crds.lagstate import LagState, Severity
from kappa_operator.lag.comparison import (
    count_lost,
    has_advanced,
    has_work,
    is_near,
    is_over,
    is_recreated,
    went_back,
)
from kappa_operator.lag.history import Standing
from kappa_operator.lag.model import Sample
from kappa_operator.lag.rules import Rules


class Verdict(NamedTuple):
    """A state and its severity."""

    state: LagState
    severity: Severity

    @property
    def rank(self) -> tuple[int, int]:
        """Return the rank for sorting: severity first, then the state."""
        return self.severity.rank, self.state.rank


WELL = Verdict(LagState.OK, Severity.NONE)


def advance(standing: Standing | None, sample: Sample, rules: Rules, alive: bool | None = None) -> Standing:
    """Return the lag history after the next sample; a sample that is not newer than the last one changes nothing.

    `alive` is whether the group moves in any partition (see `is_alive`), None where that is unknown.
    """
    if standing is None:
        standing = Standing(at=sample.at, since=sample.at, watched=sample.at)
    else:
        step = (sample.at - standing.at).total_seconds()
        if -rules.silence <= step <= 0:
            return standing
        if not was_watched(standing, sample, rules):
            standing = standing.shift(step)
        if is_recreated(standing, sample):
            standing = _forget_offsets(standing)
    works = has_work(standing, sample)
    if works is None:
        return _record_inconclusive(standing, sample)
    noted = _record(standing, sample, rules, works=works)
    verdict = _find_verdict(noted, sample, rules, alive)
    if verdict is not None and verdict.state not in (LagState.OK, LagState.WARNING):
        noted = noted._replace(judged=sample.at)  # the offsets show it, whatever the lag in time is
    return _settle(noted, verdict, rules)


def judge(standing: Standing, now: datetime, rules: Rules) -> Verdict:
    """Return the present verdict. Without a conclusive sample the severity stays as it was raised."""
    if is_silent(standing, now, rules):
        return Verdict(LagState.UNKNOWN, standing.severity)
    return Verdict(standing.state, standing.severity)


def is_silent(standing: Standing, now: datetime, rules: Rules) -> bool:
    """Return whether the last conclusive sample is too old, or in the future because the clock went back."""
    judged = standing.judged
    return judged is None or abs((now - judged).total_seconds()) > rules.silence


def was_watched(standing: Standing, sample: Sample, rules: Rules) -> bool:
    """Return whether the time since the previous sample counts: it is short enough, and the clock went forward."""
    return 0 < (sample.at - standing.at).total_seconds() <= rules.silence


def is_alive(looks: Iterable[tuple[Standing | None, Sample]], rules: Rules) -> bool | None:
    """Return whether a group has moved in any partition within the window; None without samples for that long."""
    watched = True
    for standing, sample in looks:
        if standing is None:
            watched = False
        elif has_advanced(standing, sample):
            return True
        elif not was_watched(standing, sample, rules) and sample.at != standing.at:
            watched = False
        elif standing.moved is not None and not _has_passed(standing.moved, sample.at, rules.window):
            return True
        else:
            watched = watched and _has_passed(standing.watched, sample.at, rules.window)
    return False if watched else None


def _forget_offsets(standing: Standing) -> Standing:
    """Return what remains of a lag history when its offsets are void: state, severity and the start times of bounds."""
    return standing._replace(
        start=0, end=0, committed=None, done=None, still=None, rewound=None, rewound_from=None
    )


def _record_inconclusive(standing: Standing, sample: Sample) -> Standing:
    """Return the lag history after an inconclusive sample: only offsets change. A group that was deleted starts again."""
    if sample.committed is None:
        standing = _forget_offsets(standing)
    return standing._replace(
        at=sample.at, start=sample.log.start, end=sample.log.end, committed=sample.committed
    )


def _record(standing: Standing, sample: Sample, rules: Rules, *, works: bool) -> Standing:
    """Return the lag history with its start times set, kept or removed, and its state unchanged."""
    at, is_same = sample.at, standing.committed == sample.committed
    warning, critical = (is_over(bound, sample, works=works) for bound in (rules.warning, rules.critical))
    is_telling = True in (warning, critical) or None not in (warning, critical)
    noted = _record_rewind(standing, sample, rules, works=works)
    noted = _doubt(noted) if is_silent(standing, at, rules) else noted
    return noted._replace(
        at=at, start=sample.log.start, end=sample.log.end, committed=sample.committed,
        done=_find_done(standing, sample, works=works),
        judged=at if is_telling else standing.judged,
        moved=at if has_advanced(standing, sample) else standing.moved,
        still=(standing.still if is_same and standing.still else at) if works else None,
        over_warning=_keep(standing.over_warning, warning, at),
        over_critical=_keep(standing.over_critical, critical, at),
        near_warning=_keep(standing.near_warning, is_near(rules.warning, sample, works=works), at),
        near_critical=_keep(standing.near_critical, is_near(rules.critical, sample, works=works), at),
    )  # fmt: skip


def _find_done(standing: Standing, sample: Sample, *, works: bool) -> int | None:
    if not works and count_lost(standing, sample) == 0:
        return sample.log.stable
    return None if went_back(standing, sample) else standing.done


def _doubt(standing: Standing) -> Standing:
    """Return the lag history after a time without a conclusive sample: OK, or any better state, must be seen again."""
    state = LagState.UNKNOWN if standing.state is LagState.OK else standing.state
    return standing._replace(state=state, easing=None)


def _record_rewind(standing: Standing, sample: Sample, rules: Rules, *, works: bool) -> Standing:
    if went_back(standing, sample):
        origin = max(standing.committed or 0, standing.rewound_from or 0)
        return standing._replace(rewound=sample.at, rewound_from=origin)
    if standing.rewound is None:
        return standing
    is_back = not works or (sample.committed or 0) >= (standing.rewound_from or 0)
    if is_back or _has_passed(standing.rewound, sample.at, rules.window):
        return standing._replace(rewound=None, rewound_from=None)
    return standing


def _keep(since: datetime | None, holds: bool | None, at: datetime) -> datetime | None:
    """Return since when something holds; where that is unknown now, the former value."""
    if holds is None:
        return since
    return (since or at) if holds else None


def _find_verdict(standing: Standing, sample: Sample, rules: Rules, alive: bool | None) -> Verdict | None:
    """Return the worst state that holds now; None where that is unknown."""
    overdue = _find_overdue(
        LagState.WARNING, standing.over_warning, standing.over_critical, standing.at, rules
    )
    found = [*_find_loss(standing, sample, rules), *_find_standstill(standing, rules, alive), *overdue]
    if standing.rewound is not None:
        found.append(Verdict(LagState.REWOUND, Severity.WARNING))
    if not found:
        is_pending = standing.over_warning is not None or standing.over_critical is not None
        is_new = standing.state is LagState.UNKNOWN
        return None if standing.judged != standing.at or (is_new and is_pending) else WELL
    state = max((each.state for each in found), key=lambda state: state.rank)
    return Verdict(state, max((each.severity for each in found), key=lambda severity: severity.rank))


def _find_loss(standing: Standing, sample: Sample, rules: Rules) -> list[Verdict]:
    if count_lost(standing, sample) > 0:
        return [Verdict(LagState.LOSING, Severity.CRITICAL)]
    return _find_overdue(LagState.LOSING, standing.near_warning, standing.near_critical, standing.at, rules)


def _find_overdue(
    state: LagState, warning: datetime | None, critical: datetime | None, at: datetime, rules: Rules
) -> list[Verdict]:
    if rules.critical and critical and _has_passed(critical, at, rules.critical.patience):
        return [Verdict(state, Severity.CRITICAL)]
    if rules.warning and warning and _has_passed(warning, at, rules.warning.patience):
        return [Verdict(state, Severity.WARNING)]
    return []


def _find_standstill(standing: Standing, rules: Rules, alive: bool | None) -> list[Verdict]:
    if standing.still is None or not _has_passed(standing.still, standing.at, rules.window):
        return []
    stopped = standing.state is LagState.STOPPED if alive is None else not alive
    return [Verdict(LagState.STOPPED if stopped else LagState.STALLED, Severity.WARNING)]


def _settle(standing: Standing, verdict: Verdict | None, rules: Rules) -> Standing:
    """Return the lag history with a worse state raised at once, and a better one after it has held for `clear_after`."""
    if verdict is None:
        return standing
    now, present = standing.at, Verdict(standing.state, standing.severity)
    if verdict == present:
        return standing if standing.easing is None else standing._replace(easing=None)
    easing = standing.easing or now
    is_worse = present.state is LagState.UNKNOWN or verdict.rank > present.rank
    if is_worse or _has_passed(easing, now, rules.clear_after):
        return standing._replace(state=verdict.state, severity=verdict.severity, since=now, easing=None)
    return standing._replace(easing=easing)


def _has_passed(since: datetime, now: datetime, seconds: float) -> bool:
    return (now - since).total_seconds() >= seconds
