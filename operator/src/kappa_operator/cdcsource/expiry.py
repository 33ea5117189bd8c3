"""Whether the server of MySQL or MariaDB keeps its binary log for long enough: it removes files by age, whatever the connector has read."""

from datetime import datetime

from kappa_crds.cdcsource import BINLOG_SAFE
from kappa_crds.cdcsource_status import BinlogStatus
from kappa_crds.conditions import Condition, find_condition
from kappa_crds.quantities import format_duration
from kappa_crds.reasons import Reason
from kappa_operator.cdcsource.model import CDCSourceObserved, build_condition
from kappa_operator.engine.actions import EmitEvent

_WARN_SECONDS, _PART = 12 * 3600, 0.5
"""A warning comes so long before files are removed, or when a part of the time that they are kept is left."""


def judge_expiry(
    observed: CDCSourceObserved, binlog: BinlogStatus | None, now: datetime
) -> tuple[tuple[Condition, ...], tuple[EmitEvent, ...]]:
    """Return the condition and Events after a check; nothing where it is not known what was stored."""
    if binlog is None or binlog.stored_until is None:
        return (), ()
    reason, message = explain_expiry(binlog, binlog.stored_until, now)
    condition = build_condition(
        observed, BINLOG_SAFE, "True" if reason is Reason.BINLOG_SAFE else "False", (reason, message), now
    )
    known = find_condition(observed.resource.status.conditions, BINLOG_SAFE)
    is_news = reason is Reason.BINLOG_EXPIRING and (known is None or known.reason != reason)
    return (condition,), (EmitEvent(reason, message, True),) if is_news else ()


def explain_expiry(binlog: BinlogStatus, stored: datetime, now: datetime) -> tuple[Reason, str]:
    """Return whether the server keeps its log for long enough after the time up to which changes were stored."""
    kept, behind = binlog.retention_seconds, (now - stored).total_seconds()
    if kept is None:
        return Reason.BINLOG_SAFE, "the server removes no file of the binary log by age"
    if kept - behind > min(_WARN_SECONDS, _PART * kept):
        return Reason.BINLOG_SAFE, f"the server keeps files of the binary log for {format_duration(kept)}"
    left = f"in {format_duration(kept - behind)}" if kept > behind else "at any moment"
    return Reason.BINLOG_EXPIRING, (
        f"changes after {stored:%Y-%m-%d %H:%M:%S} UTC were not stored yet, and the server keeps files of the binary log for"
        f" {format_duration(kept)}: it may remove them {left}"
    )
