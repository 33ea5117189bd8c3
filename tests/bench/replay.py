"""How fast a driver reads a log again, against Kafka's own consumer and against plain PySpark.

The log has what a sink wrote: JSON of 93 bytes, compressed with lz4, in four partitions. Whole drivers with the profile of a replay read it in
one JVM, in turns with the other side, the first rounds dropped. A run's time is from the start of its query until the last batch is committed.

- `replay_ratio`: a view of raw values into a raw sink, by the rate of ConsumerPerformance in the same round. `replay_ratio_json` has the same
  view into a sink of JSON objects, and `replay_ratio_parsed` parses the values as well.
- `window_vs_plain`: a mean by key and window, by the same query written by hand in PySpark with Spark's defaults; the results are equal.
"""

import statistics
import tempfile
import time
import uuid
from typing import Any

from confluent_kafka import Producer

from bench.driver_runs import measure_run
from bench.spark_queries import SPECS, Run, build_revision, create_session
from bench.throughput import KEYS, PARTITIONS, START, consumer_perf, digest, drop_topic, log, make_topic, send
from kappa_crds.progress import DriverRole
from kappa_crds.replay import ReplayProfile
from kappa_operator.pipeline.tuning import PRODUCER
from kappa_pipelines.driver.driver import Driver
from kappa_pipelines.revision.environment import Environment
from lab.broker import Broker

RECORDS, QUICK_RECORDS = 12_000_000, 400_000
"""Three slices: the start of a query, about a second, is in each figure, and a log that is read again takes longer than that."""
ROUNDS, QUICK_ROUNDS = 3, 2
WARM_ROUNDS = 2
"""Rounds of the ratios before those that count: the JVM still compiles in the second one."""
_DEADLINE = 600.0
_RAW_SOURCE = {"name": "records", "topic": "records", "format": {"raw": {}}}
_VIEW = {"name": "rows", "sql": "SELECT value FROM records"}
RAW: dict[str, Any] = {
    "resources": SPECS["passthrough"]["resources"],
    "sources": [_RAW_SOURCE],
    "views": [_VIEW],
    "sinks": [{"name": "out", "from": "rows", "kafka": {"topic": "out", "raw": "value"}}],
}
TEXT = {**RAW, "sources": [{**_RAW_SOURCE, "format": {"raw": {"type": "STRING"}}}]}
SIDES: dict[str, dict[str, Any]] = {
    "raw": RAW,
    "json": {**TEXT, "sinks": [{"name": "out", "from": "rows", "kafka": {"topic": "out"}}]},
    "parsed": SPECS["passthrough"],
}
"""Pipelines of the ratios: bytes in and out; text in and JSON out; JSON in and out."""


def write_log(bootstrap: str, count: int) -> str:
    """Write the log with the settings of sinks, at ten minutes of event time, and return its topic."""
    topic = make_topic(bootstrap, "log")
    producer = Producer({"bootstrap.servers": bootstrap, **PRODUCER})
    for number in range(count):
        key, value = number * 7919 % KEYS, number * 31 % 10**6 / 8
        at = START.timestamp() + number * 600 / count
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at * 1000) % 1000:03d}Z"
        text = f'{{"k":{key},"v":{value},"ts":"{moment}","note":"abcdefghijklmnop-{key:06d}"}}'
        send(producer, topic, text, number % PARTITIONS)
    producer.flush()
    return topic


def replay(bootstrap: str, source: str, out: str, count: int, spec: dict[str, Any]) -> float:
    """Have a driver with the profile of a replay read the whole log; return the seconds that its query took."""
    with tempfile.TemporaryDirectory(prefix="kappa-bench-") as checkpoint:
        revision = build_revision(spec, bootstrap, {"records": source, "out": out}, checkpoint)
        revision = revision.model_copy(update={"uid": uuid.uuid4().hex})
        driver = Driver(revision, Environment(1, role=DriverRole.SHADOW, replay=ReplayProfile()))
        return measure_run(driver, count, _DEADLINE)


def _measure_ratios(broker: Broker, source: str, count: int, rounds: int) -> dict[str, float]:
    """Return the median rate of each side and of ConsumerPerformance, in records per second."""
    rates: dict[str, list[float]] = {name: [] for name in ("perf", *SIDES)}
    for turn in range(WARM_ROUNDS + rounds - 1):
        found = {"perf": consumer_perf(broker, source, count)}
        for name, spec in SIDES.items():
            out = make_topic(broker.bootstrap, "out")
            found[name] = count / replay(broker.bootstrap, source, out, count, spec)
            drop_topic(broker.bootstrap, out)
        log(f"round {turn}: " + ", ".join(f"{name} {rate:,.0f}/s" for name, rate in found.items()))
        if turn >= WARM_ROUNDS:
            for name, rate in found.items():
                rates[name].append(rate)
    return {name: statistics.median(found) for name, found in rates.items()}


def _measure_window(broker: Broker, source: str, count: int, rounds: int) -> dict[str, float]:
    """Return the median seconds of the windowed query by side; SystemExit if their results differ."""
    spark = create_session()
    times: dict[str, list[float]] = {"kappa": [], "plain": []}
    for turn in range(rounds):
        digests = {}
        for side, taken in times.items():
            out = make_topic(broker.bootstrap, "out")
            if side == "kappa":
                seconds = replay(broker.bootstrap, source, out, count, SPECS["window"])
            else:
                seconds = Run("window", "plain", broker.bootstrap, source, out).seconds(spark)
            log(f"window {side} round {turn}: {seconds:.1f} s")
            if turn > 0:
                taken.append(seconds)
            if turn == rounds - 1:
                digests[side] = digest(broker.bootstrap, out, "window")
            drop_topic(broker.bootstrap, out)
    if len(set(digests.values())) != 1:
        raise SystemExit(f"the results differ: {digests}")
    log(f"{digests['kappa'][0]} equal results")
    return {side: statistics.median(taken) for side, taken in times.items()}


def measure_replay(broker: Broker, records: int | None, *, quick: bool) -> dict[str, object]:
    """Return `replay_ratio`, what JSON costs, and `window_vs_plain`."""
    count = records or (QUICK_RECORDS if quick else RECORDS)
    rounds = QUICK_ROUNDS if quick else ROUNDS
    source = write_log(broker.bootstrap, count)
    log(f"a log of {count} records is written")
    create_session()
    rates = _measure_ratios(broker, source, count, rounds)
    seconds = _measure_window(broker, source, count, rounds)
    drop_topic(broker.bootstrap, source)
    return {
        "replay_records": count,
        "replay_ratio": round(rates["raw"] / rates["perf"], 2),
        "replay_ratio_json": round(rates["json"] / rates["perf"], 2),
        "replay_ratio_parsed": round(rates["parsed"] / rates["perf"], 2),
        "replay_rates": {name: round(rate) for name, rate in rates.items()},
        "window_vs_plain": round(seconds["plain"] / seconds["kappa"], 2),
        "window_rates": {side: round(count / taken) for side, taken in seconds.items()},
    }
