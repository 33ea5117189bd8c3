"""Figures as people read them; what is not known is `?`, and never 0."""

from datetime import datetime

from kappa_crds.quantities import format_count, format_duration

UNKNOWN = "?"
NONE = "-"
"""There is nothing to be said, as of a time to loss where nothing is going to be removed."""


def say_count(count: float | None) -> str:
    """Say a count, `?` where it is not known."""
    return UNKNOWN if count is None else format_count(count)


def say_rate(rate: float | None) -> str:
    """Say a rate a second; less than ten with a digit more, so that a trickle is not taken for nothing."""
    if rate is None:
        return UNKNOWN
    return f"{rate:.1f}/s" if 0 < rate < 9.95 else f"{format_count(rate)}/s"


def say_seconds(seconds: float | None) -> str:
    """Say a duration, `?` where it is not known."""
    if seconds is None:
        return UNKNOWN
    return "0s" if seconds <= 0 else format_duration(seconds)


def say_age(at: datetime | None, now: datetime) -> str:
    """Say how long ago something was, in whole seconds."""
    return UNKNOWN if at is None else say_seconds(round(max(0.0, (now - at).total_seconds())))
