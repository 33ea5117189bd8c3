"""The readers: one of the stream and one of the table, which poll all the time and follow the cut by the client."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from confluent_kafka import KafkaException, Message

from demo.reprocess.expected import Flight, Hour, Row, read_flight, read_hour
from kappa_client import Alias, OutputReader, ReaderError

_INTERVAL, _POLL = 2.0, 0.5


class PollingReader:
    """Polls an output in a thread. `errors` has every error; none is expected."""

    def __init__(
        self,
        bootstrap: str,
        resolve: Callable[[], Alias],
        take: Callable[[Message, OutputReader], None],
        **options: Any,
    ) -> None:
        self.errors: list[str] = []
        self.count, self._read_at = 0, time.monotonic()
        config = {"bootstrap.servers": bootstrap, "log_level": 3}
        self._reader = OutputReader(config, resolve, interval=_INTERVAL, **options)
        self._take, self._ending = take, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def quiet(self) -> float:
        """Return the seconds since the last record."""
        return time.monotonic() - self._read_at

    def end(self) -> None:
        """Stop it; again has no effect."""
        if self._ending.is_set():
            return
        self._ending.set()
        self._thread.join(60)
        self._reader.close()

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                message = self._reader.poll(_POLL)
            except (ReaderError, KafkaException) as error:
                self.errors.append(f"{type(error).__name__}: {error}")
                self._ending.wait(_POLL)
                continue
            if message is not None:
                self.count, self._read_at = self.count + 1, time.monotonic()
                self._take(message, self._reader)


@dataclass
class Departures:
    """All that the reader of the stream has seen: topic, flight and local time, in order."""

    seen: list[tuple[str, Flight, str]] = field(default_factory=list)

    def take(self, message: Message, _reader: OutputReader) -> None:
        """Note a record."""
        flight, local = read_flight(json.loads(message.value() or b""))
        self.seen.append((message.topic() or "", flight, local))

    def list_topics(self) -> list[str]:
        """Return the topics in the order in which they were read."""
        return [topic for topic, _ in groupby(topic for topic, _, _ in self.seen)]


@dataclass
class Hours:
    """The table that an application serves: replaced as a whole when readers move, and updated in between."""

    served: dict[Hour, Row] = field(default_factory=dict)
    served_from: str = ""
    _next: dict[Hour, Row] = field(default_factory=dict)
    _next_from: str = ""

    def take(self, message: Message, reader: OutputReader) -> None:
        """Update the table that is served, or build the next one."""
        topic = message.topic() or ""
        if topic != self._next_from:
            self._next, self._next_from = {}, topic
        hour, row = read_hour(json.loads(message.value() or b""))
        self._next[hour] = row
        if not reader.is_rebuilding:
            self.served, self.served_from = self._next, topic
