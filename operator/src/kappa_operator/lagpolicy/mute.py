"""When a policy is mute: windows that begin by the clock of a time zone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from kappa_crds.lagpolicy import MuteWindow
from kappa_crds.quantities import parse_duration

_SOON = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Mute:
    """Until when it is mute, if it is, and which windows are invalid, as text."""

    until: datetime | None = None
    problems: tuple[str, ...] = ()


def find_mute(windows: Sequence[MuteWindow], now: datetime) -> Mute:
    """Return whether one of the windows is now."""
    ends: list[datetime] = []
    problems: list[str] = []
    for number, window in enumerate(windows):
        try:
            end = find_last_start(window, now) + timedelta(seconds=parse_duration(window.duration))
        except ZoneInfoNotFoundError:
            problems.append(
                f"spec.mute[{number}].timeZone {window.time_zone!r} is not known; write it as Europe/Berlin"
            )
        except CronSimError as error:
            problems.append(
                f"spec.mute[{number}].start {window.start!r} is not a valid cron expression: {error}"
            )
        else:
            ends += [end.astimezone(now.tzinfo)] if end > now else []
    return Mute(max(ends, default=None), tuple(problems))


def find_last_start(window: MuteWindow, now: datetime) -> datetime:
    """Return when the window began last; raise CronSimError for no time, ZoneInfoNotFoundError for no zone."""
    zone = ZoneInfo(window.time_zone)
    try:
        return next(CronSim(window.start, now.replace(microsecond=0).astimezone(zone) + _SOON, reverse=True))
    except StopIteration:
        raise CronSimError("there is no such day") from None
