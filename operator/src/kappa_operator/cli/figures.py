"""Figures as text for people. An unknown figure is `?`, never 0."""

from datetime import datetime

from kappa_crds.quantities import format_count, format_duration

UNKNOWN = "?"
NONE = "-"
"""The figure does not apply, such as a time to loss where no record is going to be removed."""


def render_count(count: float | None) -> str:
    """Return a count, `?` for None."""
    return UNKNOWN if count is None else format_count(count)


def render_rate(rate: float | None) -> str:
    """Return a rate per second, below ten with one decimal, so that a low rate is not shown as 0."""
    if rate is None:
        return UNKNOWN
    return f"{rate:.1f}/s" if 0 < rate < 9.95 else f"{format_count(rate)}/s"


def render_seconds(seconds: float | None) -> str:
    """Return a duration, `?` for None."""
    if seconds is None:
        return UNKNOWN
    return "0s" if seconds <= 0 else format_duration(seconds)


def render_age(at: datetime | None, now: datetime) -> str:
    """Return the age of a time in whole seconds."""
    return UNKNOWN if at is None else render_seconds(round(max(0.0, (now - at).total_seconds())))
