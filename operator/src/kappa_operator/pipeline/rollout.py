"""Whose turn it is to be changed: an upgrade of the operator changes all pipelines, and each wants room for two drivers meanwhile.

Who is changing stands in the pipelines' status. A turn that was given is remembered until it stands there, as many are looked at side by side.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from kappa_crds.pipeline_status import AT_WORK, UpgradePhase
from kappa_operator.engine.keys import Key

_REMEMBERED = timedelta(seconds=30)
_STILL = timedelta(minutes=15)
_UNDER_WAY = frozenset(phase.value for phase in (*AT_WORK, UpgradePhase.WATCHING, UpgradePhase.ROLLING_BACK))


def is_under_way(upgrade: Mapping[str, Any], now: datetime) -> bool:
    """Return whether a `status.upgrade` is of a change that has moved within a quarter of an hour: one that stands still holds up no other."""
    since = upgrade.get("since")
    return (
        upgrade.get("phase") in _UNDER_WAY
        and since is not None
        and now - datetime.fromisoformat(since) < _STILL
    )


class RolloutLimiter:
    """The turns that were given and cannot be seen yet."""

    def __init__(self) -> None:
        self._given: dict[Key, datetime] = {}

    def try_acquire(
        self, pipeline: Key, upgrades: Iterable[tuple[Key, Mapping[str, Any]]], most: int, now: datetime
    ) -> bool:
        """Return whether a change of the pipeline may begin beside those of others, no more than `most` at the same time."""
        changing = {key for key, upgrade in upgrades if key != pipeline and is_under_way(upgrade, now)}
        self._given = {
            key: at
            for key, at in self._given.items()
            if key not in changing and key != pipeline and now - at < _REMEMBERED
        }
        if len(self._given) + len(changing) >= most:
            return False
        self._given[pipeline] = now
        return True
