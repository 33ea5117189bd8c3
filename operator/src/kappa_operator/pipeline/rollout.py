"""How many pipelines are changed at the same time: a new release changes all of them, and each needs room for two drivers meanwhile.

The slots are fair: a namespace whose changes do not end leaves some for the others. The status of a pipeline shows whether it is being
changed. A slot that was taken is remembered until the status shows that, as pipelines are reconciled concurrently.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from kappa_crds.pipeline_status import AT_WORK, UpgradePhase
from kappa_operator.engine.keys import Key

_REMEMBERED = timedelta(seconds=30)
_STALE = timedelta(minutes=15)
_IN_PROGRESS = frozenset(
    phase.value for phase in (*AT_WORK, UpgradePhase.WATCHING, UpgradePhase.ROLLING_BACK)
)
"""A change that a Reprocessing makes holds no slot: it takes hours, and only one that a person began."""
Upgrades = Iterable[tuple[Key, Mapping[str, Any]]]
"""`status.upgrade` of each pipeline."""


def is_in_progress(upgrade: Mapping[str, Any], now: datetime) -> bool:
    """Return whether a change is in progress. One whose phase has lasted for 15 minutes does not hold up others."""
    since = _read_since(upgrade)
    return upgrade.get("phase") in _IN_PROGRESS and since is not None and now - since < _STALE


def _read_since(upgrade: Mapping[str, Any]) -> datetime | None:
    since = upgrade.get("since")
    return None if since is None else datetime.fromisoformat(since)


class RolloutLimiter:
    """The slots that were taken and are not in a status yet."""

    def __init__(self) -> None:
        self._taken: dict[Key, datetime] = {}

    def has_slot(self, pipeline: Key, upgrades: Upgrades, most: int, now: datetime) -> bool:
        """Return whether a change of the pipeline may start beside those of others, at most `most` at the same time.

        A namespace may hold no more slots than are free: half of them where it is the only one.
        """
        known = dict(upgrades)
        changing = {key for key, upgrade in known.items() if is_in_progress(upgrade, now)}
        pending = {key for key in self._taken if self._is_pending(key, known.get(key, {}), now)}
        others = (changing | pending) - {pipeline}
        own = sum(key.namespace == pipeline.namespace for key in others)
        return own < most - len(others)

    def try_acquire(self, pipeline: Key, upgrades: Upgrades, most: int, now: datetime) -> bool:
        """Take a slot for the pipeline; return False where there is none."""
        known = dict(upgrades)
        if not self.has_slot(pipeline, known.items(), most, now):
            return False
        self._taken = {
            key: at for key, at in self._taken.items() if self._is_pending(key, known.get(key, {}), now)
        }
        self._taken[pipeline] = now
        return True

    def _is_pending(self, key: Key, upgrade: Mapping[str, Any], now: datetime) -> bool:
        """Return whether a slot was taken a moment ago, and the status does not show its change yet."""
        at, since = self._taken[key], _read_since(upgrade)
        is_shown = since is not None and since >= at.replace(microsecond=0)
        return now - at < _REMEMBERED and not is_shown
