"""In how many seconds a committed offset falls off its log.

A log loses records in three ways. By age: `retention.ms` after its largest timestamp a segment may go, with all that is in it, so a record
is safe until its own timestamp is that old; its segment may let it live longer, and where segments end nobody says. By size
(`retention.bytes`) and by hand (DeleteRecords): where neither age nor anything else explains how the log's start moves, it is taken to go on
as it went. What comes first counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from kappa_operator.lag.samples import Removal
from kappa_operator.topic.configs import CLEANUP, RETENTION_SIZE, RETENTION_TIME, parse_cleanup

STAMPS = "message.timestamp.type"
_YOUNG = 0.8
"""A log whose oldest record has reached less than this part of the retention was not shortened for its age."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How a topic's records go. `time` is in seconds; None for never, and `known` is false where the configs could not be read."""

    known: bool = False
    deletes: bool = True
    compacts: bool = False
    time: float | None = None
    by_size: bool = False
    by_append: bool = False

    @classmethod
    def parse(cls, configs: Mapping[str, str]) -> Self:
        """Return what the configs of a topic say."""
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
    """Return the seconds until the record at the offset may be gone, never below 0.0; None where nothing removes it or nobody knows.

    `age` is how old the record is, `removal` how the log's start moves, `oldest` how old the first record of the log is.
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
    """Return whether age alone accounts for what has gone."""
    if retention.time is None or retention.by_size:
        return False
    return oldest is not None and oldest >= _YOUNG * retention.time
