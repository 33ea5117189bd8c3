"""A driver that replays a log whose partitions have other times at the same offsets, on real Spark and Kafka."""

import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kappa_crds.progress import DriverRole, HoldPhase, Progress
from kappa_crds.replay import ReplayProfile
from lab.broker import Broker
from spark.revisions import build_revision, source
from spark.topics import Topics

START = datetime(2026, 1, 1, tzinfo=UTC)
RECORDS, HOURS, MOST = 4000, 200, 300
TIMED: dict[str, Any] = {"eventTime": {"column": "ts", "watermark": "30m"}}
HOURLY = {"name": "hourly", "window": {"from": "orders", "tumbling": "1h", "aggregates": {"n": "count(*)"}}}


def list_moments(rng: random.Random) -> list[tuple[int, datetime]]:
    """Partition and time of each record: partition 0 has all the time, partition 1 its last tenth, partition 2 two bursts."""
    ranges = {0: ((0.0, 1.0),), 1: ((0.9, 1.0),), 2: ((0.1, 0.11), (0.6, 0.62))}
    found = []
    for number in range(RECORDS):
        part = number % 3
        low, high = rng.choice(ranges[part])
        found.append((part, START + timedelta(hours=HOURS * rng.uniform(low, high))))
    return sorted(found, key=lambda each: each[1])


def write(bootstrap: str, topic: str, moments: list[tuple[int, datetime]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for part, moment in moments:
        value = json.dumps({"k": part, "v": 1.0, "ts": moment.isoformat()})
        producer.produce(topic, value, partition=part, timestamp=int(moment.timestamp() * 1000))
        producer.poll(0)
    assert producer.flush(30) == 0


def count_hours(moments: list[tuple[int, datetime]]) -> Counter[str]:
    return Counter(moment.strftime("%Y-%m-%dT%H:00") for _, moment in moments)


def read_hours(topics: Topics, topic: str) -> Counter[str]:
    """The last count of each window."""
    found: Counter[str] = Counter()
    for message in topics.read(topic):
        row = json.loads(message.value() or b"")
        found[row["window_start"][:16]] = row["n"]
    return found


@pytest.mark.chaos  # half a minute
def test_a_replay_equals_a_batch_where_partitions_have_other_times_and_then_has_the_pace_of_the_spec(
    run: Any, broker: Broker, topics: Topics, tmp_path: Path
) -> None:
    names = {
        "orders": topics.make("orders", partitions=3, **{"retention.ms": "-1"}),
        "out": topics.make("out", partitions=1),
    }
    spec = {
        "sources": [source("orders", **TIMED)],
        "views": [HOURLY],
        "trigger": {"interval": "2s", "maxRecords": 50},
        "sinks": [
            {
                "name": "out",
                "from": "hourly",
                "mode": "update",
                "kafka": {"topic": "out", "key": ["window_start"]},
            }
        ],
    }
    moments = list_moments(random.Random(7))
    write(broker.bootstrap, names["orders"], moments)
    revision = build_revision(spec, tmp_path / "state", broker.bootstrap, topics=names, pipeline="replayed")
    driver = run(revision, role=DriverRole.SHADOW, replay=ReplayProfile(max_records=MOST, client_id="replay"))
    sizes: set[int] = set()
    later_sizes: set[int] = set()

    def has_read(progress: Progress, count: int) -> bool:
        for query in progress.queries:
            (sizes if query.total_input_rows <= RECORDS else later_sizes).add(query.input_rows)
        is_there = all(query.total_input_rows == count for query in progress.queries)
        return bool(progress.queries) and is_there and not progress.replaying

    driver.wait_for("the replay ends", lambda p: has_read(p, RECORDS))
    assert MOST // 2 <= max(sizes) <= MOST
    assert read_hours(topics, names["out"]) == count_hours(moments)
    later = [(0, START + timedelta(hours=HOURS, minutes=minute)) for minute in range(120)]
    write(broker.bootstrap, names["orders"], later)
    driver.wait_for("the rest", lambda p: has_read(p, RECORDS + 120))
    assert max(later_sizes) == 50
    assert read_hours(topics, names["out"]) == count_hours(moments + later)
    assert driver.driver.request_hold(30)
    driver.wait_for("it holds", lambda p: p.hold is not None and p.hold.phase is HoldPhase.HOLDING)
    assert driver.stop().graceful
