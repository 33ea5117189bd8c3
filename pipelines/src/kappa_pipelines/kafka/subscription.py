"""Which topics a source reads, by their names in Kafka: some that are named, or all that fit a pattern."""

import re
from dataclasses import dataclass

from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_crds.source import Source
from kappa_pipelines.errors import SpecError


@dataclass(frozen=True)
class Subscription:
    """Topics by name, or a pattern that a topic's whole name fits; topics that fit and come later are read too."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None

    def __str__(self) -> str:
        return self.pattern or ", ".join(self.topics)

    @property
    def options(self) -> dict[str, str]:
        """Return the options of Spark's Kafka source."""
        if self.pattern is not None:
            return {"subscribePattern": self._whole_pattern}
        return {"subscribe": ",".join(self.topics)}

    @property
    def _whole_pattern(self) -> str:
        """Return the pattern for Spark, which takes topics of whose name a part fits."""
        return f"^({self.pattern})$"

    @property
    def description(self) -> str:
        """Return the text by which Spark's progress names the source; it has no other name there."""
        if self.pattern is not None:
            return f"KafkaV2[SubscribePattern[{self._whole_pattern}]]"
        return f"KafkaV2[Subscribe[{', '.join(self.topics)}]]"

    def covers(self, topic: str) -> bool:
        """Return whether a topic is read."""
        return topic in self.topics or (self.pattern is not None and bool(re.fullmatch(self.pattern, topic)))


def build_subscription(revision: Revision, source: Source) -> Subscription:
    """Return what a source reads, with topics by their names in Kafka; SpecError where its pattern is none."""
    try:
        re.compile(source.topic_pattern or "")
    except re.error as error:
        raise SpecError(
            Reason.INVALID_SPEC,
            f"source {source.name!r}: topicPattern {source.topic_pattern} is no regular expression: {error}",
        ) from error
    return Subscription(
        tuple(revision.topics.get(name, name) for name in source.topic_names), source.topic_pattern
    )
