"""Which status of a running pipeline is worth a write: 1,000 drivers report every few seconds, and each write is an event for all watches."""

import re
from datetime import datetime, timedelta

from kappa_crds.conditions import Condition
from kappa_crds.pipeline_status import PipelineStatus

FIGURES_INTERVAL = timedelta(seconds=30)
"""Time between two writes that bring only figures up to date."""
_FIGURES = (
    "measured_at", "batch", "records", "late", "late_records", "dead_lettered", "lag_records", "lag", "rate", "watermark", "sources",
    "recovery",
)  # fmt: skip
_FIGURE = re.compile(r"\d[\d.,:]*[kMGT]?")


def keep_news(before: PipelineStatus, after: PipelineStatus, now: datetime) -> PipelineStatus | None:
    """Return the status where it is worth a write now: at once where more than figures changed, else once per interval.

    The figures in messages of conditions count as figures: reason, status and the other words of a message do not.
    """
    if before.measured_at is None or now - before.measured_at >= FIGURES_INTERVAL:
        return after if after.replace(measured_at=before.measured_at) != before else None
    known = {name: getattr(before, name) for name in _FIGURES}
    same = after.replace(**known, conditions=before.conditions)
    return after if same != before or _strip(before.conditions) != _strip(after.conditions) else None


def _strip(conditions: tuple[Condition, ...]) -> dict[str, tuple[str, str, str, int | None]]:
    """Return what conditions report without its figures, by type."""
    return {
        each.type: (each.status, each.reason, _FIGURE.sub("#", each.message), each.observed_generation)
        for each in conditions
    }
