"""What a pipeline needs in a Kafka with ACLs. The driver checks it before it starts, and the operator grants it to a user of the pipeline."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.sink import Delivery, Sink
from kappa_crds.source import Source


class KafkaResource(StrEnum):
    """Kinds of Kafka's resources, as its tools spell them."""

    TOPIC = "Topic"
    GROUP = "Group"
    TRANSACTIONAL_ID = "TransactionalId"


class Operation(StrEnum):
    """Operations, as Kafka's tools spell them. Read and Write on a topic include Describe."""

    READ = "Read"
    WRITE = "Write"
    DESCRIBE_CONFIGS = "DescribeConfigs"


@dataclass(frozen=True, slots=True)
class Permission:
    """An operation on a resource, or with `is_prefix` on all whose names begin so, and the part of the manifest that needs it.

    A driver works without one that is `optional`.
    """

    kind: KafkaResource
    name: str
    operation: Operation
    is_prefix: bool = False
    role: str = field(default="", compare=False)
    optional: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.operation.name} on topic {self.name!r} ({self.role})"


@dataclass(frozen=True, slots=True)
class Subject:
    """The pipeline that needs permissions: its spec, the name in Kafka of each topic in it, its consumer group, its uid, the version of its outputs."""

    spec: PipelineSpec
    topics: Mapping[str, str]
    group: str
    uid: str
    outputs: int = 0

    def find(self, topic: str) -> str:
        """Return the name in Kafka of a topic in the spec."""
        return self.topics.get(topic, topic)


def name_consumer_group(namespace: str, pipeline: str) -> str:
    """Return the group that carries a pipeline's progress for Kafka's own tools."""
    return f"kappa.{namespace}.{pipeline}"


def name_version(outputs: int) -> str:
    """Return what the topics of a version of the outputs end with: nothing for 0, those of the spec."""
    return f".r{outputs}" if outputs else ""


def name_sink_group(group: str, uid: str, sink: str, outputs: int = 0) -> str:
    """Return the group of a sink's commit markers, with which its transactional ids begin, followed by a dot.

    Two runs of a pipeline that write different versions of its outputs do not fence each other. No name of a sink has a dot.
    """
    return f"{group}.{uid}.{sink}{name_version(outputs)}"


def list_permissions(subject: Subject) -> list[Permission]:
    """Return the permissions that a pipeline needs."""
    spec, topic = subject.spec, KafkaResource.TOPIC
    return [
        *(each for source in spec.sources for each in _read_source(subject, source)),
        *(Permission(topic, subject.find(name), Operation.WRITE, role=role) for role, name in spec.written),
        *(each for sink in spec.sinks if _is_exact(sink) for each in _write_exactly(subject, sink)),
        *(
            Permission(topic, subject.find(name), Operation.DESCRIBE_CONFIGS, role=role, optional=True)
            for role, name in _list_measured(spec)
        ),
        Permission(KafkaResource.GROUP, subject.group, Operation.READ, role="progress", optional=True),
    ]


def _read_source(subject: Subject, source: Source) -> Iterator[Permission]:
    role = f"source {source.name!r}"
    for name in source.read_names:
        yield Permission(KafkaResource.TOPIC, subject.find(name), Operation.READ, role=role)
    if source.topic_pattern is not None:
        prefix = find_prefix(source.topic_pattern)
        yield Permission(KafkaResource.TOPIC, prefix, Operation.READ, is_prefix=True, role=role)


def _is_exact(sink: Sink) -> bool:
    return sink.target.delivery is Delivery.EXACTLY_ONCE


def _write_exactly(subject: Subject, sink: Sink) -> Iterator[Permission]:
    role = f"sink {sink.name!r}, delivery ExactlyOnce"
    group = name_sink_group(subject.group, subject.uid, sink.name, subject.outputs)
    yield Permission(KafkaResource.TOPIC, subject.find(sink.target.topic), Operation.READ, role=role)
    yield Permission(KafkaResource.GROUP, group, Operation.READ, role=role)
    yield Permission(KafkaResource.TRANSACTIONAL_ID, f"{group}.", Operation.WRITE, is_prefix=True, role=role)


def _list_measured(spec: PipelineSpec) -> Iterator[tuple[str, str]]:
    """Yield the topics whose maximum record size a driver reads."""
    yield from ((f"sink {sink.name!r}", sink.target.topic) for sink in spec.sinks)
    if spec.dead_letter is not None:
        yield "deadLetter", spec.dead_letter


_TEXT = re.compile(r"(?:[A-Za-z0-9_-]|\[\.\])*")


def find_prefix(pattern: str) -> str:
    """Return the text that all topics of a pattern begin with; empty where it cannot be seen, as with alternatives outside of brackets.

    A dot is any sign, and `[.]` is a dot.
    """
    depth = 0
    for sign in pattern:
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "|" and depth <= 0:
            return ""
    found = _TEXT.match(pattern)
    text = found[0] if found else ""
    whole = text.replace("[.]", ".")
    return whole[:-1] if pattern[len(text) : len(text) + 1] in ("*", "?", "+") and text else whole
