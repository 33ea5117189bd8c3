"""How fast a reprocessing is.

`python tests/bench/reprocess.py [--quick] [--keys N] [--records N] [--only PART]`. The last line is one JSON object.

- `compare`: two outputs of ten million keys with planted differences, compared by `kappa diff`'s code: `compare_s`. A new JVM compares, so
  the figure has its warm-up but not its start. It fails unless every planted difference is found.
- `replay`: a log is read again by a driver with the profile of a replay: `replay_ratio` and `window_vs_plain` (see `replay.py`).
- `live`: the lag of a live driver with a replay beside it, through its lag alone: `live_lag_growth` (see `live_lag.py`).

The broker is on the same two cores. Unlike that of a test it is compiled as a broker that lives for long.
"""

import argparse
import json
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.live_lag import measure_live_lag
from bench.replay import measure_replay
from bench.spark_queries import create_session
from bench.throughput import send
from kappa_crds.comparison import ComparisonRequest, ComparisonSummary
from kappa_crds.revision import KafkaConnection
from kappa_operator.pipeline.tuning import PRODUCER
from kappa_pipelines.compare.bounds import TopicBounds
from kappa_pipelines.compare.compare import Comparison
from kappa_pipelines.driver.jvm import use_own_python
from lab.broker import Broker

KEYS, QUICK_KEYS = 10_000_000, 500_000
PARTITIONS = 4
PLANTED = 100
"""Rows of each kind of difference: changed, only old, only new."""


def log(text: str) -> None:
    """Print progress to the user."""
    sys.stderr.write(text + "\n")


def build_rows(keys: int, *, is_new: bool) -> Iterator[tuple[str, str]]:
    """Yield key and value of each row; the two versions differ in `PLANTED` rows of each kind."""
    step = keys // PLANTED
    for number in range(keys):
        place = number % step
        if place == (2 if is_new else 3):
            continue
        value = number * 7919 % 1_000_003 / 8 + (is_new and place == 1)
        minute = number // 1000 % 60
        yield (
            str(number),
            f'{{"k":{number},"v":{value},"ts":"2013-01-01T00:{minute:02d}:00.000Z","note":"abcdefghijklmnop-{number:08d}"}}',
        )


def produce(bootstrap: str, keys: int, *, is_new: bool) -> str:
    """Write a version with the settings of sinks, and return its topic."""
    topic = f"{'new' if is_new else 'old'}-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, **PRODUCER})
    for key, value in build_rows(keys, is_new=is_new):
        send(producer, topic, value, key=key)
    producer.flush()
    return topic


def measure(bootstrap: str, keys: int) -> ComparisonSummary:
    """Return the comparison of two versions; RuntimeError if a difference was missed."""
    began = time.monotonic()
    old, new = (produce(bootstrap, keys, is_new=is_new) for is_new in (False, True))
    log(f"wrote two outputs of {keys} keys in {time.monotonic() - began:.0f} s")
    kafka = KafkaConnection(bootstrap_servers=(bootstrap,))
    bounds = TopicBounds(kafka, committed=True)
    use_own_python()
    request = ComparisonRequest(name="bench", old=bounds.find_range(old), new=bounds.find_range(new))
    found = Comparison(kafka=kafka, request=request, group="bench").run(create_session(), log)
    counts = found.changed, found.only_old, found.only_new
    if counts != (PLANTED,) * 3 or found.equal != keys - 3 * PLANTED:
        raise RuntimeError(f"planted {PLANTED} of each kind, found {counts}, {found.equal} equal")
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--keys", type=int, help="keys of each output that is compared")
    parser.add_argument("--records", type=int, help="records of the log that is replayed")
    parser.add_argument("--only", choices=("compare", "replay", "live"))
    options = parser.parse_args()
    keys = options.keys or (QUICK_KEYS if options.quick else KEYS)
    result: dict[str, object] = {}
    with Broker(heap_mib=512, java=["-XX:TieredStopAtLevel=4"]) as broker:
        if options.only in (None, "compare"):
            found = measure(broker.bootstrap, keys)
            result |= {
                "compare_keys": keys,
                "compare_differences": found.differing,
                "compare_s": found.seconds,
            }
        if options.only in (None, "replay"):
            result |= measure_replay(broker, options.records, quick=options.quick)
        if options.only in (None, "live"):
            result |= measure_live_lag(broker, quick=options.quick)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
