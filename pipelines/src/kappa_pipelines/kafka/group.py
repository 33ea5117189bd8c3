"""The pipeline's progress as an ordinary consumer group, and the ends of its topics.

Spark keeps offsets in its checkpoint and commits none to Kafka, so tools that show lag are blind to it. After each
batch the offsets go to the group `kappa.<namespace>.<pipeline>` too: for each partition the lowest over all queries
that read it. They are for reading only; a driver never starts from them. A commit that fails is counted and logged
once until one succeeds again; it never stops the job.
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
    """Return, for each partition, the lowest of the offsets that queries have reached."""
    lowest: Offsets = {}
    for offsets in positions:
        for place, offset in offsets.items():
            lowest[place] = min(offset, lowest.get(place, offset))
    return lowest


class KafkaProgress:
    """A thread that commits positions to the consumer group and samples the ends of the topics."""

    def __init__(
        self,
        revision: Revision,
        subscriptions: tuple[Subscription, ...],
        positions: Callable[[], Iterable[Offsets]],
    ) -> None:
        self.errors = 0
        self.ends: Offsets = {}
        config = build_librdkafka_config(revision.kafka)
        self._kafka = revision.kafka
        self._group = revision.consumer_group
        self._may_commit = False
        self._subscriptions = subscriptions
        self._positions = positions
        self._committed: Offsets = {}
        self._failing = False
        self._sampled = -math.inf
        self._changed = threading.Event()
        self._ending = False
        self._abandoned = False
        self._bounds = LogBounds(revision)
        self._consumer = Consumer(
            {**config, "group.id": self._group, "enable.auto.commit": False, "log_level": 0}
        )
        self._thread = threading.Thread(target=self._run, name="consumer-group", daemon=True)

    def start(self) -> None:
        """Begin to commit and sample."""
        self._thread.start()

    def notify(self) -> None:
        """Commit soon: a batch was committed."""
        self._changed.set()

    @property
    def is_fresh(self) -> bool:
        """Return whether the known ends of the topics are those of some seconds ago."""
        return time.monotonic() - self._sampled < _FRESH_SECONDS

    def close(self, timeout: float = _TIMEOUT_SECONDS) -> None:
        """Commit what is left and end."""
        self._ending = True
        self._changed.set()
        self._thread.join(timeout)

    def abandon(self) -> None:
        """End without a further commit: the positions may be another driver's by now."""
        self._ending = self._abandoned = True
        self._changed.set()

    def first_offsets(self, subscription: Subscription) -> Offsets:
        """Return the first offset that each partition still has; raises KafkaException."""
        return self._bounds.first([subscription])

    def _run(self) -> None:
        while not self._ending:
            self._attempt()
            self._changed.wait(_SAMPLE_SECONDS)
            self._changed.clear()
        if not self._abandoned:
            self._attempt()
        self._consumer.close()

    def _attempt(self) -> None:
        try:
            began = time.monotonic()
            self.ends = self._bounds.ends(self._subscriptions)
            self._sampled = began
            self._commit()
        except Exception as error:  # lag is only for looking at; the job goes on
            self.errors += 1
            if not self._failing:
                log.warning("the consumer group is behind", group=self._group, error=str(error)[:300])
            self._failing = True
            return
        self._failing = False

    def _commit(self) -> None:
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
