"""Writes the log to the topic, fast, with partitions kept in step.

Records have no key: which partition a record goes to is decided by its place in the log (see `records`), not by a
hash. The producer is idempotent, so retries neither reorder nor duplicate.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, Message, Producer

from demo.errors import DemoError
from demo.records import BARRIER, Fault, Log

_FLUSH_SECONDS = 60.0
_REPORT_EVERY = 25  # barriers

Place = tuple[int, int]  # partition, offset


@dataclass(frozen=True)
class Malformed:
    """A malformed record, where it was written."""

    value: bytes | None
    fault: Fault


@dataclass
class Loaded:
    """What was written: the malformed records by their place, the next offset of each partition, the time it took."""

    total: int = 0
    seconds: float = 0.0
    malformed: dict[Place, Malformed] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Return records a second."""
        return self.total / self.seconds if self.seconds else 0.0


def load(
    log: Log, topic: str, bootstrap: str, report: Callable[[int, float], None] = lambda done, rate: None
) -> Loaded:
    """Write all records and wait for every acknowledgement; DemoError if one is refused."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 2,
            "log_level": 3,  # errors only
            "compression.type": "lz4",
            "delivery.timeout.ms": int(_FLUSH_SECONDS * 1000),
        }
    )
    loaded, refused = Loaded(), list[str]()
    began = time.monotonic()
    for number, (partition, record) in enumerate(log, start=1):
        fault = record.fault
        if fault is None:
            note = _note(loaded, refused)
        else:
            note = _note(loaded, refused, Malformed(record.value, fault))
        producer.produce(topic, value=record.value, partition=partition, on_delivery=note)
        if number % BARRIER == 0:
            _flush(producer, refused)
            if number % (BARRIER * _REPORT_EVERY) == 0:
                report(number, number / (time.monotonic() - began))
    _flush(producer, refused)
    loaded.total, loaded.seconds = len(log), time.monotonic() - began
    return loaded


def _note(
    loaded: Loaded, refused: list[str], malformed: Malformed | None = None
) -> Callable[[KafkaError | None, Message], None]:
    def delivered(error: KafkaError | None, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        if error is not None or partition is None or offset is None:
            refused.append(str(error))
            return
        loaded.ends[partition] = max(offset + 1, loaded.ends.get(partition, 0))
        if malformed is not None:
            loaded.malformed[partition, offset] = malformed

    return delivered


def _flush(producer: Producer, refused: list[str]) -> None:
    left = producer.flush(_FLUSH_SECONDS)
    if left or refused:
        why = refused[0] if refused else f"no acknowledgement within {_FLUSH_SECONDS:.0f} s"
        raise DemoError(f"loading failed: {left + len(refused)} records were not written: {why}")
