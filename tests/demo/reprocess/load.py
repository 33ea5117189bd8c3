"""The live load: flights that go to the log at a steady rate while all the rest happens."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, Message, Producer

from demo.errors import DemoError
from demo.records import Record

_FLUSH_SECONDS = 60.0
_BURST = 20


@dataclass
class LiveLoad:
    """Writes records in their order to a topic, `rate` per second in a thread; what is left is written at once by `finish`."""

    records: Sequence[Record]
    first: int
    """Number of the first record in the log, which gives its partition."""
    topic: str
    partitions: int
    bootstrap: str
    rate: float
    written: int = 0
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "log_level": 3,
        }
        self._producer, self._ending = Producer(settings), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Start to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write nothing more."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(_FLUSH_SECONDS)

    def finish(self, left: int = 0) -> None:
        """Write all but the last records at once; DemoError if Kafka refuses some."""
        self.stop()
        while self.written < len(self.records) - left:
            self._write()
            if self.written % 1000 == 0:
                self._producer.flush(_FLUSH_SECONDS)
        if self._producer.flush(_FLUSH_SECONDS) or self.refused:
            raise DemoError(f"records were not written: {self.refused[:1] or 'no acknowledgement'}")

    def _run(self) -> None:
        reserve = len(self.records) // 10
        while self.written < len(self.records) - reserve and not self._ending.wait(_BURST / self.rate):
            for _ in range(_BURST):
                self._write()
        self._producer.flush(_FLUSH_SECONDS)

    def _write(self) -> None:
        place, record = self.first + self.written, self.records[self.written]
        self._producer.produce(
            self.topic, record.value, partition=place % self.partitions, on_delivery=self._note
        )
        self._producer.poll(0)
        self.written += 1

    def _note(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.refused.append(error.str())
