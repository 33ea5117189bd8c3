"""The progress of a pipeline as a Kafka consumer group, and the log ends of its topics.

Spark stores offsets in its checkpoint only, so Kafka's tools cannot show the lag of a query. Every few seconds this thread commits
offsets to the group `kappa.<namespace>.<pipeline>`: for each partition the lowest one of all queries that read it. Of several
drivers of a pipeline only the active one does. A driver never reads them. A failed commit is counted, and logged once until a commit succeeds; it never stops the job.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from kappa_crds.revision import Revision
from kappa_pipelines.checkpoint.format.offsets import Offsets
from kappa_pipelines.kafka.bounds import LogBounds
from kappa_pipelines.kafka.options import build_librdkafka_config
from kappa_pipelines.kafka.permissions import check_group
from kappa_pipelines.kafka.subscription import Subscription

_SAMPLE_SECONDS = 5.0
_TIMEOUT_SECONDS = 10.0
_FRESH_SECONDS = 3 * _SAMPLE_SECONDS

log = structlog.get_logger()


def lowest_offsets(positions: Iterable[Offsets]) -> Offsets:
    """Return the lowest offset of each partition over all queries."""
    lowest: Offsets = {}
    for offsets in positions:
        for at, offset in offsets.items():
            lowest[at] = min(offset, lowest.get(at, offset))
    return lowest


class KafkaProgress:
    """A thread that commits positions to the consumer group and samples the log ends, every five seconds."""

    def __init__(
        self,
        revision: Revision,
        subscriptions: tuple[Subscription, ...],
        positions: Callable[[], Iterable[Offsets]],
        is_committing: Callable[[], bool] = lambda: True,
    ) -> None:
        self.errors = 0
        self.ends: Offsets = {}
        config = build_librdkafka_config(revision.kafka)
        self._kafka = revision.kafka
        self._group = revision.consumer_group
        self._may_commit = False
        self._subscriptions = subscriptions
        self._positions = positions
        self._is_committing = is_committing
        self._committed: Offsets = {}
        self._failing = False
        self._sampled = -math.inf
        self._stopping = threading.Event()
        self._abandoned = False
        self._bounds = LogBounds(revision)
        self._consumer = Consumer(
            {**config, "group.id": self._group, "enable.auto.commit": False, "log_level": 0}
        )
        self._thread = threading.Thread(target=self._run, name="consumer-group", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def is_fresh(self) -> bool:
        """Return whether the last sample of log ends is recent."""
        return time.monotonic() - self._sampled < _FRESH_SECONDS

    def close(self, timeout: float = _TIMEOUT_SECONDS) -> None:
        """Commit the last positions and end."""
        self._stopping.set()
        self._thread.join(timeout)

    def abandon(self) -> None:
        """End without a commit: the positions may belong to another driver now."""
        self._abandoned = True
        self._stopping.set()

    def settled_ends(self, topics: Iterable[str]) -> Offsets | None:
        """Return the ends of topics that the pipeline writes; None while a transaction is open. Raises KafkaException."""
        return self._bounds.settled_ends(topics)

    def current_ends(self) -> Offsets:
        """Return the ends of the source topics at this moment; raises KafkaException."""
        return self._bounds.ends(self._subscriptions)

    def find_times(self, milliseconds: int) -> Offsets:
        """Return the first offset at or after a Unix time of each partition that has one; raises KafkaException."""
        return self._bounds.find_times(self._subscriptions, milliseconds)

    def first_offsets(self, subscription: Subscription) -> Offsets:
        """Return the first available offset of each partition; raises KafkaException."""
        return self._bounds.first([subscription])

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._attempt()
            self._stopping.wait(_SAMPLE_SECONDS)
        if not self._abandoned:
            self._attempt()
        self._consumer.close()

    def _attempt(self) -> None:
        try:
            began = time.monotonic()
            self.ends = self._bounds.ends(self._subscriptions)
            self._sampled = began
            self._commit()
        except Exception as error:  # the group is for reports only; the job continues
            self.errors += 1
            if not self._failing:
                log.warning(
                    "offsets could not be committed to the consumer group",
                    group=self._group,
                    error=str(error)[:300],
                )
            self._failing = True
            return
        self._failing = False

    def _commit(self) -> None:
        if not self._is_committing():
            self._committed = {}  # another driver of the pipeline may commit meanwhile
            return
        offsets = lowest_offsets(self._positions())
        changed = [
            TopicPartition(t, p, o) for (t, p), o in offsets.items() if self._committed.get((t, p)) != o
        ]
        if not changed:
            return
        if not self._may_commit:
            check_group(self._kafka, self._group)
            self._may_commit = True
        for result in self._consumer.commit(offsets=changed, asynchronous=False):
            if result.error is not None:
                raise KafkaException(result.error)
        self._committed = offsets
