"""Records what the sampler sees of a real group on a real broker: `python tests/integration/lag_recorder.py` writes tests/unit/control/traces.

All scenes play at once for a minute and a half, each with a topic and a group of its own. So that this is enough, everything is about
thirty times as fast as in earnest: looks each half second, commits each second. A trace is compact JSON: a line for each look and each
commit, with seconds since the start.
"""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, Producer, TopicPartition

from integration.lag_scenes import Scene
from kappa_operator.kafka.configs import ConfigReader
from kappa_operator.kafka.connection import Connection
from kappa_operator.kafka.model import KafkaAccess
from kappa_operator.lag.brokers import Brokers
from kappa_operator.lag.model import ClusterSample, GroupPartition, Partition, Sample
from kappa_operator.lag.retentions import Retentions
from kappa_operator.lag.sampler import Sampler
from lab import kafka_jars
from lab.broker import Broker

FOLDER = Path(__file__).resolve().parents[1] / "unit" / "control" / "traces"
LOOK, COMMIT, LASTS = 0.5, 1.0, 90.0
"""Seconds from look to look, from commit to commit, and in all."""
RATE = 50
"""Records a second that are produced."""
COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@dataclass
class Stage:
    """A topic, its group, and what was committed when, with the end of the log then: seconds, offset, end."""

    bootstrap: str
    name: str
    began: float
    commits: list[tuple[float, int, int]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def now(self) -> float:
        return time.monotonic() - self.began

    def produce(self, until: float) -> None:
        """Produce at the rate until so many seconds after the start."""
        producer, sent = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, "log_level": 0}), 0
        while self.now < until and not self.over.wait(0.02):
            while sent < RATE * min(self.now, until):
                producer.produce(self.name, b"x" * 200)
                sent += 1
            producer.poll(0)
        producer.flush(10)

    def consume(self, begin: float, until: float, rate: Callable[[float], float]) -> None:
        """Be a member of the group meanwhile, take so many records a second at most, and commit what was taken."""
        self.over.wait(max(0.0, begin - self.now))
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": self.name, "auto.offset.reset": "earliest",
             "enable.auto.commit": False, "session.timeout.ms": 6000, "log_level": 0}
        )  # fmt: skip
        consumer.subscribe([self.name])
        position, committed, due, budget, last = -1, -1, self.now + COMMIT, 0.0, self.now
        while self.now < until and not self.over.is_set():
            now = self.now
            budget, last = min(budget + rate(now) * (now - last), 4.0 * RATE), now
            message = consumer.poll(0.05) if budget >= 1 else None
            if message is None:
                self.over.wait(0.02)
            elif message.error() is None:
                budget, position = budget - 1, int(message.offset() or 0) + 1
            if self.now >= due and position > committed:
                self._commit(consumer, position)
                committed, due = position, self.now + COMMIT
        consumer.close()

    def _commit(self, consumer: Consumer, position: int) -> None:
        try:
            assert consumer.commit(offsets=[self._place(position)], asynchronous=False) is not None
        except KafkaException as error:  # the group is being balanced: the next commit comes soon
            print(self.name, error, file=sys.stderr)
            return
        _, end = consumer.get_watermark_offsets(self._place(), timeout=5)
        self.commits.append((round(self.now, 2), position, int(end)))

    def _place(self, offset: int = OFFSET_INVALID) -> TopicPartition:
        return TopicPartition(self.name, 0, offset)

    def reset(self, at: float) -> None:
        """Set the group back to the first record, as people do it: with Kafka's own command."""
        self.over.wait(max(0.0, at - self.now))
        java = ["java", "-XX:+UseSerialGC", "-Xmx256m", "-cp", f"{kafka_jars.fetch()}/*", COMMAND]
        wanted = ["--reset-offsets", "--to-earliest", "--execute", "--group", self.name, "--topic", self.name]
        subprocess.run(
            [*java, "--bootstrap-server", self.bootstrap, *wanted], check=True, capture_output=True
        )


def steady(_: float) -> float:
    """Take more than comes."""
    return 4.0 * RATE


def play_healthy(stage: Stage) -> list[Callable[[], None]]:
    """All that comes is taken."""
    return [lambda: stage.produce(LASTS), lambda: stage.consume(0, LASTS, steady)]


def play_slow(stage: Stage) -> list[Callable[[], None]]:
    """From 15 to 50 s it takes a fifth of what comes, then four times as much."""
    return [
        lambda: stage.produce(LASTS),
        lambda: stage.consume(0, LASTS, lambda now: RATE / 5 if 15 <= now < 50 else 4.0 * RATE),
    ]


def play_stopped(stage: Stage) -> list[Callable[[], None]]:
    """After 20 s the only member leaves."""
    return [lambda: stage.produce(LASTS), lambda: stage.consume(0, 20, steady)]


def play_rewound(stage: Stage) -> list[Callable[[], None]]:
    """After 30 s the member leaves, the group is set back to the first record, and a member takes them all again."""
    return [
        lambda: stage.produce(LASTS),
        lambda: stage.consume(0, 30, steady),
        lambda: stage.reset(32),
        lambda: stage.consume(42, LASTS, steady),
    ]


def play_idle(stage: Stage) -> list[Callable[[], None]]:
    """After 20 s nothing is produced any more; the group waits for more."""
    return [lambda: stage.produce(20), lambda: stage.consume(0, LASTS, steady)]


def play_overtaken(stage: Stage) -> list[Callable[[], None]]:
    """From 10 s on it takes a tenth of what comes, and the broker removes what is older than 20 s."""
    return [
        lambda: stage.produce(LASTS),
        lambda: stage.consume(0, LASTS, lambda now: RATE / 10 if now >= 10 else 4.0 * RATE),
    ]


SCENES: dict[str, Callable[[Stage], list[Callable[[], None]]]] = {
    "healthy": play_healthy,
    "slow-then-caught-up": play_slow,
    "stopped": play_stopped,
    "rewound-by-reset-offsets": play_rewound,
    "producer-stops": play_idle,
    "overtaken-by-retention": play_overtaken,
}
CONFIGS = {"overtaken-by-retention": {"retention.ms": "20000", "segment.ms": "2000"}}


async def watch(bootstrap: str, began: float) -> list[tuple[float, ClusterSample]]:
    """Sweep again and again until the scenes are over."""
    settings = {"bootstrap.servers": bootstrap, "security.protocol": "plaintext", "client.id": "recorder"}
    access = KafkaAccess.of(settings)
    sampler = Sampler(Brokers(Connection(access)), Retentions(ConfigReader(Connection(access))))
    seen = []
    while time.monotonic() - began < LASTS:
        due = time.monotonic() + LOOK
        seen.append((time.monotonic() - began, await sampler.sample()))
        await asyncio.sleep(max(0.0, due - time.monotonic()))
    await sampler.close()
    return seen


def write_trace(stage: Stage, seen: list[tuple[float, ClusterSample]]) -> None:
    """Write a scene's looks and commits."""
    pair = GroupPartition(stage.name, Partition(stage.name, 0))
    looks = [_write_look(at, sampled.samples[pair]) for at, sampled in seen if pair in sampled.samples]
    lines = [
        json.dumps({"scene": stage.name, "recorded": f"{datetime.now(UTC):%Y-%m-%d}", "looks": len(looks)}),
        *(json.dumps(["look", *look], separators=(",", ":")) for look in looks),
        *(json.dumps(["commit", *commit], separators=(",", ":")) for commit in stage.commits),
    ]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{stage.name}.jsonl").write_text("\n".join(lines) + "\n")


def _write_look(at: float, sample: Sample) -> tuple[float | int | bool | None, ...]:
    """Return seconds, start, end, last stable offset, committed offset, seconds behind, seconds to loss, empty offsets, whether it is a bound."""
    log = sample.log

    def shorten(value: float | None) -> float | None:
        return None if value is None else round(value, 2)

    known = shorten(sample.behind), shorten(sample.loss)
    return round(at, 2), log.start, log.end, log.stable, sample.committed, *known, sample.empty, sample.bound


def main() -> None:
    """Play all scenes on a broker of their own and write what was seen."""
    with Broker(properties={"log.retention.check.interval.ms": "1000"}) as broker:
        scene = Scene(broker.bootstrap)
        for name in SCENES:
            scene.make(
                name, 1, **{key.replace(".", "_"): value for key, value in CONFIGS.get(name, {}).items()}
            )
        began = time.monotonic()
        stages = [Stage(broker.bootstrap, name, began) for name in SCENES]
        parts = [part for stage in stages for part in SCENES[stage.name](stage)]
        with ThreadPoolExecutor(len(parts)) as pool:
            playing = [pool.submit(part) for part in parts]
            seen = asyncio.run(watch(broker.bootstrap, began))
            for each in playing:
                each.result()
        for stage in stages:
            write_trace(stage, seen)
            print(stage.name, len(stage.commits), "commits")


if __name__ == "__main__":
    main()
