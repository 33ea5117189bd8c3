"""Where a pipeline reads a topic that another pipeline writes: its version, and how it moved there (ADR 72)."""

from collections.abc import Mapping

from kappa_crds.model import Status


class TopicMove(Status):
    """One move of a reader from topic to topic: it has read `old` exactly up to `until`, and continues in `new` at `begin`."""

    old: str
    """Topic in Kafka that was read before."""
    new: str
    """Topic in Kafka that is read now."""
    until: dict[str, int]
    """The offset of each partition up to which it was read, exclusive."""
    begin: dict[str, int]
    """The next offset of each partition of the new topic."""
    reprocessing: str
    """Name of the Reprocessing with the cut."""


class InputTopic(Status):
    """The version of a topic that is read."""

    name: str
    """Name of the topic in the spec."""
    topic: str
    """Topic in Kafka."""
    move: TopicMove | None = None
    """How the state came to this topic; absent where it has read no other one."""


def name_read(topics: Mapping[str, str], inputs: tuple[InputTopic, ...]) -> dict[str, str]:
    """Return the topics in Kafka by their names in the spec, where those that are read have the versions of `inputs`."""
    return {**topics, **{each.name: each.topic for each in inputs if each.name in topics}}
