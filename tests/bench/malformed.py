"""What malformed records cost: the rate with every second record malformed against the rate with none.

`python tests/bench/malformed.py [--quick] [--records N] [--rounds N]`. Whole drivers run in one JVM, with clean and with spoiled
records in turns (A B A B …), the first round dropped. A run's time is from the start of its query until every record is
committed and every dead letter is written; the numbers of both are checked. The last line is one JSON object;
`malformed_ratio` is the rate with half of the records malformed through the rate with none. `job_ratio` is the same for the query
alone, without the wait for its last dead letters.
"""

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from confluent_kafka import Consumer, TopicPartition

from bench.driver_runs import POLL_SECONDS, running
from bench.spark_queries import SPECS, build_revision, create_session
from bench.throughput import PARTITIONS, drop_topic, log, make_topic, produce
from kappa_pipelines.driver.driver import Driver
from kappa_pipelines.revision.environment import Environment
from lab.broker import Broker

_SIDES = ("clean", "spoiled")
_DEADLINE = 300.0


@dataclass(frozen=True)
class Seconds:
    """How long the query took, and how long until its dead letters were written as well."""

    query: float
    whole: float


def spoil(number: int, value: str) -> str | None:
    """Make every second record malformed, in four ways in turn."""
    if number % 2 == 0:
        return value
    wrong = (value[:-20], value.replace('"v":', '"v":"x","w":'), "[1, 2]", None)
    return wrong[number // 2 % len(wrong)]


def measure(bootstrap: str, source: str, count: int, malformed: int) -> Seconds:
    """Run a driver over the whole topic; fails unless all records and dead letters are where they belong."""
    topics = {"records": source, **{name: make_topic(bootstrap, name) for name in ("out", "dead")}}
    with tempfile.TemporaryDirectory(prefix="kappa-bench-") as checkpoint:
        spec = {**SPECS["passthrough"], "deadLetter": "dead"}
        revision = build_revision(spec, bootstrap, topics, checkpoint)
        driver = Driver(revision, Environment(generation=1))
        with running(driver, _DEADLINE) as thread:
            took = _watch(
                driver, thread, count, lambda: count_records(bootstrap, topics["dead"]) >= malformed
            )
    written = {name: count_records(bootstrap, topics[name]) for name in ("out", "dead")}
    if written != {"out": count - malformed, "dead": malformed}:
        raise SystemExit(f"{malformed} of {count} records were malformed, and written were {written}")
    for name in written:
        drop_topic(bootstrap, topics[name])
    return took


def _watch(driver: Driver, thread: threading.Thread, count: int, has_letters: Callable[[], bool]) -> Seconds:
    """Wait for the records and the dead letters, from the start of the query."""
    begin = query = 0.0
    deadline = time.monotonic() + _DEADLINE
    while thread.is_alive() and time.monotonic() < deadline:
        progress = driver.record.snapshot({})
        if begin == 0.0 and progress.queries:
            begin = time.monotonic()
        if query == 0.0 and sum(each.total_input_rows for each in progress.queries) >= count:
            query = time.monotonic()
        if query > 0.0 and has_letters():
            return Seconds(query - begin, time.monotonic() - begin)
        time.sleep(POLL_SECONDS)
    raise SystemExit(f"the driver did not get through in {_DEADLINE:.0f} s: {driver.record.snapshot({})}")


def count_records(bootstrap: str, topic: str) -> int:
    """Return the number of records in a topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "count"})
    places = [TopicPartition(topic, part) for part in range(PARTITIONS)]
    ends = [consumer.get_watermark_offsets(place, timeout=30.0) for place in places]
    consumer.close()
    return sum(end - start for start, end in ends)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="200,000 records, three rounds")
    parser.add_argument("--records", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    count = given.records or (200_000 if given.quick else 2_000_000)
    malformed = {"clean": 0, "spoiled": count // 2}
    times: dict[str, list[Seconds]] = {side: [] for side in _SIDES}
    with Broker(heap_mib=512) as broker:
        sources = {side: make_topic(broker.bootstrap, side) for side in _SIDES}
        produce(broker.bootstrap, sources["clean"], count)
        produce(broker.bootstrap, sources["spoiled"], count, spoil)
        create_session()
        for turn in range(given.rounds):
            for side in _SIDES:
                took = measure(broker.bootstrap, sources[side], count, malformed[side])
                log(f"{side} round {turn}: query {took.query:.2f} s, with dead letters {took.whole:.2f} s")
                times[side] += [took] if turn > 0 else []
    query = {side: statistics.median(each.query for each in found) for side, found in times.items()}
    whole = {side: statistics.median(each.whole for each in found) for side, found in times.items()}
    result = {
        "records": count,
        "malformed_ratio": round(whole["clean"] / whole["spoiled"], 2),
        "job_ratio": round(query["clean"] / query["spoiled"], 2),
        "rates": {side: round(count / seconds) for side, seconds in whole.items()},
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
