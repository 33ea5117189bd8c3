"""How fast consumer lag is sampled: `python tests/bench/lag.py [--quick]` against two brokers of its own.

The sampler of the operator, in a separate process, samples 20,000 partitions and 2,000 groups of 20 partitions each. Half of the 40,000
group partitions are behind. The first sample starts without history; the later ones run while all groups that are behind move.
A sample has everything: records, time, time to loss. In the same run the same brokers are measured with
`kafka-consumer-groups --describe --all-groups --offsets`, which shows records only, and with confluent-kafka, group by group.

The last line is one JSON object. `sweep_s` is the median of the later samples, `first_s` the first one, `rss_mb` the peak of resident memory;
`vs_cli` is how many times longer the command takes, `vs_cli_pure` the same without the start of its JVM.
"""

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import GroupCoordinatorNotAvailableError as CoordinatorNotAvailableError
from aiokafka.protocol.commit import OffsetCommitRequest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kappa_operator.kafka.configs import ConfigReader
from kappa_operator.kafka.connection import Connection
from kappa_operator.kafka.model import KafkaAccess
from kappa_operator.lag.brokers import Brokers
from kappa_operator.lag.retentions import Retentions
from kappa_operator.lag.sampler import Sampler
from lab import kafka_jars
from lab.broker import Broker

WIDTH = 20
"""Partitions of a topic, and of a group."""
RECORDS, APART = 12, 20_000
"""Records in each partition, and the milliseconds between their timestamps."""
STEP = 2
"""Records that groups which are behind read between two samples."""
SWEEPS = 3
HOMES: dict[int, int] = {}
"""The brokers that coordinate the groups."""
COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PROPERTIES = {
    "log.index.size.max.bytes": "65536",
    "log.cleaner.enable": "false",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "16",
}


@dataclass(frozen=True)
class Scale:
    """How much there is."""

    partitions: int
    groups: int

    @property
    def topics(self) -> list[str]:
        return [f"bench-{number:04}" for number in range(self.partitions // WIDTH)]

    def read_by(self, group: int) -> str:
        return self.topics[group % len(self.topics)]


def make_topics(bootstrap: str, scale: Scale) -> None:
    """Make all topics and wait until the brokers show them, with their leaders."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for begin in range(0, len(scale.topics), 25):
        some = [NewTopic(name, WIDTH) for name in scale.topics[begin : begin + 25]]
        for future in admin.create_topics(some, operation_timeout=60, request_timeout=120).values():
            future.result()
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = admin.list_topics(timeout=60).topics
        shown = [found[name] for name in scale.topics if name in found]
        if len(shown) == len(scale.topics) and all(
            partition.leader >= 0 for topic in shown for partition in topic.partitions.values()
        ):
            return
        time.sleep(1)
    raise SystemExit("the brokers do not show all topics")


def write_records(bootstrap: str, scale: Scale, stamps: Sequence[int]) -> None:
    """Write one record for each timestamp (Unix time in milliseconds) to every partition."""
    settings: dict[str, Any] = {"queue.buffering.max.messages": 1_000_000, "log_level": 0}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    left = [(topic, number, stamp) for topic in scale.topics for number in range(WIDTH) for stamp in stamps]
    while left:
        left = send(producer, left)


def send(producer: Producer, records: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Send records of a topic, a partition and a timestamp; return those that a broker without their topic refused."""
    refused = []

    def note(record: tuple[str, int, int], error: object, _: object) -> None:
        if error is not None:
            refused.append(record)

    for record in records:
        topic, number, stamp = record
        heard = partial(note, record)
        producer.produce(topic, b"x" * 50, partition=number, timestamp=stamp, on_delivery=heard)
        producer.poll(0)
    assert producer.flush(120) == 0
    return refused


async def commit(bootstrap: str, scale: Scale, groups: Sequence[int], offset: int) -> None:
    """Commit the offset for these groups in all their partitions."""
    client = AIOKafkaClient(bootstrap_servers=bootstrap)
    await client.bootstrap()
    slots, homes = asyncio.Semaphore(20), HOMES

    async def commit_one(group: int) -> bool:
        name, rows = f"group-{group:04}", [(number, offset, "") for number in range(WIDTH)]
        async with slots:
            if group not in homes:
                homes[group] = await client.coordinator_lookup(0, name)
            request = OffsetCommitRequest(name, -1, "", -1, [(scale.read_by(group), rows)])
            answer = await client.send(homes[group], request)
        return not any(error for _, each in answer.topics for _, error in each)

    async def try_first() -> bool:
        try:
            return await commit_one(groups[0])
        except CoordinatorNotAvailableError:
            return False

    for _ in range(100):  # the brokers make the topic for offsets when it is first asked for
        if await try_first():
            break
        await asyncio.sleep(0.5)
    assert all(await asyncio.gather(*map(commit_one, groups)))
    await client.close()


async def sample() -> None:
    """Run the process of the sampler: take a sample for every line of input, and print its figures."""
    bootstrap = sys.stdin.readline().strip()
    settings = {"bootstrap.servers": bootstrap, "security.protocol": "plaintext", "client.id": "bench"}
    access = KafkaAccess.of(settings)
    sampler = Sampler(Brokers(Connection(access)), Retentions(ConfigReader(Connection(access))), patience=60)
    for _ in sys.stdin:
        pauses: list[float] = []
        watching = asyncio.create_task(watch_loop(pauses))
        cpu, found = time.process_time(), await sampler.sample()
        watching.cancel()
        samples = found.samples.values()
        said = {
            "seconds": found.seconds,
            "cpu": time.process_time() - cpu,
            "partitions": len(found.logs),
            "groups": len(found.groups),
            "shares": len(samples),
            "behind": sum(1 for each in samples if each.lag > 0),
            "unfound": sum(1 for each in samples if each.lag > 0 and each.behind is None),
            "lag": sum(each.lag for each in samples),
            "pause_ms": max(pauses) * 1000,
            "unknown": len(found.unknown) + len(found.unread) + len(found.unavailable),
            "rss": _read_peak(),
        }
        print(json.dumps(said), flush=True)
    await sampler.close()


async def watch_loop(pauses: list[float]) -> None:
    """Note for how long others do not get their turn on the event loop, in seconds."""
    while True:
        began = time.monotonic()
        await asyncio.sleep(0.001)
        pauses.append(time.monotonic() - began - 0.001)


def _read_peak() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM"))


class Child:
    """The sampler's process."""

    def __init__(self, bootstrap: str) -> None:
        command = [sys.executable, __file__, "--sample"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._write(bootstrap)

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def sample(self) -> dict[str, float]:
        """Take one sample."""
        self._write("sweep")
        assert self._process.stdout is not None
        said: dict[str, float] = json.loads(self._process.stdout.readline())
        print(json.dumps(said), file=sys.stderr)
        return said

    def end(self) -> None:
        """Let it go."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


def check(said: dict[str, float], scale: Scale, lag: int) -> None:
    """Fail where the sampler was fast because it left something out."""
    pairs = scale.groups * WIDTH
    assert (said["partitions"], said["groups"], said["shares"]) == (scale.partitions, scale.groups, pairs), (
        said
    )
    assert (said["lag"], said["unfound"], said["unknown"]) == (lag, 0, 0), said


def run_command(bootstrap: str, *arguments: str) -> tuple[float, int]:
    """Return the seconds that Kafka's own command takes, and how many lines it prints."""
    java = ["java", "-XX:+UseSerialGC", "-Xmx1g", "-cp", f"{kafka_jars.fetch()}/*", COMMAND]
    began = time.monotonic()
    command = [*java, "--bootstrap-server", bootstrap, "--timeout", "600000", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return time.monotonic() - began, len(ended.stdout.splitlines())


def ask_one_by_one(bootstrap: str, scale: Scale) -> float:
    """Return the seconds that confluent-kafka takes for the committed offsets alone, many calls at a time."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    began = time.monotonic()
    futures: list[Any] = []
    for group in range(scale.groups):
        question = [ConsumerGroupTopicPartitions(f"group-{group:04}")]
        futures += admin.list_consumer_group_offsets(question).values()
    found = sum(len(future.result().topic_partitions) for future in futures)
    assert found == scale.groups * WIDTH
    return time.monotonic() - began


def measure(bootstrap: str, scale: Scale) -> dict[str, float]:
    """Prepare the brokers, take samples, and compare."""
    everyone, slow = range(scale.groups), range(0, scale.groups, 2)
    make_topics(bootstrap, scale)
    now = int(time.time() * 1000)
    write_records(bootstrap, scale, [now - APART * (RECORDS - index) for index in range(RECORDS)])
    asyncio.run(commit(bootstrap, scale, everyone, RECORDS))
    asyncio.run(commit(bootstrap, scale, slow, 1))
    pairs = len(slow) * WIDTH
    child = Child(bootstrap)
    try:
        first = child.sample()
        check(first, scale, pairs * (RECORDS - 1))
        later = []
        for step in range(1, SWEEPS + 1):
            asyncio.run(commit(bootstrap, scale, slow, 1 + STEP * step))
            later.append(child.sample())
            check(later[-1], scale, pairs * (RECORDS - 1 - STEP * step))
    finally:
        child.end()
    started, _ = run_command(bootstrap, "--version")
    took, lines = run_command(bootstrap, "--describe", "--all-groups", "--offsets")
    assert lines >= scale.groups * WIDTH, lines
    sampled = statistics.median(each["seconds"] for each in later)
    return {
        "partitions": scale.partitions,
        "groups": scale.groups,
        "sweep_s": round(sampled, 2),
        "slowest_s": round(max(each["seconds"] for each in later), 2),
        "first_s": round(first["seconds"], 2),
        "cpu_s": round(statistics.median(each["cpu"] for each in later), 2),
        "pause_ms": round(max(each["pause_ms"] for each in later)),
        "rss_mb": round(later[-1]["rss"], 1),
        "cli_s": round(took, 2),
        "jvm_s": round(started, 2),
        "confluent_s": round(ask_one_by_one(bootstrap, scale), 2),
        "vs_cli": round(took / sampled, 1),
        "vs_cli_pure": round((took - started) / sampled, 1),
    }


def main() -> None:
    """Measure and print the figures, the last line for programs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="2,000 partitions and 200 groups")
    parser.add_argument("--sample", action="store_true", help="for this program itself: be the sampler")
    options = parser.parse_args()
    if options.sample:
        asyncio.run(sample())
        return
    scale = Scale(2000, 200) if options.quick else Scale(20_000, 2000)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # A broker keeps a file open for each partition: two of them stay below the usual limit of a process.
    with (
        Broker(heap_mib=1536, properties=PROPERTIES) as broker,
        Broker(heap_mib=1536, properties=PROPERTIES, joins=broker),
    ):
        print(json.dumps(measure(broker.bootstrap, scale)))


if __name__ == "__main__":
    main()
