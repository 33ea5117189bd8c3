"""A retention that is held: longer than in a topic's spec, for a time, by an annotation of the Topic.

The annotation has an end, so its author may be deleted: the topic returns to its spec at the next reconcile after that.
"""

from dataclasses import dataclass
from datetime import datetime

from kappa_crds.quantities import parse_duration
from kappa_crds.topic import HOLD_ANNOTATION
from kappa_operator.topic.checks import TopicResource

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


def hold_retention(resource: TopicResource, now: datetime) -> TopicResource:
    """Return the topic with the retention that is held, where that is longer than the one that its spec declares."""
    hold, declared = (
        parse_hold(resource.metadata.annotations.get(HOLD_ANNOTATION, "")),
        resource.spec.retention,
    )
    if hold is None or hold.until <= now or declared is None or declared.time is None:
        return resource
    if parse_duration(hold.retention) <= parse_duration(declared.time):
        return resource
    return resource.replace(spec=resource.spec.replace(retention=declared.replace(time=hold.retention)))
