"""First offsets and log ends of partitions, requested from Kafka."""

from collections.abc import Iterable, Iterator

from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import OffsetSpec

from kappa_crds.revision import Revision
from kappa_pipelines.checkpoint.format.offsets import Offsets, TopicPartition
from kappa_pipelines.kafka.options import connect_admin
from kappa_pipelines.kafka.subscription import Subscription

_TIMEOUT_SECONDS = 10.0


class LogBounds:
    """First offsets and log ends of the partitions of subscriptions. Every method raises KafkaException."""

    def __init__(self, revision: Revision) -> None:
        self._admin = connect_admin(revision.kafka)
        committed = all(source.is_committed for source in revision.spec.sources)
        self._isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

    def first(self, subscriptions: Iterable[Subscription]) -> Offsets:
        """Return the first available offset of each partition."""
        return self._list(subscriptions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def ends(self, subscriptions: Iterable[Subscription]) -> Offsets:
        """Return the end of each partition; with committed reads, the start of its first open transaction."""
        return self._list(subscriptions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def find_times(self, subscriptions: Iterable[Subscription], milliseconds: int) -> Offsets:
        """Return the first offset at or after a Unix time of each partition; partitions without such a record are left out."""
        found = self._list(subscriptions, OffsetSpec.for_timestamp(milliseconds))
        return {at: offset for at, offset in found.items() if offset >= 0}

    def committed_ends(self, topics: Iterable[str]) -> Offsets:
        """Return the end of each partition of topics for committed reads."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self._list([Subscription(tuple(topics))], latest, IsolationLevel.READ_COMMITTED)

    def settled_ends(self, topics: Iterable[str]) -> Offsets | None:
        """Return the end of each partition of topics, with all transactions before it decided; None while one is open.

        Kafka answers to a commit before all partitions have its marker, which takes an offset as well. Until then the end for readers of
        committed records is before the records of the transaction, and the other end is behind them.
        """
        every = [Subscription((topic,)) for topic in topics]
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        committed = self._list(every, latest, IsolationLevel.READ_COMMITTED)
        ends = self._list(every, latest, IsolationLevel.READ_UNCOMMITTED)
        return ends if ends == committed else None

    def _list(
        self,
        subscriptions: Iterable[Subscription],
        spec: OffsetSpec,
        isolation: IsolationLevel | None = None,
    ) -> Offsets:
        partitions = {found for each in subscriptions for found in self._list_partitions(each)}
        wanted = {KafkaPartition(topic, part): spec for topic, part in partitions}
        if not wanted:
            return {}
        futures = self._admin.list_offsets(
            wanted, isolation_level=isolation or self._isolation, request_timeout=_TIMEOUT_SECONDS
        )
        return {(at.topic, at.partition): future.result().offset for at, future in futures.items()}

    def _list_partitions(self, subscription: Subscription) -> Iterator[TopicPartition]:
        """Yield the partitions of a subscription from Kafka's present metadata: their number may grow."""
        if subscription.pattern is None:
            names = subscription.topics
            found = [self._admin.list_topics(name, timeout=_TIMEOUT_SECONDS).topics[name] for name in names]
        else:
            every = self._admin.list_topics(timeout=_TIMEOUT_SECONDS).topics
            found = [topic for name, topic in every.items() if subscription.covers(name)]
        for topic in found:
            if topic.error is not None:
                raise KafkaException(topic.error)
            yield from ((str(topic.topic), part) for part in topic.partitions)
