"""The topics that a pipeline writes."""

from dataclasses import dataclass, field

from kappa_crds.revision import Revision
from kappa_pipelines.kafka.limits import Limits, Target, fetch_limits
from kappa_pipelines.sinks.publisher import Publishers


@dataclass(frozen=True)
class Targets:
    """The topics that a revision writes. A topic with unknown limits has Kafka's defaults.

    `publishers` belong to the sinks that write exactly once.
    """

    revision: Revision
    limits: dict[str, Limits] = field(default_factory=dict)
    publishers: Publishers = field(default_factory=dict)

    def find(self, name: str) -> Target:
        """Return the topic with this name in the spec."""
        topic = self.revision.topics.get(name, name)
        return Target(topic, self.limits.get(topic, Limits()))

    @property
    def dead(self) -> Target | None:
        """Return the dead-letter topic, if there is one."""
        name = self.revision.spec.dead_letter
        return None if name is None else self.find(name)


def fetch_targets(revision: Revision) -> Targets:
    """Return the topics that a revision writes, with their limits."""
    topics = [revision.topics.get(name, name) for _, name in revision.spec.written]
    return Targets(revision, fetch_limits(revision.kafka, topics))
