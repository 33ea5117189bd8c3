"""Records at a rate, and a consumer group that can be slowed down: what lag is made of."""

import contextlib
import json
import threading
import time
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, Producer

_STEP = 0.1
_FLUSH_SECONDS = 60


class _Running:
    """A context with a thread that runs within it."""

    def __init__(self, name: str) -> None:
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join(_FLUSH_SECONDS)

    def _run(self) -> None:
        raise NotImplementedError


class Traffic(_Running):
    """Writes `rate` records a second to a topic, evenly over its partitions; the rate may be changed at any time.

    `throttled` says how many times the broker has made it wait.
    """

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, rate: float = 0.0, client_id: str = "traffic"
    ) -> None:
        super().__init__("traffic")
        self.rate, self.sent, self.throttled = rate, 0, 0
        self._topic, self._partitions = topic, partitions
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap, "client.id": client_id, "linger.ms": 50, "log_level": 0, "throttle_cb": self._note,
        }  # fmt: skip
        self._producer = Producer(settings)

    @property
    def waiting(self) -> int:
        """Return how many records the broker has not taken yet."""
        return len(self._producer)

    def _run(self) -> None:
        owed, last = 0.0, time.monotonic()
        while not self._ending.wait(_STEP):
            now = time.monotonic()
            owed, last = owed + self.rate * (now - last), now
            for _ in range(int(owed)):
                self._send()
            owed %= 1
            self._producer.poll(0)
        self._producer.flush(_FLUSH_SECONDS)

    def _note(self, event: Any) -> None:
        self.throttled += event.throttle_time > 0

    def _send(self) -> None:
        row = {"seq": self.sent, "ts": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        self._producer.produce(self._topic, json.dumps(row), partition=self.sent % self._partitions)
        self.sent += 1


class Reader(_Running):
    """A consumer group of one member. It takes what there is, or `rate` records a second where that is set, and commits what it took.

    `reset` is where a group without offsets begins: at the `earliest` record it is behind at first, at the `latest` it never was.
    """

    def __init__(self, bootstrap: str, group: str, topic: str, reset: str = "earliest") -> None:
        super().__init__("reader")
        self.rate: float | None = None
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": reset,
            "enable.auto.commit": False, "log_level": 0,
        }  # fmt: skip
        self._consumer = Consumer(settings)
        self._consumer.subscribe([topic])

    def _run(self) -> None:
        while not self._ending.is_set():
            rate = self.rate
            found = self._consumer.consume(2000 if rate is None else 1, 0.2)
            if any(message.error() is None for message in found):
                with contextlib.suppress(
                    KafkaException
                ):  # the broker is away; the next one says the same and more
                    self._consumer.commit(asynchronous=False)
            if rate is not None:
                self._ending.wait(1 / rate)
        self._consumer.close()
