"""Held retentions: longer than a topic's spec declares, for a time. Each holder has an annotation of its own on the Topic.

A hold ends at its time, so a holder may stop or be deleted: the topic then returns to its spec. While several hold, the longest
retention counts, and the end of one leaves the others.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import ceil

from kappa_crds.quantities import parse_duration
from kappa_crds.topic import FORMER_HOLD, HOLD_PREFIX, Retention
from kappa_operator.archive.model import ArchiveObserved, find_needed
from kappa_operator.topic.checks import TopicResource
from kappa_operator.topic.configs import parse_cleanup

_LONGEST_NAME = 63
"""Characters in the name of an annotation, after its prefix."""
_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class Hold:
    """A retention as a spec writes it, and until when it is held."""

    retention: str
    until: datetime

    def __str__(self) -> str:
        return f"{self.retention} until {self.until.strftime(_FORMAT)}"


def parse_hold(text: str) -> Hold | None:
    """Return the hold of an annotation, None where it cannot be read."""
    retention, _, until = text.partition(" until ")
    try:
        parse_duration(retention)
        return Hold(retention, datetime.strptime(until, "%Y-%m-%dT%H:%M:%S%z"))
    except ValueError:
        return None


def name_hold(holder: str) -> str:
    """Return the annotation of a holder; a name that is too long for one gets a hash."""
    if len(holder) > _LONGEST_NAME:
        holder = f"{holder[: _LONGEST_NAME - 9]}-{hashlib.sha256(holder.encode()).hexdigest()[:8]}"
    return f"{HOLD_PREFIX}{holder}"


def is_hold(annotation: str) -> bool:
    """Return whether an annotation is one of a holder."""
    return annotation == FORMER_HOLD or annotation.startswith(HOLD_PREFIX)


def find_holds(annotations: Mapping[str, str]) -> dict[str, Hold]:
    """Return the holds in annotations, by annotation."""
    found = {name: parse_hold(text) for name, text in annotations.items() if is_hold(name)}
    return {name: hold for name, hold in found.items() if hold is not None}


def hold_retention(resource: TopicResource, now: datetime) -> TopicResource:
    """Return the topic with the longest retention that is held now, if it is longer than the one that its spec declares.

    A spec that declares none leaves it to the broker; the holder has taken care that it holds no shorter one.
    """
    declared = resource.spec.retention or Retention()
    holds = find_holds(resource.metadata.annotations).values()
    held = [hold.retention for hold in holds if hold.until > now]
    if not held or "delete" not in parse_cleanup(resource.spec.cleanup):
        return resource
    known = held if declared.time is None else [declared.time, *held]
    return _retain(resource, max(known, key=parse_duration))


def hold_for_archive(
    resource: TopicResource, archive: ArchiveObserved | None, now: datetime
) -> TopicResource:
    """Return the topic with the retention that it needs for what is not archived, if that is longer."""
    time = (resource.spec.retention or Retention()).time
    if archive is None or archive.retention is None or resource.spec.archive is None or time is None:
        return resource
    needed = find_needed(resource.status.archive, archive.retention, now)
    return _retain(resource, f"{ceil(needed)}s") if needed > parse_duration(time) else resource


def _retain(resource: TopicResource, time: str) -> TopicResource:
    declared = resource.spec.retention or Retention()
    return resource.replace(spec=resource.spec.replace(retention=declared.replace(time=time)))
