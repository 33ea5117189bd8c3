"""The writers of a sink that writes exactly once: their names in Kafka and their number.

Rows are distributed by their key, so a repeated batch gives each writer the same rows, whatever sources, splits or executors it
has. Rows without a key have one writer, because their distribution would not be deterministic.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from kappa_crds.permissions import name_sink_group
from kappa_crds.revision import Revision
from kappa_crds.sink import Delivery, Sink

TRANSACTION_SECONDS = 600
"""Maximum duration of a transaction. Brokers allow 15 minutes (transaction.max.timeout.ms). It starts after the rows of the batch are
computed, so it contains only writing. The open transaction of a dead writer blocks readers no longer than this."""
MAX_WRITERS = 256
"""Maximum number of writers of a sink; their numbers are keys of commit markers."""


@dataclass(frozen=True)
class Publisher:
    """The writers of one sink in one generation of drivers. Tasks receive it, so it contains no secret.

    `group` is the consumer group with the commit markers, `checkpoint` the name of the checkpoint's folder, `definition` a hash of
    everything that determines the rows. With `is_in_doubt`, the next batch repeats one that was written in part.
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
        """Return the transactional.id of a writer; it is the same in each generation."""
        return f"{self.group}.{number}"

    def name_incarnation(self, query: str) -> str:
        """Return the name of a checkpoint incarnation. A restored checkpoint has another folder, a new one another query."""
        return f"{self.checkpoint}/{query}"


Publishers = Mapping[str, Publisher]
"""By the name of their sink."""


def build_publishers(
    revision: Revision, generation: int, partitions: Mapping[str, int]
) -> dict[str, Publisher]:
    """Return the publishers of all sinks that write exactly once; `partitions` are the numbers of partitions of topics."""
    found = {}
    for sink in revision.spec.sinks:
        if sink.target.delivery is Delivery.EXACTLY_ONCE:
            topic = revision.topics.get(sink.target.topic, sink.target.topic)
            found[sink.name] = Publisher(
                sink=sink.name,
                topic=topic,
                group=name_sink_group(revision.consumer_group, revision.uid, sink.name, revision.outputs),
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
    """Return the number of writers of a sink: one per core, at most one per partition, because markers use partition numbers."""
    return 1 if sink.target.key is None else max(1, min(tasks, partitions, MAX_WRITERS))
