"""The rate of a snapshot by a `CDCSource`, as a share of that of a bare connector: both in turns, each in a new worker.

A turn takes from the request that creates the connector until a reader of committed records finds the last row.
"""

import json
import statistics
import time

from confluent_kafka import Consumer, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from bench.cdc_rig import BARE, PRODUCT, Side, run_connector
from lab.broker import Broker
from lab.postgres import Postgres

_DEADLINE = 600.0


class Tail:
    """The end of a topic with one partition, as a reader of committed records sees it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        settings = {"bootstrap.servers": bootstrap, "group.id": "tail", "isolation.level": "read_committed"}
        self._consumer = Consumer({**settings, "log_level": "0", "fetch.wait.max.ms": 50})
        self._partition = TopicPartition(topic, 0)

    def delete(self) -> None:
        """Delete the topic, and close the connection."""
        self._consumer.close()
        topic = self._partition.topic
        self._admin.delete_topics([topic])[topic].result(30)

    def find_end(self) -> int:
        """Return the offset behind the last committed record; 0 where there is no topic."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {self._partition: latest}
        found = self._admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED)
        try:
            return int(found[self._partition].result(5).offset)
        except Exception:
            return 0

    def has(self, rows: int) -> bool:
        """Return whether so many records are committed, markers of transactions included."""
        return self.find_end() >= rows

    def is_complete(self, rows: int) -> bool:
        """Return whether the last row of a snapshot is committed. Behind it is at most the marker of its transaction."""
        end = self.find_end()
        if end < rows:
            return False
        self._consumer.assign([TopicPartition(self._partition.topic, 0, end - 2)])
        messages = self._consumer.consume(2, timeout=1.0)
        return any(json.loads(each.value() or b"{}")["source"]["snapshot"] == "last" for each in messages)


def measure_turn(side: Side, broker: Broker, database: Postgres, rows: int, turn: int) -> float:
    """Return the seconds that a snapshot takes."""
    prefix = f"{side.name}{turn}"
    topic = f"{prefix}.public.orders"
    tail = Tail(broker.bootstrap, topic)
    with run_connector(side, broker, database, prefix):
        begin = time.monotonic()
        while not tail.is_complete(rows):
            if time.monotonic() - begin > _DEADLINE:
                raise SystemExit(f"{tail.find_end()} of {rows} rows after {_DEADLINE:.0f} s")
            time.sleep(0.1)
        took = time.monotonic() - begin
    tail.delete()
    return took


def compare(broker: Broker, database: Postgres, rows: int, rounds: int) -> dict[str, float]:
    """Return the rates in rows per second, and the ratio of the medians of the times."""
    times: dict[str, list[float]] = {BARE: [], PRODUCT: []}
    for turn in range(rounds):
        for name, found in times.items():
            found.append(measure_turn(Side(name), broker, database, rows, turn))
            print(f"snapshot {name}: {found[-1]:.1f} s", flush=True)
    bare, product = (statistics.median(found) for found in times.values())
    return {
        "snapshot_ratio": round(bare / product, 2),
        "snapshot_rows_per_s": round(rows / product),
        "bare_rows_per_s": round(rows / bare),
    }
