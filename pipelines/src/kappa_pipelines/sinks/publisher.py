"""Who writes the rows of a sink exactly once: names in Kafka, the number of writers, the settings of their clients.

Rows are spread over the writers by their key, so a repeated batch gives each writer the rows that it had before, whatever was
changed of sources, splits or executors meanwhile. What has no key is written by one writer, as no other place of a row is sure.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from kappa_crds.revision import KafkaConnection, Revision
from kappa_crds.sink import Delivery, Sink

TRANSACTION_SECONDS = 600
"""How long a transaction may last. Brokers allow 15 minutes (transaction.max.timeout.ms). It begins when all rows of the batch are
computed, so it holds nothing but writing; and what a dead writer has left open holds up readers no longer than this."""
MOST_WRITERS = 64
"""Of one sink."""


@dataclass(frozen=True)
class Publisher:
    """A generation of drivers as what writes one sink. It is handed to tasks, so it holds no secret.

    `group` is the consumer group in which Kafka keeps the marks; `checkpoint` the name of the checkpoint's folder; `definition` a hash
    of all that makes the rows. `is_in_doubt` says that the next batch repeats one that was written in part.
    """

    sink: str
    topic: str
    group: str
    generation: int
    checkpoint: str
    writers: int
    definition: str
    is_in_doubt: bool = False

    def name_writer(self, number: int) -> str:
        """Return the transactional.id of a writer, the same in each generation."""
        return f"{self.group}.{number}"

    def name_incarnation(self, query: str) -> str:
        """Return the name of a life of the checkpoint: a restored one has another folder, a new one another query."""
        return f"{self.checkpoint}/{query}"


Publishers = Mapping[str, Publisher]
"""By the name of their sink."""


def build_publishers(
    revision: Revision, generation: int, partitions: Mapping[str, int]
) -> dict[str, Publisher]:
    """Return the publishers of all sinks that write exactly once; `partitions` are those of each topic in Kafka."""
    found = {}
    for sink in revision.spec.sinks:
        if sink.delivery is Delivery.EXACTLY_ONCE:
            topic = revision.topics.get(sink.topic, sink.topic)
            found[sink.name] = Publisher(
                sink=sink.name,
                topic=topic,
                group=f"{revision.consumer_group}.{revision.uid}.{sink.name}",
                generation=generation,
                checkpoint=revision.checkpoint.rstrip("/").rsplit("/", 1)[-1],
                writers=count_writers(sink, revision.tuning.shuffle_partitions, partitions.get(topic, 1)),
                definition=_hash_definition(revision, sink),
            )
    return found


def _hash_definition(revision: Revision, sink: Sink) -> str:
    parts = (*revision.spec.sources, *revision.spec.views, sink)
    texts = [part.model_dump_json(by_alias=True, exclude_defaults=True) for part in parts]
    return hashlib.sha256(json.dumps([texts, revision.modules], sort_keys=True).encode()).hexdigest()[:16]


def count_writers(sink: Sink, tasks: int, partitions: int) -> int:
    """Return how many writers a sink is to have: one a core, but no more than the topic has partitions, whose numbers name their marks."""
    return 1 if sink.key is None else max(1, min(tasks, partitions, MOST_WRITERS))


@dataclass(frozen=True)
class Connection:
    """How a task reaches Kafka: where the secrets are, and the settings of its client."""

    kafka: KafkaConnection
    producer: dict[str, str]
