"""What it costs to write exactly once: the rate of a pipeline whose sink does against one with Spark's own sink.

`python tests/bench/exactly.py [--quick] [--records N] [--rounds N]`. Whole drivers run in one JVM over the same records, with either
sink in turns (A B A B …), the first round dropped. A run's time is from the start of its query until every record is
committed; what a reader of committed records finds is counted. The last line is one JSON object; `vs_spark` is the rate with
`delivery: ExactlyOnce` through the rate without, by query.
"""

import argparse
import json
import statistics
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from confluent_kafka import Consumer, KafkaError, TopicPartition

from bench.driver_runs import measure_run
from bench.spark_queries import SPECS, build_revision, create_session
from bench.throughput import PARTITIONS, drop_topic, log, make_topic, produce
from kappa_pipelines.driver.driver import Driver
from kappa_pipelines.revision.environment import Environment
from lab.broker import Broker

_SIDES = {"spark": "AtLeastOnce", "exactly": "ExactlyOnce"}
_DEADLINE = 300.0


def build_spec(query: str, side: str, batch: int) -> dict[str, Any]:
    """Return a query's spec with the sink of a side, in batches of so many records."""
    spec = SPECS[query]
    sinks = [{**sink, "kafka": {**sink["kafka"], "delivery": _SIDES[side]}} for sink in spec["sinks"]]
    return {**spec, "sinks": sinks, "trigger": {"maxRecords": batch}}


def measure(bootstrap: str, source: str, count: int, spec: dict[str, Any]) -> tuple[float, int]:
    """Run a driver over the whole topic; return the seconds that its query took and the number of records that are committed."""
    topics = {"records": source, "out": make_topic(bootstrap, "out")}
    with tempfile.TemporaryDirectory(prefix="kappa-bench-") as checkpoint:
        revision = build_revision(spec, bootstrap, topics, checkpoint)
        revision = revision.model_copy(update={"uid": uuid.uuid4().hex})
        driver = Driver(revision, Environment(generation=1))
        seconds = measure_run(driver, count, _DEADLINE)
    written = count_committed(bootstrap, topics["out"])
    drop_topic(bootstrap, topics["out"])
    return seconds, written


def count_committed(bootstrap: str, topic: str) -> int:
    """Return how many records a reader of committed records finds."""
    config = {"bootstrap.servers": bootstrap, "group.id": "count", "enable.partition.eof": True}
    consumer = Consumer({**config, "isolation.level": "read_committed", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, part, 0) for part in range(PARTITIONS)])
    left, found = set(range(PARTITIONS)), 0
    while left:
        for message in consumer.consume(10_000, timeout=1.0):
            error = message.error()
            if error is None:
                found += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
    consumer.close()
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="300,000 records")
    parser.add_argument("--records", type=int)
    parser.add_argument("--batch", type=int, help="records of a batch; a fifth of all where left out")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    count = given.records or (300_000 if given.quick else 2_000_000)
    times: dict[str, dict[str, list[float]]] = {query: {side: [] for side in _SIDES} for query in SPECS}
    with Broker(heap_mib=512) as broker:
        source = make_topic(broker.bootstrap, "records")
        produce(broker.bootstrap, source, count)
        create_session()
        for turn in range(given.rounds):
            for query in SPECS:
                written = {}
                for side in _SIDES:
                    spec = build_spec(query, side, given.batch or count // 5)
                    took, written[side] = measure(broker.bootstrap, source, count, spec)
                    log(f"{query} {side} round {turn}: {took:.2f} s, {written[side]} records written")
                    times[query][side] += [took] if turn > 0 else []
                if len(set(written.values())) != 1:
                    raise SystemExit(f"the numbers of records differ: {written}")
    middle = {query: {s: statistics.median(t) for s, t in sides.items()} for query, sides in times.items()}
    result = {
        "records": count,
        "vs_spark": {query: round(each["spark"] / each["exactly"], 2) for query, each in middle.items()},
        "rates": {
            query: {side: round(count / t) for side, t in each.items()} for query, each in middle.items()
        },
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
