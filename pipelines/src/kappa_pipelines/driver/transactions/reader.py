"""A thread that reads the changes and ends of transactions of a driver's sources, ahead of its queries.

It reads the records that the queries read, and keeps only where transactions begin and end. An error of Kafka is logged, and reading
continues; any other one ends the thread, and `find_cut` raises it.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from kappa_pipelines.checkpoint.format.offsets import Offsets, TopicPartition
from kappa_pipelines.driver.transactions.events import parse_change, parse_end
from kappa_pipelines.driver.transactions.ledger import Ledger

_MOST_RECORDS, _FEWEST_RECORDS = 2000, 20  # in one call
_POLL_SECONDS = 0.05
_SAMPLE_SECONDS = 1.0
_TIMEOUT_SECONDS = 10.0
_MARGIN_MILLISECONDS = 600_000
"""How long before the first change that is read its transaction may have ended, by the time of the record: clocks are set."""

log = structlog.get_logger()


@dataclass(frozen=True)
class ReaderContext:
    """What a reader needs. `topics` are the topics with changes by that of their transactions, and `limit` is how many offsets a cut may take, unless a transaction has more.

    `config` is librdkafka's. `find_ends` returns the ends of topics for committed reads, and `find_first` the first offsets of partitions
    that came later; both raise KafkaException.
    """

    topics: Mapping[str, tuple[str, ...]]
    max_wait: float
    limit: int
    config: Mapping[str, str]
    find_ends: Callable[[Iterable[str]], Offsets]
    find_first: Callable[[Iterable[str]], Offsets]
    clock: Callable[[], float] = time.monotonic


class TransactionReader:
    """Reads from given offsets on. `find_cut` and `release` may be called from any thread."""

    def __init__(self, context: ReaderContext, offsets: Offsets) -> None:
        self._context = context
        self._ledger = Ledger(context.topics, context.max_wait)
        self._offsets = dict(offsets)
        self._unread = set(offsets)  # partitions of which nothing is known yet
        self._first_time: int | None = None
        self._begun: set[TopicPartition] = set()
        self._sampled = float("-inf")
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="transactions", daemon=True)
        self._thread.start()

    @property
    def divided(self) -> int:
        """Return the number of transactions that were not read as a whole."""
        return self._ledger.divided

    def find_cut(self) -> Offsets | None:
        """Return the next cut; None if there is none after the last one yet. Raises the error that ended the thread."""
        if self._failure is not None:
            raise self._failure
        with self._lock:
            if not self._knows_ends:
                return None
            divided = self._ledger.divided
            cut = self._ledger.find_cut()
            if self._ledger.divided > divided:
                log.warning(
                    "changes of a transaction appear apart: its end is missing",
                    transactions=self._ledger.divided - divided,
                    max_wait=self._context.max_wait,
                )
            return cut if cut != self._ledger.cut else None

    def release(self, cut: Offsets) -> None:
        """Forget what is before a cut; the reader reads on."""
        with self._lock:
            self._ledger.release(cut)

    def close(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join(_TIMEOUT_SECONDS)

    @property
    def _knows_ends(self) -> bool:
        return all(any(at[0] == topic for at in self._begun) for topic in self._context.topics)

    def _run(self) -> None:
        consumer = Consumer(
            {
                **self._context.config,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        try:
            self._begin(consumer, self._offsets)
            while not self._stopping.is_set():
                self._attempt(consumer)
        except Exception as error:
            log.exception("the reader of transactions has failed")
            self._failure = error
        finally:
            consumer.close()

    def _attempt(self, consumer: Consumer) -> None:
        try:
            self._sample(consumer)
            room = self._find_room()
            if room == 0:
                self._stopping.wait(_POLL_SECONDS)
                return
            messages = consumer.consume(room, _POLL_SECONDS)
            with self._lock:
                for message in messages:
                    self._take(message)
        except KafkaException as error:
            log.warning("transactions cannot be read", error=str(error)[:300])
            self._stopping.wait(1.0)

    def _find_room(self) -> int:
        """Return how many records to read before the next cut. A transaction that is larger than the limit is read to its end."""
        with self._lock:
            ledger, limit = self._ledger, self._context.limit
            is_full = ledger.pending >= limit
            if is_full and self._knows_ends and ledger.find_cut() != ledger.cut:
                return 0
            return min(_MOST_RECORDS, max(_FEWEST_RECORDS, limit - ledger.pending))

    def _begin(self, consumer: Consumer, offsets: Offsets) -> None:
        with self._lock:
            for at, offset in offsets.items():
                self._ledger.begin(at, offset)
        self._begun |= set(offsets)
        consumer.incremental_assign([KafkaPartition(*at, offset) for at, offset in offsets.items()])

    def _sample(self, consumer: Consumer) -> None:
        """Sample the ends once per second, and begin partitions that are new."""
        now = self._context.clock()
        if now < self._sampled + _SAMPLE_SECONDS:
            return
        ends = self._context.find_ends([*self._context.topics, *self._list_read()])
        self._sampled = now
        new = {at for at in ends if at not in self._begun and at[0] not in self._context.topics}
        if new:
            first = self._context.find_first({topic for topic, _ in new})
            self._begin(consumer, {at: first[at] for at in new})
        self._begin_transactions(consumer, ends)
        with self._lock:
            self._ledger.sample(ends, now)

    def _list_read(self) -> list[str]:
        return [topic for each in self._context.topics.values() for topic in each]

    def _begin_transactions(self, consumer: Consumer, ends: Offsets) -> None:
        """Begin the topics of transactions where the first change may have ended, as soon as that is known; at the end if nothing is left to read."""
        new = [at for at in ends if at not in self._begun and at[0] in self._context.topics]
        if not new or self._unread:
            return
        if self._first_time is None:
            self._begin(consumer, {at: ends[at] for at in new})
            return
        time = max(0, self._first_time - _MARGIN_MILLISECONDS)
        found = consumer.offsets_for_times([KafkaPartition(*at, time) for at in new], _TIMEOUT_SECONDS)
        for each in found:
            if each.error is not None:
                raise KafkaException(each.error)
        at_time = {(each.topic, each.partition): each.offset for each in found}
        self._begin(consumer, {at: at_time[at] if at_time[at] >= 0 else ends[at] for at in new})

    def _take(self, message: Message) -> None:
        error, offset = message.error(), message.offset()
        topic, part = message.topic(), message.partition()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        if topic is None or part is None or offset is None:
            return
        at = topic, part
        self._unread.discard(at)
        if error is not None:
            self._ledger.pass_by(at, offset)
            return
        time, now = message.timestamp()[1], self._context.clock()
        if topic in self._context.topics:
            end = parse_end(message.value())
            if end is not None:
                self._ledger.add_end(at, offset, time, end, now)
                return
        else:
            if self._first_time is None or time < self._first_time:
                self._first_time = time
            change = parse_change(message.value())
            if change is not None:
                self._ledger.add_change(at, offset, time, change, now)
                return
        self._ledger.pass_by(at, offset + 1, time)
