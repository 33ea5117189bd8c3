"""Thirty changes of a pipeline that counts at full rate, while whatever it stands on dies at random: nothing is lost, nothing doubled.

Each result is checked as it comes (`e2e.ledger`); at the end all of the input is counted once more without Spark, and compared. What
the topic of the results has twice is counted: the sink's guarantee is at least once, so batches that were cut short, and records after a savepoint that
was gone back to, are written again. `KAPPA_REDEPLOYS` makes it shorter, `KAPPA_SEED` repeats what was chosen.
"""

import itertools
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from e2e.counting import Counting
from e2e.driver_watch import DriverWatch
from e2e.faults import Faults
from e2e.ledger import Ledger
from e2e.place import Place
from kappa_crds.pipeline_status import AT_WORK, PipelineState, PipelineStatus, UpgradePhase
from kappa_crds.savepoint import SavepointStatus
from lab import cluster, containerd, network
from lab.broker import Broker
from lab.errors import LabError

pytestmark = [
    pytest.mark.timeout(4 * 3600),
    pytest.mark.chaos,
    pytest.mark.skipif(cluster.is_docker_there(), reason="kills servers that are processes of this machine"),
]

REDEPLOYS = int(os.environ.get("KAPPA_REDEPLOYS", "30"))
SEED = int(os.environ.get("KAPPA_SEED", "0")) or random.SystemRandom().randrange(1, 10_000)
_PAUSE = 0.002
_CHANGE_SECONDS = 600
_CATCH_UP_SECONDS = 900.0
_FAULT_WITHIN = 25.0
_OTHER_IMAGE = "kappa/pipelines:other"
_SQL = "SELECT k, count(*) AS n, max(seq) AS last, sum(seq) AS total FROM events GROUP BY k"
_PARTITIONS = itertools.cycle((2, 4, 3))

SAVEPOINT = """
apiVersion: kappa-platform.io/v1alpha1
kind: Savepoint
metadata: {{name: {name}}}
spec: {{pipelineRef: counts{verify}}}
"""


@pytest.fixture
def other_image() -> str:
    """Another name of the image of pipelines: for the platform another image."""
    (reference,) = [name for name in containerd.image_digests() if name.endswith("kappa/pipelines:dev")]
    containerd.name_image(reference, reference.replace("kappa/pipelines:dev", _OTHER_IMAGE))
    return _OTHER_IMAGE


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(address=network.NODE_IP, heap_mib=512) as running:
        yield running


@pytest.fixture
def counting(platform: None, broker: Broker) -> Iterator[Counting]:
    """The counting pipeline of the other tests with an executor, over a broker that can be killed."""
    place = Place.create("ledger")
    manifests = place.render("counting.yaml").replace("kafka.kafka.svc:9092", broker.bootstrap)
    with DriverWatch(place.name) as drivers:
        place.apply(manifests.replace("{count: 0,", "{count: 1,"))
        place.await_ready("topics.kappa-platform.io/events", 60)
        place.await_ready("topics.kappa-platform.io/counted", 60)
        source, result = f"{place.name}-events", f"{place.name}-counted"
        with Ledger(broker.bootstrap, source, result, pause=_PAUSE) as ledger:
            place.await_ready("pipeline/counts")
            yield Counting(place, ledger, drivers)
    place.empty()


@dataclass
class Changes:
    """The changes that are made one after another, each with a number."""

    place: Place
    random: random.Random
    image: str
    kept: list[str] = field(default_factory=list)

    def make(self, number: int) -> str:
        """Make the next change, and say what it is."""
        kinds: tuple[Callable[[int], str], ...] = (
            *(self.change_batches, self.change_sql, self.change_image, self.divide_state),
            *(self.scale_executors, self.rewind, self.restart, self.suspend),
        )
        kind = kinds[number % len(kinds)]
        return kind(number)

    def change_batches(self, number: int) -> str:
        """Change how much a batch reads at most, with a savepoint before."""
        return self._patch(upgrade=self._upgrade("Savepoint"), trigger={"maxRecords": 200_000 + number})

    def change_sql(self, number: int) -> str:
        """Change the text of the view, and not what it keeps state for."""
        view = {
            "name": "counted",
            "sql": _SQL.replace("events", f"events WHERE seq > -{number}"),
            "allowUnboundedState": True,
        }
        return self._patch(upgrade=self._upgrade("LastState"), views=[view])

    def change_image(self, number: int) -> str:
        """Change the image."""
        image = self.image if self.place.get("Pipeline", "counts").spec.image is None else None
        return self._patch(upgrade=self._upgrade("LastState"), image=image, restartNonce=f"image-{number}")

    def divide_state(self, number: int) -> str:
        """Have the state divided anew: 2, 4, 3, and again."""
        return self._patch(upgrade=self._upgrade("LastState"), statePartitions=next(_PARTITIONS))

    def scale_executors(self, number: int) -> str:
        """Change the number of executors."""
        before = self.place.get("Pipeline", "counts").spec.resources.executors.count
        count = self.random.choice([count for count in (1, 2, 3) if count != before])
        return self._patch(resources={"executors": {"count": count}})

    def restart(self, number: int) -> str:
        """Have another driver and nothing else."""
        return self._patch(upgrade=self._upgrade("LastState"), restartNonce=f"restart-{number}")

    def suspend(self, number: int) -> str:
        """Suspend the pipeline, change it meanwhile, and resume it."""
        self._patch(suspend=True)
        self.place.await_pipeline(
            lambda status: status.state == PipelineState.SUSPENDED, "is suspended", _CHANGE_SECONDS
        )
        return "suspended and " + self._patch(suspend=False, trigger={"maxRecords": 210_000 + number})

    def rewind(self, number: int) -> str:
        """Go back to any of the savepoints that were kept."""
        savepoint = self.random.choice(self.kept)
        return self._patch(restore={"savepoint": savepoint, "request": str(number)})

    def _upgrade(self, mode: str) -> dict[str, str]:
        return {
            "mode": mode,
            "handover": self.random.choice(("Warm", "Warm", "Cold")),
            "healthTimeout": "2m",
        }

    def _patch(self, **spec: Any) -> str:
        self.place.patch("kpp/counts", spec)
        return ", ".join(f"{name} {json.dumps(value)}" for name, value in spec.items())


def take(place: Place, name: str, verify: str = "") -> SavepointStatus:
    """Take a savepoint and return what it is."""
    place.apply(SAVEPOINT.format(name=name, verify=verify))
    place.await_ready(f"savepoint/{name}", 300)
    status = place.get("Savepoint", name).status
    assert isinstance(status, SavepointStatus)
    return status


def await_end(place: Place, before: PipelineStatus) -> PipelineStatus:
    """Wait until a change has come to its end and the pipeline runs, and return its status."""

    def has_ended() -> bool:
        try:
            found = place.get("Pipeline", "counts")
        except LabError:
            return False  # the API server is just coming back
        status = found.status
        assert isinstance(status, PipelineStatus)
        seen = status.observed_generation == found.metadata.generation
        under_way = status.upgrade is not None and status.upgrade.phase in (
            *AT_WORK,
            UpgradePhase.WATCHING,
            UpgradePhase.ROLLING_BACK,
        )
        return (
            seen
            and status.state == PipelineState.RUNNING
            and not under_way
            and status.active.generation >= before.active.generation
        )

    place.wait(has_ended, "the change has come to its end", _CHANGE_SECONDS)
    return place.pipeline()


def test_thirty_changes_with_everything_killed_at_random_lose_nothing_and_double_nothing(
    counting: Counting, broker: Broker, other_image: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def say(text: str) -> None:
        with capsys.disabled():
            print(f"  {time.strftime('%H:%M:%S')} {text}", flush=True)

    say(f"seed {SEED}, {REDEPLOYS} changes")
    place, chance = counting.place, random.Random(SEED)
    faults, changes = Faults(place, broker, chance), Changes(place, chance, other_image)
    outcomes: Counter[str] = Counter()
    hits = 0
    counting.check()
    for number in range(REDEPLOYS):
        if number % 6 == 0:
            name = f"kept-{number}"
            take(place, name)
            changes.kept.append(name)
        before, begun = place.pipeline(), time.monotonic()
        made = changes.make(number)
        time.sleep(chance.uniform(0, _FAULT_WITHIN))
        hit, struck = faults.strike()
        hits += hit
        after = await_end(place, before)
        outcomes[find_outcome(before, after)] += 1
        counting.check(_CATCH_UP_SECONDS)
        say(
            f"{number + 1}: {made}; {struck}: {find_outcome(before, after)} in {time.monotonic() - begun:.0f} s,"
            f" generation {after.active.generation}, {after.restarts.total} restarts, {counting.ledger.total} records"
        )
    counting.ledger.pause()
    counting.check()
    assert place.pipeline().guarantee == "AtLeastOnce"
    compare_with_batch(counting)
    last = take(place, "last", ", verify: {by: StateReader}")
    assert last.queries
    place.wait(lambda: read_rows(place, "last") == [12], "Spark's state reader finds each key once", 120)
    say(
        f"{dict(outcomes)}; {counting.ledger.total} records; {counting.ledger.results} results,"
        f" {counting.ledger.repeated} of them written again; {place.pipeline().restarts.total} restarts"
    )
    assert outcomes["through"] >= REDEPLOYS // 2, outcomes
    assert hits >= REDEPLOYS // 2, "most changes are to be made amid faults"


def find_outcome(before: PipelineStatus, after: PipelineStatus) -> str:
    """Return `through`, or how a change was taken back."""
    change = after.upgrade
    if (
        change is not None
        and change != before.upgrade
        and change.phase in (UpgradePhase.REFUSED, UpgradePhase.ROLLED_BACK)
    ):
        return f"{change.phase.value}: {(change.message or '')[:160]}"
    return "through" if after.active.revision != before.active.revision else "as before"


def read_rows(place: Place, name: str) -> list[int]:
    """Return the rows of state that Spark's state reader found in a savepoint."""
    status = place.get("Savepoint", name).status
    assert isinstance(status, SavepointStatus)
    return [rows.rows for rows in status.state_rows]


def compare_with_batch(counting: Counting) -> None:
    """Count the whole input without Spark, and compare it with the last result of each key."""
    ledger = counting.ledger
    batch: dict[str, tuple[int, int, int]] = {}
    for record in read_topic(ledger.bootstrap, ledger.source):
        n, last, total = batch.get(record["k"], (0, 0, 0))
        batch[record["k"]] = (n + 1, max(last, record["seq"]), total + record["seq"])
    stream: dict[str, tuple[int, int, int]] = {}
    for row in read_topic(ledger.bootstrap, ledger.result):
        if row["n"] >= stream.get(row["k"], (0, 0, 0))[0]:
            stream[row["k"]] = (row["n"], row["last"], row["total"])
    assert sum(n for n, _, _ in batch.values()) == ledger.total
    assert stream == batch


def read_topic(bootstrap: str, topic: str) -> Iterator[dict[str, Any]]:
    """Yield what a topic holds now."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "batch", "enable.auto.commit": False})
    numbers = consumer.list_topics(topic, timeout=20).topics[topic].partitions
    ends = {
        number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=20)[1]
        for number in numbers
    }
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers])
    while any(at.offset < ends[at.partition] for at in consumer.position(_partitions(topic, ends))):
        for message in consumer.consume(10_000, 1.0):
            error = message.error()
            assert error is None, error
            yield json.loads(message.value() or b"{}")
    consumer.close()


def _partitions(topic: str, ends: dict[int, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number, end in ends.items() if end > 0]
