"""A producer that numbers its records, and a reader that proves from every single result that none is missing.

Record number i of a key carries `seq` i, and a key's records are in one partition, in order. Whatever part of them a
pipeline has counted, `count(*)` must be `max(seq)` and `sum(seq)` must be n(n+1)/2. A lost record makes the count
smaller, one that was counted twice makes it or the sum larger, and both together still change the sum. So each
record of the result topic is checked, not only the last.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from spark.protobuf_values import build_schema, write_message

_KEYS = tuple(f"k{number}" for number in range(12))
_PAUSE = 0.1
_POLL_SECONDS = 0.5
_FLUSH_SECONDS = 60


SCHEMA = """syntax = "proto3";
package ledger;
message Event {
  string k = 1;
  int64 seq = 2;
}"""


def encode_json(key: str, seq: int) -> bytes:
    """Return a record as JSON."""
    return json.dumps({"k": key, "seq": seq}).encode()


def encode_protobuf(key: str, seq: int) -> bytes:
    """Return a record as a message of `SCHEMA`."""
    return write_message(_EVENT, {"k": key, "seq": seq})


_EVENT = build_schema(SCHEMA, "ledger.Event")


class NotExactError(AssertionError):
    """A result that no undisturbed run could have: records are missing in it, or counted twice."""


class Ledger:
    """Writes some 120 records a second to `source`, and reads `result`; to be used as a context.

    `pause` is how many seconds pass between records of one key. `results` counts what was read, and `repeated` what of it said
    nothing new: each batch has one row for each key, so another row with as many records of the key, or fewer, is one that was written again.
    """

    def __init__(
        self,
        bootstrap: str,
        source: str,
        result: str,
        encode: Callable[[str, int], bytes] = encode_json,
        pause: float = _PAUSE,
    ) -> None:
        self._encode, self._pause = encode, pause
        self.bootstrap, self.source, self.result = bootstrap, source, result
        self.written: dict[str, int] = dict.fromkeys(_KEYS, 0)
        self.counted: dict[str, int] = {}
        self.results = self.repeated = 0
        self._sent = dict(self.written)
        self._ending = threading.Event()
        self._running = threading.Event()
        self._sending = threading.Lock()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "ledger",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)

    def __enter__(self) -> Self:
        partitions = AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(self.result, timeout=20)
        found = partitions.topics[self.result].partitions
        self._consumer.assign([TopicPartition(self.result, number, 0) for number in found])
        self._running.set()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._running.set()
        self._thread.join(20)
        self._consumer.close()

    def pause(self) -> None:
        """Write nothing for now; all that was written is confirmed when this returns."""
        self._running.clear()
        with self._sending:
            assert self._producer.flush(_FLUSH_SECONDS) == 0, "Kafka confirms nothing"

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write on until the context ends."""
        self._running.set()
        try:
            yield
        finally:
            self.pause()

    @property
    def total(self) -> int:
        """Return how many records Kafka has confirmed."""
        return sum(self.written.values())

    def catch_up(self, seconds: float = 240) -> None:
        """Read results until all that is written now is in them; NotExactError if one is wrong or they do not come."""
        wanted = dict(self.written)
        deadline = time.monotonic() + seconds
        while behind := {key: seq for key, seq in wanted.items() if self.counted.get(key, 0) < seq}:
            if time.monotonic() > deadline:
                have = {key: self.counted.get(key, 0) for key in behind}
                raise NotExactError(f"not counted after {seconds:.0f} s: {behind}; the results have {have}")
            self.read()

    def read(self) -> None:
        """Read and check the results that are there."""
        for message in self._consumer.consume(2000, _POLL_SECONDS):
            error = message.error()
            assert error is None, error
            self._check(json.loads(message.value() or b"{}"))

    def _check(self, row: dict[str, Any]) -> None:
        self.results += 1
        count, last, total = row["n"], row["last"], row["total"]
        if count != last or total != last * (last + 1) // 2:
            raise NotExactError(
                f"key {row['k']}: {count} records with numbers up to {last} and a sum of {total}"
                f" instead of {last * (last + 1) // 2}"
            )
        known = self.counted.get(row["k"], 0)
        self.repeated += last <= known
        self.counted[row["k"]] = max(last, known)

    def _run(self) -> None:
        while self._running.wait() and not self._ending.is_set():
            with self._sending:
                for key in _KEYS if self._running.is_set() else ():
                    self._send(key)
                self._producer.poll(0)
            time.sleep(self._pause)
        self._producer.flush(_FLUSH_SECONDS)

    def _send(self, key: str) -> None:
        self._sent[key] += 1
        seq = self._sent[key]
        self._producer.produce(
            self.source, self._encode(key, seq), key, on_delivery=partial(self._note, key, seq)
        )

    def _note(self, key: str, seq: int, error: object, _: Message) -> None:
        assert error is None, error
        self.written[key] = seq
