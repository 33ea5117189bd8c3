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
from kappa_operator.lag.history import LagHistory
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


def advance(
    history: LagHistory | None, sample: Sample, rules: Rules, alive: bool | None = None
) -> LagHistory:
    """Return the lag history after the next sample; a sample that is not newer than the last one changes nothing.

    `alive` is whether the group moves in any partition (see `is_alive`), None where that is unknown.
    """
    if history is None:
        history = LagHistory(at=sample.at, since=sample.at, watched=sample.at)
    else:
        step = (sample.at - history.at).total_seconds()
        if -rules.silence <= step <= 0:
            return history
        if not was_watched(history, sample, rules):
            history = history.shift(step)
        if is_recreated(history, sample):
            history = _forget_offsets(history)
    works = has_work(history, sample)
    if works is None:
        return _record_inconclusive(history, sample)
    noted = _record(history, sample, rules, works=works)
    verdict = _find_verdict(noted, sample, rules, alive)
    if verdict is not None and verdict.state not in (LagState.OK, LagState.WARNING):
        noted = noted._replace(judged=sample.at)  # the offsets show it, whatever the lag in time is
    return _settle(noted, verdict, rules)


def judge(history: LagHistory, now: datetime, rules: Rules) -> Verdict:
    """Return the present verdict. Without a conclusive sample the severity stays as it was raised."""
    if is_silent(history, now, rules):
        return Verdict(LagState.UNKNOWN, history.severity)
    return Verdict(history.state, history.severity)


def is_silent(history: LagHistory, now: datetime, rules: Rules) -> bool:
    """Return whether the last conclusive sample is too old, or in the future because the clock went back."""
    judged = history.judged
    return judged is None or abs((now - judged).total_seconds()) > rules.silence


def was_watched(history: LagHistory, sample: Sample, rules: Rules) -> bool:
    """Return whether the time since the previous sample counts: it is short enough, and the clock went forward."""
    return 0 < (sample.at - history.at).total_seconds() <= rules.silence


def is_alive(samples: Iterable[tuple[LagHistory | None, Sample]], rules: Rules) -> bool | None:
    """Return whether a group has moved in any partition within the window; None without samples for that long."""
    watched = True
    for history, sample in samples:
        if history is None:
            watched = False
        elif has_advanced(history, sample):
            return True
        elif not was_watched(history, sample, rules) and sample.at != history.at:
            watched = False
        elif history.moved is not None and not _has_passed(history.moved, sample.at, rules.window):
            return True
        else:
            watched = watched and _has_passed(history.watched, sample.at, rules.window)
    return False if watched else None


def _forget_offsets(history: LagHistory) -> LagHistory:
    """Return what remains of a lag history when its offsets are void: state, severity and the start times of bounds."""
    return history._replace(
        start=0, end=0, committed=None, done=None, still=None, rewound=None, rewound_from=None
    )


def _record_inconclusive(history: LagHistory, sample: Sample) -> LagHistory:
    """Return the lag history after an inconclusive sample: only offsets change. A group that was deleted starts again."""
    if sample.committed is None:
        history = _forget_offsets(history)
    return history._replace(
        at=sample.at, start=sample.log.start, end=sample.log.end, committed=sample.committed
    )


def _record(history: LagHistory, sample: Sample, rules: Rules, *, works: bool) -> LagHistory:
    """Return the lag history with its start times set, kept or removed, and its state unchanged."""
    at, is_same = sample.at, history.committed == sample.committed
    warning, critical = (is_over(bound, sample, works=works) for bound in (rules.warning, rules.critical))
    is_telling = True in (warning, critical) or None not in (warning, critical)
    noted = _record_rewind(history, sample, rules, works=works)
    noted = _doubt(noted) if is_silent(history, at, rules) else noted
    return noted._replace(
        at=at, start=sample.log.start, end=sample.log.end, committed=sample.committed,
        done=_find_done(history, sample, works=works),
        judged=at if is_telling else history.judged,
        moved=at if has_advanced(history, sample) else history.moved,
        still=(history.still if is_same and history.still else at) if works else None,
        over_warning=_keep(history.over_warning, warning, at),
        over_critical=_keep(history.over_critical, critical, at),
        near_warning=_keep(history.near_warning, is_near(rules.warning, sample, works=works), at),
        near_critical=_keep(history.near_critical, is_near(rules.critical, sample, works=works), at),
    )  # fmt: skip


def _find_done(history: LagHistory, sample: Sample, *, works: bool) -> int | None:
    if not works and count_lost(history, sample) == 0:
        return sample.log.stable
    return None if went_back(history, sample) else history.done


def _doubt(history: LagHistory) -> LagHistory:
    """Return the lag history after a time without a conclusive sample: OK, or any better state, must be seen again."""
    state = LagState.UNKNOWN if history.state is LagState.OK else history.state
    return history._replace(state=state, easing=None)


def _record_rewind(history: LagHistory, sample: Sample, rules: Rules, *, works: bool) -> LagHistory:
    if went_back(history, sample):
        origin = max(history.committed or 0, history.rewound_from or 0)
        return history._replace(rewound=sample.at, rewound_from=origin)
    if history.rewound is None:
        return history
    is_back = not works or (sample.committed or 0) >= (history.rewound_from or 0)
    if is_back or _has_passed(history.rewound, sample.at, rules.window):
        return history._replace(rewound=None, rewound_from=None)
    return history


def _keep(since: datetime | None, holds: bool | None, at: datetime) -> datetime | None:
    """Return since when something holds; where that is unknown now, the former value."""
    if holds is None:
        return since
    return (since or at) if holds else None


def _find_verdict(history: LagHistory, sample: Sample, rules: Rules, alive: bool | None) -> Verdict | None:
    """Return the worst state that holds now; None where that is unknown."""
    overdue = _find_overdue(LagState.WARNING, history.over_warning, history.over_critical, history.at, rules)
    found = [*_find_loss(history, sample, rules), *_find_standstill(history, rules, alive), *overdue]
    if history.rewound is not None:
        found.append(Verdict(LagState.REWOUND, Severity.WARNING))
    if not found:
        is_pending = history.over_warning is not None or history.over_critical is not None
        is_new = history.state is LagState.UNKNOWN
        return None if history.judged != history.at or (is_new and is_pending) else WELL
    state = max((each.state for each in found), key=lambda state: state.rank)
    return Verdict(state, max((each.severity for each in found), key=lambda severity: severity.rank))


def _find_loss(history: LagHistory, sample: Sample, rules: Rules) -> list[Verdict]:
    if count_lost(history, sample) > 0:
        return [Verdict(LagState.LOSING, Severity.CRITICAL)]
    return _find_overdue(LagState.LOSING, history.near_warning, history.near_critical, history.at, rules)


def _find_overdue(
    state: LagState, warning: datetime | None, critical: datetime | None, at: datetime, rules: Rules
) -> list[Verdict]:
    if rules.critical and critical and _has_passed(critical, at, rules.critical.patience):
        return [Verdict(state, Severity.CRITICAL)]
    if rules.warning and warning and _has_passed(warning, at, rules.warning.patience):
        return [Verdict(state, Severity.WARNING)]
    return []


def _find_standstill(history: LagHistory, rules: Rules, alive: bool | None) -> list[Verdict]:
    if history.still is None or not _has_passed(history.still, history.at, rules.window):
        return []
    stopped = history.state is LagState.STOPPED if alive is None else not alive
    return [Verdict(LagState.STOPPED if stopped else LagState.STALLED, Severity.WARNING)]


def _settle(history: LagHistory, verdict: Verdict | None, rules: Rules) -> LagHistory:
    """Return the lag history with a worse state raised at once, and a better one after it has held for `clear_after`."""
    if verdict is None:
        return history
    now, present = history.at, Verdict(history.state, history.severity)
    if verdict == present:
        return history if history.easing is None else history._replace(easing=None)
    easing = history.easing or now
    is_worse = present.state is LagState.UNKNOWN or verdict.rank > present.rank
    if is_worse or _has_passed(easing, now, rules.clear_after):
        return history._replace(state=verdict.state, severity=verdict.severity, since=now, easing=None)
    return history._replace(easing=easing)


def _has_passed(since: datetime, now: datetime, seconds: float) -> bool:
    return (now - since).total_seconds() >= seconds
