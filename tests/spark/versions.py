"""A shop whose orders are written all the time, and versions of a pipeline that read them: drivers with outputs of their own."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Message, Producer

from kappa_crds.progress import (
    DriverState,
    HoldPhase,
    InputVector,
    TopicOffsets,
)
from spark.processes import DriverProcess
from spark.revisions import build_revision, source
from spark.topics import Topics

START = datetime(2026, 1, 1, tzinfo=UTC)
TIMED: dict[str, Any] = {"eventTime": {"column": "ts", "watermark": "1h"}}
COLUMNS = "k BIGINT, n BIGINT, ts TIMESTAMP"
ORDERS = source("orders", COLUMNS, **TIMED)
PAYMENTS = source("payments", COLUMNS, eventTime={**TIMED["eventTime"], "idleAfter": "1m"})
HOURLY = {"name": "hourly", "window": {"from": "orders", "tumbling": "1h", "aggregates": {"n": "count(*)"}}}
PAID = {
    "name": "paid",
    "sql": "SELECT o.n, p.n AS payment FROM orders o LEFT JOIN payments p"
    " ON o.k = p.k AND p.ts BETWEEN o.ts AND o.ts + INTERVAL 10 MINUTES",
}  # fmt: skip


SINKS = {"all": "orders", "hourly": "hourly", "paid": "paid"}


class Shop:
    """Orders, a minute after each other in event time, and a payment for each third; they are written all the time."""

    def __init__(self, topics: Topics, bootstrap: str) -> None:
        self.topics, self.bootstrap = topics, bootstrap
        self.inputs = {name: topics.make(name, partitions=2) for name in ("orders", "payments")}
        self.count = 0
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})

    def write(self, count: int) -> None:
        for number in range(self.count, self.count + count):
            moment = START + timedelta(minutes=number)
            value = json.dumps({"k": number % 50, "n": number, "ts": moment.isoformat()})
            self._producer.produce(self.inputs["orders"], value, partition=number % 2)
            if number % 3 == 0:
                self._producer.produce(self.inputs["payments"], value, partition=number // 3 % 2)
        self._producer.flush()
        self.count += count

    @contextmanager
    def open(self) -> Iterator[None]:
        closed = threading.Event()

        def work() -> None:
            while not closed.wait(0.1):
                self.write(10)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            closed.set()
            thread.join()

    def read_orders(self, cut: InputVector) -> list[int]:
        """The orders before a cut."""
        topic = self.inputs["orders"]
        messages = self.topics.read(topic)
        return sorted(value(each)["n"] for each in messages if is_before(each, cut.offsets[topic]))


class HeldDriver:
    """A driver in a process of its own that holds and advances on request."""

    driver: DriverProcess

    def hold(self) -> InputVector:
        """Hold, and return where."""
        self.driver.wait_for("it runs", lambda p: p.state is DriverState.RUNNING)
        assert self.driver.post("/hold?seconds=60") == 202
        held = self.driver.wait_for("it holds", lambda p: p.hold and p.hold.phase is HoldPhase.HOLDING).hold
        assert held is not None
        return held.position

    def ask(self, cut: InputVector) -> None:
        assert self.driver.post("/advance", cut.model_dump_json(by_alias=True)) == 202

    def reach(self, cut: InputVector) -> TopicOffsets:
        """Return the ends of the outputs at a cut that was asked for."""
        held = self.driver.wait_for("it is there", lambda p: p.hold and p.hold.has_reached(cut)).hold
        assert held is not None
        return held.outputs


class Version(HeldDriver):
    """A driver with outputs of its own over the topics of a shop."""

    def __init__(self, shop: Shop, start: Any, folder: Path, number: int, limit: int) -> None:
        self.shop = shop
        self.outputs = {name: shop.topics.make(f"{name}-{number}", partitions=2) for name in SINKS}
        exact = {"key": ["k"], "delivery": "ExactlyOnce"}
        spec = {
            "sources": [ORDERS, PAYMENTS],
            "views": [HOURLY, PAID],
            "sinks": [
                {"name": name, "from": view, "kafka": {"topic": name, **(exact if name == "all" else {})}}
                for name, view in SINKS.items()
            ],
            "trigger": {"maxRecords": limit},
        }
        topics = {**shop.inputs, **self.outputs}
        checkpoint = folder / f"checkpoint-{number}"
        self.revision = build_revision(
            spec, f"file://{checkpoint}", shop.bootstrap, topics=topics, outputs=number
        )
        self.driver = start(self.revision, number + 1)

    def rows(self, name: str, ends: TopicOffsets | None = None) -> list[Any]:
        topic = self.outputs[name]
        messages = self.shop.topics.read_committed(topic)
        return [value(each) for each in messages if ends is None or is_before(each, ends[topic])]

    def expect_all(self) -> None:
        """All orders and payments are in the outputs, each once, after the driver has stopped."""
        # A lag of zero is that to the ends of the log as the driver knew them.
        self.driver.wait_for("all rows", lambda p: p.state is DriverState.RUNNING and self._has_all())
        assert self.driver.post("/stop") == 202
        assert self.driver.wait().graceful
        every = sorted(row["n"] for row in self.rows("all"))
        assert every == list(range(self.shop.count))
        assert list_hours(self.rows("hourly")) == count_hours(every, closed=True)
        inner = {pair: n for pair, n in list_pairs(self).items() if pair[1] is not None}
        assert set(inner.values()) == {1}
        assert len(inner) == len(range(0, self.shop.count, 3))

    def _has_all(self) -> bool:
        closed = count_hours(list(range(self.shop.count)), closed=True)
        return (
            len(self.rows("all")) >= self.shop.count
            and list_hours(self.rows("hourly")).total() >= closed.total()
            and sum(pair[1] is not None for pair in list_pairs(self)) >= len(range(0, self.shop.count, 3))
        )


def is_before(message: Message, ends: dict[int, int]) -> bool:
    offset, partition = message.offset(), message.partition()
    assert offset is not None
    assert partition is not None
    return offset < ends[partition]


def value(message: Message) -> Any:
    return json.loads(message.value() or b"")


def count_hours(orders: list[int], *, closed: bool) -> Counter[int]:
    """Orders by hour; with `closed` of those hours only whose end the watermark has reached."""
    hours = Counter(number // 60 for number in orders)
    watermark = max(orders) - 60
    return Counter({hour: n for hour, n in hours.items() if not closed or (hour + 1) * 60 <= watermark})


def list_hours(rows: list[Any]) -> Counter[int]:
    found: Counter[int] = Counter()
    for row in rows:
        start = datetime.fromisoformat(row["window_start"])
        found[int((start - START).total_seconds()) // 3600] += row["n"]
    return found


def expect_batch(version: Version, orders: list[int], ends: TopicOffsets) -> None:
    """The outputs up to these ends are what a batch over these orders gives."""
    assert sorted(row["n"] for row in version.rows("all", ends)) == orders
    assert list_hours(version.rows("hourly", ends)) == count_hours(orders, closed=True)


def list_pairs(version: Version, ends: TopicOffsets | None = None) -> Counter[tuple[int, int | None]]:
    return Counter((row["n"], row["payment"]) for row in version.rows("paid", ends))
