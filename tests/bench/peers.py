"""How fast a pipeline is against the same query in Flink SQL, Kafka Streams, and PySpark as its manual has it, on the same log.

`python tests/bench/peers.py [--quick] [--records N] [--rounds N] [--queries pass,window] [--sides kappa,flink]`. Each side is a process
of its own with a heap of 2 GB and two tasks, and the same settings of producers and of checkpoints. For each query all sides run in turns
(A B C A B C …). A side's first run is cold, from the start of its process to the last record; the others are warm: from the
request to the answer of a process that ran it before, with planning and the end. Results are compared by digest: the same rows, or the last row of each key.

The last line is one JSON object: `pass_ratio`, `once_ratio`, `window_ratio`, `hop_ratio` and `join_ratio` are the rate of Kappa by that of the
fastest of Flink and Kafka Streams, warm; `pass_cold_ratio` is the same, cold. `rows` has, by query and side, the rates in thousand records
per second, the processor seconds of a warm run, and the peak of memory in MiB.
"""

import argparse
import hashlib
import json
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from bench.peer_queries import QUERIES, Query, normalize, write_records
from bench.peer_sides import Job, Run, Side, serve
from bench.throughput import PARTITIONS, drop_topic, log, make_topic
from lab.broker import Broker
from lab.transactions import await_markers

_PEERS = ("flink", "streams")


def digest(bootstrap: str, query: Query, topic: str) -> tuple[int, str]:
    """Return the number of results that a reader of committed records finds, and a hash that depends on neither their order nor their form."""
    config = {"bootstrap.servers": bootstrap, "group.id": "digest", "enable.partition.eof": True}
    consumer = Consumer({**config, "isolation.level": "read_committed", "enable.auto.commit": False})
    await_markers(AdminClient({"bootstrap.servers": bootstrap}), topic)
    consumer.assign([TopicPartition(topic, part, 0) for part in range(PARTITIONS)])
    left, count, total = set(range(PARTITIONS)), 0, 0
    latest: dict[str, int] = {}
    while left:
        for message in consumer.consume(10_000, timeout=1.0):
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                continue
            found = normalize(query, message.value() or b"")
            if found is None:
                continue
            name, row = found
            text = json.dumps(row, sort_keys=True).encode()
            number = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())
            if query.latest:
                latest[name] = number
            else:
                count, total = count + 1, total + number
    consumer.close()
    if query.latest:
        count, total = len(latest), sum(latest.values())
    return count, f"{total % 2**64:016x}"


class Comparison:
    """Runs of all sides of a query, in turns."""

    def __init__(self, broker: Broker, topics: dict[str, str], written: dict[str, int]) -> None:
        self._bootstrap = broker.bootstrap
        self._topics, self._written = topics, written

    def compare(self, query: Query, sides: list[str], rounds: int) -> dict[str, dict[str, Any]]:
        """Return the figures by side; SystemExit where results differ."""
        count = sum(self._written[topic] for topic in query.topics)
        runs: dict[str, list[Run]] = {name: [] for name in sides}
        digests: dict[str, tuple[int, str]] = {}
        with ExitStack() as stack:
            processes: dict[str, Side] = {}
            for turn in range(rounds):
                for name in sides:
                    if turn == 0:
                        processes[name] = stack.enter_context(Side(name))
                    done, digests[name] = self._run(processes[name], query, count, is_last=turn == rounds - 1)
                    runs[name].append(done)
                    log(f"{query.name} {name} {turn}: {done.seconds:.2f} s, whole {done.wall:.2f} s")
            peaks = {name: side.peak_mib for name, side in processes.items()}
        if len(set(digests.values())) != 1:
            raise SystemExit(f"the results of {query.name} differ: {digests}")
        log(f"{query.name}: {digests[sides[0]][0]} equal results")
        return {name: _summarize(done, count, peaks[name]) for name, done in runs.items()}

    def _run(self, side: Side, query: Query, count: int, *, is_last: bool) -> tuple[Run, tuple[int, str]]:
        out = make_topic(self._bootstrap, "out")
        topics = {name: self._topics[name] for name in query.topics}
        with tempfile.TemporaryDirectory(prefix="kappa-peer-") as folder:
            done = side.run(Job(query, self._bootstrap, topics, out, count, folder))
        found = digest(self._bootstrap, query, out) if is_last else (0, "")
        drop_topic(self._bootstrap, out)
        return done, found


def _summarize(runs: list[Run], count: int, peak: float) -> dict[str, Any]:
    warm = runs[1:]
    return {
        "cold": round(count / runs[0].wall / 1000, 1),
        "warm": round(count / statistics.median(run.wall for run in warm) / 1000, 1),
        "cpu_s": round(statistics.median(run.cpu for run in warm), 1),
        "cold_cpu_s": round(runs[0].cpu, 1),
        "peak_mib": round(peak),
    }


def compare_rates(rows: dict[str, dict[str, dict[str, Any]]]) -> dict[str, float]:
    """Return the rate of Kappa by that of the fastest other engine, by query."""
    found = {}
    for name, kind in [*((name, "warm") for name in rows), ("pass", "cold")]:
        sides = rows.get(name, {})
        peers = [sides[peer][kind] for peer in _PEERS if peer in sides]
        if peers and "kappa" in sides:
            label = f"{name}_ratio" if kind == "warm" else f"{name}_cold_ratio"
            found[label] = round(sides["kappa"][kind] / max(peers), 2)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="200,000 records, one warm round")
    parser.add_argument("--records", type=int)
    parser.add_argument("--rounds", type=int, help="runs of each side, the cold one included")
    parser.add_argument("--queries", default=",".join(query.name for query in QUERIES))
    parser.add_argument("--sides", default="kappa,flink,streams,plain")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    count = given.records or (200_000 if given.quick else 2_000_000)
    rounds = given.rounds or (2 if given.quick else 5)
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    with Broker(heap_mib=512) as broker:
        topics = {
            name: make_topic(broker.bootstrap, name) for name in ("records", "closed", "orders", "payments")
        }
        written = write_records(broker.bootstrap, topics, count)
        log(f"written: {written}")
        comparison = Comparison(broker, topics, written)
        for query in QUERIES:
            if query.name in given.queries.split(","):
                sides = [name for name in query.sides if name in given.sides.split(",")]
                rows[query.name] = comparison.compare(query, sides, rounds)
    sys.stdout.write(json.dumps({"records": count, **compare_rates(rows), "rows": rows}) + "\n")


if __name__ == "__main__":
    main()
