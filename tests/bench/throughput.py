"""How fast a pipeline is against the same query in plain PySpark, and against Kafka's own consumer.

`python tests/bench/throughput.py [--quick] [--records N] [--rounds N]`. One run measures all sides on the same
records, one after the other in turns (A B A B …), warm (same JVM, first round dropped) and cold (a new JVM each).
Results of both sides are compared record for record. The last line is one JSON object; `vs_plain` is the smaller of
the two warm ratios, so above 1 the pipeline is faster in both.
"""

import argparse
import hashlib
import json
import random
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from bench.spark_queries import SPECS, Run, create_session
from lab import kafka_jars
from lab.broker import Broker

SIDES = ("plain", "kappa")
PARTITIONS = 4
KEYS = 10_000
START = datetime(2013, 1, 1, tzinfo=UTC)


def log(text: str) -> None:
    """Print progress to the user."""
    sys.stderr.write(text + "\n")


def make_topic(bootstrap: str, name: str) -> str:
    """Make a topic with a name of its own. Nothing is deleted for its age: records of Kafka Streams have the time of their events."""
    unique = f"{name}-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(unique, PARTITIONS, 1, config={"retention.ms": "-1"})])[unique].result(30)
    return unique


def drop_topic(bootstrap: str, name: str) -> None:
    """Delete a topic, so that the disk does not fill."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([name])[name].result(30)


def ends(admin: AdminClient, topic: str) -> dict[int, int]:
    """Return the end of each partition."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    wanted = {TopicPartition(topic, part): latest for part in range(PARTITIONS)}
    return {at.partition: future.result(30).offset for at, future in admin.list_offsets(wanted).items()}


def _as_it_is(number: int, value: str) -> str | None:
    return value


def produce(
    bootstrap: str, topic: str, count: int, change: Callable[[int, str], str | None] = _as_it_is
) -> int:
    """Write the records, as `change` makes them of their number and value, and return their mean size in bytes."""
    rng, size = random.Random(1), 0
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "batch.size": 262144})
    for number in range(count):
        moment = (START + timedelta(seconds=number * 600 / count)).isoformat(timespec="milliseconds")
        key = rng.randrange(KEYS)
        value = f'{{"k":{key},"v":{rng.randrange(10**6) / 8},"ts":"{moment}","note":"abcdefghijklmnop-{key:06d}"}}'
        size += len(value)
        written = change(number, value)
        send(producer, topic, written, number % PARTITIONS)
    producer.flush()
    return size // count


def send(
    producer: Producer, topic: str, value: str | None, partition: int = -1, key: str | bytes | None = None
) -> None:
    """Hand a record to the producer, which may have to send others before."""
    while True:
        try:
            producer.produce(topic, value, key, partition)
            return
        except BufferError:
            producer.poll(0.05)


def digest(bootstrap: str, topic: str, name: str) -> tuple[int, str]:
    """Return the number of results and a hash that does not depend on their order or form."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "digest", "enable.auto.commit": False})
    ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p))[1] for p in range(PARTITIONS)}
    consumer.assign([TopicPartition(topic, p, 0) for p in ends])
    latest: dict[str, int] = {}
    left, count, total = sum(ends.values()), 0, 0
    while left > 0:
        for message in consumer.consume(min(left, 10_000), timeout=10.0):
            left -= 1
            row = json.loads(message.value() or b"")
            text = json.dumps(_normal(row), sort_keys=True)
            number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
            if name == "window":
                latest[f"{row['k']}{row['w']['start'][:16]}"] = number
            else:
                count, total = count + 1, total + number
    consumer.close()
    if name == "window":
        count, total = len(latest), sum(latest.values())
    return count, f"{total % 2**64:016x}"


def _normal(row: dict[str, object]) -> dict[str, object]:
    """Times without their trailing zeros, which the two sides write differently."""
    if isinstance(row.get("ts"), str):
        return {**row, "ts": datetime.fromisoformat(str(row["ts"])).timestamp()}
    return {**row, "w": str(row["w"])[:30]}


def consumer_perf(broker: Broker, topic: str, count: int) -> float:
    """Return the records a second that Kafka's ConsumerPerformance reads."""
    command = ["java", "-cp", f"{kafka_jars.fetch()}/*", "org.apache.kafka.tools.ConsumerPerformance"]
    options = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--messages", str(count)]
    done = subprocess.run(
        [*command, *options, "--timeout", "60000"], capture_output=True, text=True, check=True
    )
    rows = [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines() if "," in line]
    head = next(row for row in rows if any("fetch.nMsg.sec" in cell for cell in row))
    at = next(i for i, cell in enumerate(head) if "fetch.nMsg.sec" in cell)
    return float(rows[rows.index(head) + 1][at])


def measure_warm(bootstrap: str, source: str, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return seconds by query and side, the first round dropped; fails if results differ."""
    spark = create_session()
    times: dict[str, dict[str, list[float]]] = {name: {side: [] for side in SIDES} for name in SPECS}
    for name in SPECS:
        for turn in range(rounds):
            digests = {}
            for side in SIDES:
                run = Run(name, side, bootstrap, source, make_topic(bootstrap, "out"))
                took = run.seconds(spark)
                log(f"{name} {side} round {turn}: {took:.2f} s")
                if turn > 0:
                    times[name][side].append(took)
                if turn == rounds - 1:
                    digests[side] = digest(bootstrap, run.out, name)
                drop_topic(bootstrap, run.out)
        if len(set(digests.values())) != 1:
            raise SystemExit(f"the results of {name} differ: {digests}")
        log(f"{name}: {digests['kappa'][0]} equal results")
    spark.stop()
    return times


def measure_cold(bootstrap: str, source: str, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return seconds by query and side, each in a new JVM, without the JVM's start."""
    times: dict[str, dict[str, list[float]]] = {name: {side: [] for side in SIDES} for name in SPECS}
    for _ in range(rounds):
        for name in SPECS:
            for side in SIDES:
                out = make_topic(bootstrap, "out")
                command = [sys.executable, __file__, "--one", name, side, bootstrap, source, out]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                times[name][side].append(float(done.stdout.split()[-1]))
                log(f"{name} {side} cold: {times[name][side][-1]:.2f} s")
                drop_topic(bootstrap, out)
    return times


def ratios(times: dict[str, dict[str, list[float]]]) -> dict[str, float]:
    """Return, by query, how many times faster the pipeline is."""
    return {
        name: statistics.median(sides["plain"]) / statistics.median(sides["kappa"])
        for name, sides in times.items()
    }


def rates(times: dict[str, dict[str, list[float]]], count: int) -> dict[str, int]:
    """Return records a second by query and side."""
    return {
        f"{name}_{side}": round(count / statistics.median(seconds))
        for name, sides in times.items()
        for side, seconds in sides.items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="200,000 records, two rounds")
    parser.add_argument("--records", type=int)
    parser.add_argument("--rounds", type=int, help="warm runs of each, the first of which is not counted")
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        sys.stdout.write(f"{Run(*given.one).seconds(create_session())}\n")
        return
    if given.rounds is not None and given.rounds < 2:
        parser.error("--rounds must be at least 2: the first is not counted")
    count = given.records or (200_000 if given.quick else 2_000_000)
    rounds = given.rounds or (3 if given.quick else 4)
    with Broker(heap_mib=512) as broker:
        source = make_topic(broker.bootstrap, "records")
        begin = time.monotonic()
        size = produce(broker.bootstrap, source, count)
        log(f"{count} records of {size} bytes written in {time.monotonic() - begin:.1f} s")
        perf = consumer_perf(broker, source, count)
        warm = measure_warm(broker.bootstrap, source, rounds)
        cold = measure_cold(broker.bootstrap, source, 1 if given.quick else 2)
        perf = statistics.median([perf, consumer_perf(broker, source, count)])
    result = {
        "records": count,
        "bytes": size,
        "vs_plain": round(min(ratios(warm).values()), 2),
        "vs_plain_cold": round(min(ratios(cold).values()), 2),
        "vs_consumer_perf": round(rates(warm, count)["passthrough_kappa"] / perf, 2),
        "warm": {name: round(value, 2) for name, value in ratios(warm).items()},
        "cold": {name: round(value, 2) for name, value in ratios(cold).items()},
        "rates_warm": rates(warm, count),
        "rates_cold": rates(cold, count),
        "consumer_perf": round(perf),
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
