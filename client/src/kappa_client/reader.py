"""The reader of an output.

A record may be delivered only if no cut before it can become known later. So the reader asks Kafka for the ends of its topic first, and
then for the alias. Records before those ends are before any cut that is recorded afterwards, because both drivers hold while a cut is
recorded. So new records are delivered after at most `interval` seconds, and the time to resolve the alias.

A cut that is recorded and not made yet is a bound as well: nothing after it is delivered until it is made, or withdrawn.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from kappa_client.alias import Alias, Move, Position, find_next_move
from kappa_client.errors import NoPathError, ReadBeyondCutError, ResolveError

Resolve = Callable[[], Alias]
"""Returns the present alias of an output; ResolveError where it cannot be read."""
_SECONDS = 30.0
_OWN = {"enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "error"}
"""A position whose records were deleted is an error: to read on from another one would lose records."""


class OutputReader:
    """Reads an output in all its topics, one after the other.

    `config` is that of a confluent-kafka Consumer; it reads committed records by default, and commits no offsets. `position` is a stored
    one. Without it, the present topic is read from its start. `interval` is in seconds. It is not safe for several threads.

    `rebuild` is for readers of tables: after a move the new topic is read from its start, because rows of the old version that were not
    updated since would remain. While `is_rebuilding`, serve the table of the old version.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        resolve: Resolve,
        *,
        position: Position | None = None,
        rebuild: bool = False,
        interval: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        consumer: Callable[[dict[str, Any]], Consumer] = Consumer,
    ) -> None:
        defaults = {"group.id": "kappa-client", "isolation.level": "read_committed"}
        self._consumer = consumer({**defaults, **config, **_OWN})
        self._resolve, self._interval, self._clock = resolve, interval, clock
        self._position, self._rebuild = position, rebuild
        self._rebuilt_at: Mapping[int, int] = {}
        self._bounds: dict[int, int] = {}
        """The offsets up to which records may be delivered."""
        self._read: dict[int, int] = {}
        """The offsets up to which Kafka has no more records to deliver: beyond the position where records have no rows."""
        self._waiting: dict[int, Message] = {}
        """The first record at or after the bound of a partition, which is paused then."""
        self._refresh_at = 0.0

    @property
    def position(self) -> Position:
        """Return the position after the last record that `poll` returned; store it when that is processed. ReaderError before any poll."""
        if self._position is None:
            raise ResolveError("the alias was not resolved yet; poll first")
        return self._position

    @property
    def is_rebuilding(self) -> bool:
        """Return whether the records up to the last cut are not read yet. It is not stored: start a table without a position."""
        return any(self._read.get(part, 0) < offset for part, offset in self._rebuilt_at.items())

    def poll(self, timeout: float) -> Message | None:
        """Return the next record, None after so many seconds without one.

        Raise ReaderError where it cannot continue exactly, and KafkaException for an error of Kafka that is not retryable.
        """
        deadline = self._clock() + timeout
        while True:
            if self._clock() >= self._refresh_at:
                self._refresh()
            found = self._take_waiting() or self._poll_kafka(min(deadline, self._refresh_at) - self._clock())
            if found is not None or self._clock() >= deadline:
                return found

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()

    def _poll_kafka(self, seconds: float) -> Message | None:
        message = self._consumer.poll(max(0.0, seconds))
        if message is None:
            return None
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF and partition is not None and offset is not None:
                self._read[partition] = max(self._read.get(partition, 0), offset)
            elif not error.retriable():
                raise KafkaException(error)
            return None
        if partition is None or offset is None:
            raise AssertionError("a record has a partition and an offset")
        self._read[partition] = max(self._read.get(partition, 0), offset)
        if offset >= self._bounds.get(partition, 0):
            self._waiting[partition] = message
            self._consumer.pause([TopicPartition(self.position.topic, partition)])
            return None
        return self._deliver(partition, offset, message)

    def _deliver(self, partition: int, offset: int, message: Message) -> Message:
        known = self.position
        self._read[partition] = max(self._read.get(partition, 0), offset + 1)
        self._position = Position(known.topic, {**known.offsets, partition: offset + 1}, known.moved)
        return message

    def _take_waiting(self) -> Message | None:
        for partition, message in self._waiting.items():
            offset = message.offset() or 0
            if offset < self._bounds.get(partition, 0):
                del self._waiting[partition]
                self._consumer.resume([TopicPartition(self.position.topic, partition)])
                return self._deliver(partition, offset, message)
        return None

    def _refresh(self) -> None:
        try:
            self._follow()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        self._refresh_at = self._clock() + self._interval

    def _follow(self) -> None:
        """Find out how far records may be delivered, and follow moves whose cut is reached."""
        if self._position is None:
            self._start(self._resolve())
        while True:
            ends = self._find_ends()
            alias = self._resolve()
            move = find_next_move(alias, self.position)
            self._check(alias, move)
            self._bounds = (
                ends
                if move is None
                else {part: min(end, move.until.get(part, 0)) for part, end in ends.items()}
            )
            is_made = move is not None and move is not alias.pending
            if move is None or not is_made or not self._is_read(ends, move):
                return
            self._rebuilt_at = move.begin if self._rebuild else {}
            self._assign(Position(move.new, {} if self._rebuild else dict(move.begin), move.at))

    def _start(self, alias: Alias) -> None:
        moved = alias.moves[-1].at if alias.moves else None
        self._assign(Position(alias.topic) if moved is None else Position(alias.topic, {}, moved))

    def _assign(self, position: Position) -> None:
        if self._position is not None and self._waiting:  # a partition stays paused when it is assigned again
            self._consumer.resume([TopicPartition(self._position.topic, part) for part in self._waiting])
        self._position, self._waiting, self._bounds = position, {}, {}
        self._read = dict.fromkeys(self._list_partitions(position.topic), 0)
        self._consumer.assign([self._begin_at(part) for part in self._read])

    def _begin_at(self, partition: int) -> TopicPartition:
        offset = self.position.offsets.get(partition, OFFSET_BEGINNING)
        self._read[partition] = max(0, offset)
        return TopicPartition(self.position.topic, partition, offset)

    def _check(self, alias: Alias, move: Move | None) -> None:
        """Raise where the position has no exact continuation."""
        position = self.position
        if move is None and alias.topic != position.topic:
            raise NoPathError(
                f"the output is in topic {alias.topic}, and no move leads there from {position.topic}"
            )
        if move is None:
            return
        if move.old != position.topic or not (move.until or move is alias.pending):
            raise NoPathError(
                f"readers moved from {move.old} to {move.new}, and {position.topic} has no end for that move"
            )
        beyond = {
            part: offset for part, offset in position.offsets.items() if offset > move.until.get(part, 0)
        }
        if beyond:
            raise ReadBeyondCutError(
                f"topic {position.topic} was read up to {beyond}, and its readers moved at {dict(move.until)}"
            )

    def _is_read(self, ends: Mapping[int, int], move: Move) -> bool:
        return all(self._read.get(part, 0) >= move.until.get(part, 0) for part in ends)

    def _find_ends(self) -> dict[int, int]:
        """Return the end of each partition; read those that were added as well."""
        topic = self.position.topic
        if not self._read:
            self._assign(self.position)
        added = [part for part in self._list_partitions(topic) if part not in self._read]
        if added:
            self._consumer.incremental_assign([self._begin_at(part) for part in added])
        return {part: self._find_end(topic, part) for part in self._read}

    def _find_end(self, topic: str, partition: int) -> int:
        bounds = self._consumer.get_watermark_offsets(
            TopicPartition(topic, partition), timeout=_SECONDS, cached=False
        )
        if bounds is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no end of {topic}/{partition}"))
        return bounds[1]

    def _list_partitions(self, topic: str) -> list[int]:
        found = self._consumer.list_topics(topic, timeout=_SECONDS).topics[topic]
        if found.error is not None:
            raise KafkaException(found.error)
        return sorted(found.partitions)
