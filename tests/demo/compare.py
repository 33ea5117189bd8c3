"""Compares what the pipeline wrote with what it should have written, key by key and letter by letter.

Departures and maximum must be equal, means to 1e-9 of their size (sums of whole minutes are exact in both engines, the
division may differ in the last bit). The whole result topic is read, and the last value of each key counts. Every
malformed record must be among the dead letters, under its place in the log, with its own bytes and an error.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from demo.errors import DemoError
from demo.expected import Key, Row
from demo.loader import Malformed, Place

TOLERANCE = 1e-9
ERROR_HEADER = "kappa.error"
_QUIET_SECONDS = 30.0


@dataclass(frozen=True)
class Difference:
    """One thing that is not as it should be."""

    where: str
    what: str
    expected: object
    found: object


@dataclass(frozen=True)
class Letter:
    """A dead letter."""

    value: bytes
    error: str


@dataclass(frozen=True)
class Result:
    """The result topic: the last row of each key, and how many records it holds in all."""

    rows: Mapping[Key, Row]
    records: int


def read_topic(topic: str, bootstrap: str) -> Iterator[Message]:
    """Yield every record that the topic holds now, each partition in order; DemoError if Kafka stops answering."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "demo-reader",  # never committed: the reader has no position of its own
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 3,  # errors only
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=_QUIET_SECONDS).topics[topic].partitions
        if not partitions:
            raise DemoError(f"the topic {topic} is not there")
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        ends = {number: _find_end(consumer, topic, number) for number in partitions}
        open_partitions = {number for number, end in ends.items() if end}
        while open_partitions:
            message = consumer.poll(_QUIET_SECONDS)
            if message is None:
                raise DemoError(f"the topic {topic} cannot be read to its end: Kafka sent nothing for 30 s")
            error = message.error()
            if error is None:
                number, offset = message.partition() or 0, message.offset() or 0
                if offset < ends[number]:
                    yield message
                if offset >= ends[number] - 1:  # while others write, there may be no end of the partition
                    open_partitions.discard(number)
            elif error.name() == "_PARTITION_EOF":
                open_partitions.discard(message.partition() or 0)
            elif not error.retriable():
                raise KafkaException(error)
    finally:
        consumer.close()


def _find_end(consumer: Consumer, topic: str, number: int) -> int:
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_QUIET_SECONDS)
    return int(end)


def read_result(topic: str, bootstrap: str) -> Result:
    """Return the result topic as a table."""
    rows: dict[Key, Row] = {}
    records = 0
    for message in read_topic(topic, bootstrap):
        key, row = parse_row(message.key(), message.value())
        rows[key] = row
        records += 1
    return Result(rows, records)


def parse_row(key: bytes | None, value: bytes | None) -> tuple[Key, Row]:
    """Return a record of the result topic; DemoError where it has another form, or key and value disagree."""
    try:
        name, fields = json.loads(key or b""), json.loads(value or b"")
        found = _key(name)
        row = Row(fields["departures"], fields["mean_delay"], fields["max_delay"])
    except (ValueError, KeyError, TypeError) as error:
        raise DemoError(f"a result has an unknown form: key {key!r}, value {value!r}") from error
    if _key(fields) != found:
        raise DemoError(f"key and value of a result disagree: key {key!r}, value {value!r}")
    return found, row


def _key(fields: Any) -> Key:
    return Key(fields["origin"], datetime.fromisoformat(fields["hour"]))


def read_letters(topic: str, bootstrap: str) -> dict[str, Letter]:
    """Return the dead letters by their keys, `topic/partition/offset`."""
    return {
        (message.key() or b"").decode(): Letter(message.value() or b"", _error(message.headers()))
        for message in read_topic(topic, bootstrap)
    }


def _error(headers: Any) -> str:
    found = [value for name, value in headers or () if name == ERROR_HEADER]
    return (found[-1] or b"").decode() if found else ""


def compare_rows(expected: Mapping[Key, Row], found: Mapping[Key, Row]) -> list[Difference]:
    """Return every difference between two results: missing keys, extra keys, other values."""
    differences: list[Difference] = []
    for key in sorted(expected.keys() | found.keys()):
        if key not in found:
            differences.append(Difference(str(key), "missing", expected[key], None))
        elif key not in expected:
            differences.append(Difference(str(key), "not expected", None, found[key]))
        else:
            differences += _compare_row(str(key), expected[key], found[key])
    return differences


def _compare_row(where: str, expected: Row, found: Row) -> Iterator[Difference]:
    if expected.departures != found.departures:
        yield Difference(where, "departures", expected.departures, found.departures)
    if expected.max_delay != found.max_delay:
        yield Difference(where, "max_delay", expected.max_delay, found.max_delay)
    if not is_same_mean(expected.mean_delay, found.mean_delay):
        yield Difference(where, "mean_delay", expected.mean_delay, found.mean_delay)


def is_same_mean(one: float | None, other: float | None) -> bool:
    """Whether two means are equal to 1e-9 of their size; no mean equals only no mean."""
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=0.0)


def compare_letters(
    topic: str, malformed: Mapping[Place, Malformed], letters: Mapping[str, Letter]
) -> list[Difference]:
    """Return every malformed record without its dead letter, and every dead letter without a malformed record."""
    differences: list[Difference] = []
    wanted = {name_letter(topic, place): record for place, record in malformed.items()}
    for name, record in wanted.items():
        differences += _compare_letter(name, record, letters.get(name))
    for name in sorted(letters.keys() - wanted.keys()):
        differences.append(Difference(f"dead letter {name}", "not expected", None, letters[name]))
    return differences


def name_letter(topic: str, place: Place) -> str:
    """Return the key of the dead letter of a record."""
    partition, offset = place
    return f"{topic}/{partition}/{offset}"


def _compare_letter(name: str, record: Malformed, letter: Letter | None) -> Iterable[Difference]:
    where = f"dead letter {name} ({record.fault})"
    if letter is None:
        return [Difference(where, "missing", record.value, None)]
    differences = []
    if letter.value != (record.value or b""):
        differences.append(Difference(where, "value", record.value, letter.value))
    if not letter.error or record.fault.mention not in letter.error:
        differences.append(Difference(where, "error", record.fault.mention or "some text", letter.error))
    return differences
