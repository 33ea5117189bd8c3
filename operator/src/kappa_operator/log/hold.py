"""Holds the retention of topics while their log is read again, by an annotation of each Topic, and gives it back.

A hold ends if it is not renewed, so an operator that is gone or a Reprocessing that was deleted holds nothing for long. The
retention is by time and as long as the oldest record needs. What cannot be held is reported: a topic without a Topic resource, and a
limit of size.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from kappa_crds import API_VERSION
from kappa_crds.quantities import parse_duration
from kappa_operator.engine.actions import ApplyObject
from kappa_operator.log.facts import LogFacts, TopicFacts
from kappa_operator.topic.retention import Hold, name_hold, parse_hold

LEASE = timedelta(hours=2)
_HOUR = 3600.0
_MANAGER = "kappa-log-retention"
"""A field manager for each holder: an apply replaces all fields of its manager."""


@dataclass(frozen=True, slots=True)
class Holdable:
    """A Topic resource, and the text of the holder's annotation, "" for none."""

    name: str
    namespace: str
    uid: str
    held: str = ""


@dataclass(frozen=True, slots=True)
class Holds:
    """What holds the topics: actions to begin or renew holds, and what is not held, with the reason."""

    actions: tuple[ApplyObject, ...] = ()
    unheld: tuple[str, ...] = ()


def name_holder(reprocessing: str) -> str:
    """Return the holder of a Reprocessing."""
    return f"reprocessing.{reprocessing}"


def decide_holds(facts: LogFacts, resources: Mapping[str, Holdable], holder: str, now: datetime) -> Holds:
    """Return how the topics are held for the next two hours. `resources` are the Topics of the namespace by names in Kafka."""
    topics = {topic.topic: topic for source in facts.sources for topic in source.topics}
    actions: list[ApplyObject] = []
    unheld: list[str] = []
    for topic in topics.values():
        unheld += _list_limits(topic, resources)
        resource = resources.get(topic.topic)
        needed = find_needed(topic, now)
        if resource is None or needed is None:
            continue
        present = parse_hold(resource.held)
        if present is None or present.until - now < LEASE / 2 or parse_duration(present.retention) < needed:
            hold = Hold(f"{ceil(needed / _HOUR)}h", now.replace(microsecond=0) + LEASE)
            actions.append(_build(resource, holder, str(hold)))
    return Holds(tuple(actions), tuple(unheld))


def release_holds(resources: Iterable[Holdable], holder: str) -> tuple[ApplyObject, ...]:
    """Return the actions that end all holds of the holder."""
    return tuple(_build(resource, holder, "") for resource in resources if resource.held)


def find_needed(topic: TopicFacts, now: datetime) -> float | None:
    """Return the retention in seconds that the topic needs until the hold ends, None where nothing is removed by age.

    It is never shorter than the present one.
    """
    settings = topic.settings
    if settings is None or not settings.deletes or settings.retention is None:
        return None
    ages = [(now - each.first.time).total_seconds() for each in topic.partitions if each.first is not None]
    return max(settings.retention, max(ages, default=0.0) + 2 * LEASE.total_seconds())


def _list_limits(topic: TopicFacts, resources: Mapping[str, Holdable]) -> Iterator[str]:
    """Yield what may remove records although retention is held."""
    settings = topic.settings
    if settings is None:
        yield f"the configs of topic {topic.topic} cannot be read, so it is unknown whether its retention is held"
        return
    if not settings.deletes:
        return
    if settings.retention is not None and topic.topic not in resources:
        yield f"topic {topic.topic} has no Topic resource in the namespace, so its retention is not held; create one that adopts it"
    if settings.retention_bytes is not None:
        yield f"topic {topic.topic} is limited by size (retention.bytes), which is not held; remove the limit meanwhile"


def _build(resource: Holdable, holder: str, text: str) -> ApplyObject:
    """Return the write of the annotation. The uid keeps it from another Topic of that name."""
    metadata = {
        "name": resource.name, "namespace": resource.namespace, "uid": resource.uid,
        "annotations": {name_hold(holder): text},
    }  # fmt: skip
    manifest = {"apiVersion": API_VERSION, "kind": "Topic", "metadata": metadata}
    return ApplyObject(manifest, f"{_MANAGER}-{name_hold(holder).rpartition('/')[2]}")
