"""Forecasts in how many seconds retention removes the record at a committed offset.

A log loses records in three ways. By age: a segment may be removed `retention.ms` after its largest timestamp, so a record is safe until its
own timestamp is that old; its segment may keep it longer, and the ends of segments are unknown. By size (`retention.bytes`) and by request
(DeleteRecords): where age does not explain how the log's start moves, the forecast assumes that it continues at the same rate. The earliest
time counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from kappa_operator.lag.log_history import Removal
from kappa_operator.topic.configs import CLEANUP, RETENTION_SIZE, RETENTION_TIME, parse_cleanup

STAMPS = "message.timestamp.type"
_YOUNG = 0.8
"""Where the oldest record is younger than this part of the retention, age did not shorten the log."""


@dataclass(frozen=True, slots=True)
class Retention:
    """The retention of a topic. `time` is in seconds, None for unlimited; `known` is false where the configs could not be read."""

    known: bool = False
    deletes: bool = True
    compacts: bool = False
    time: float | None = None
    by_size: bool = False
    by_append: bool = False

    @classmethod
    def parse(cls, configs: Mapping[str, str]) -> Self:
        """Return the retention from the configs of a topic."""
        policies = parse_cleanup(configs.get(CLEANUP, "delete"))
        time, size = int(configs.get(RETENTION_TIME, -1)), int(configs.get(RETENTION_SIZE, -1))
        return cls(
            known=True,
            deletes="delete" in policies,
            compacts="compact" in policies,
            time=time / 1000 if time >= 0 else None,
            by_size=size >= 0,
            by_append=configs.get(STAMPS) == "LogAppendTime",
        )


UNKNOWN = Retention()


def forecast_loss(
    offset: int,
    age: float | None,
    retention: Retention,
    removal: Removal | None = None,
    oldest: float | None = None,
) -> float | None:
    """Return the seconds until the record at the offset may be removed, never below 0.0; None for never or unknown.

    `age` is the age of the record, `removal` the movement of the log's start, `oldest` the age of the first record of the log.
    """
    if not retention.deletes:
        return None
    bounds = []
    if retention.time is not None and age is not None:
        bounds.append(retention.time - age)
    if removal is not None and not _explains(retention, oldest):
        bounds.append((offset + 1 - removal.start) / removal.rate - removal.ago)
    return max(0.0, min(bounds)) if bounds else None


def _explains(retention: Retention, oldest: float | None) -> bool:
    """Return whether age alone explains the removed records."""
    if retention.time is None or retention.by_size:
        return False
    return oldest is not None and oldest >= _YOUNG * retention.time
