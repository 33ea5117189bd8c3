"""Reprocessings under live writes, while the operator, a driver or the broker is killed in each of their phases: every record has its price
once in each version, all sums are exact, a reader that follows the cuts sees each record once, and no run ever has two drivers.

Five reprocessings, in each another victim at each phase, so that all of them die in all phases. `KAPPA_SEED` repeats the order.
"""

import json
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from demo.compare import read_topic
from e2e.driver_watch import DriverWatch
from e2e.faults import KILL_JVM, Faults, kill_processes, lose_pod
from e2e.place import START_SECONDS, Place
from e2e.test_reprocessing import PollingReader, writing
from kappa_client import NoPathError, ReadBeyondCutError
from kappa_crds.pipeline_status import RunRole, UpgradePhase
from kappa_crds.reprocessing import (
    ComparisonStatus,
    Cut,
    ReprocessingPhase,
    ReprocessingStatus,
    TopicPosition,
)
from lab import cluster, network
from lab.broker import Broker
from platform_switch import NAMESPACE, find_pods

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.chaos,
    pytest.mark.skipif(cluster.is_docker_there(), reason="kills processes of this machine"),
]
Phase = ReprocessingPhase
SEED = int(os.environ.get("KAPPA_SEED", "0")) or random.SystemRandom().randrange(1, 10_000)
OPERATOR, ACTIVE, SIDE, BROKER = VICTIMS = ("operator", "active driver", "other driver", "broker")
PHASES = (
    *(Phase.PROVING, Phase.CATCHING_UP, Phase.COMPARING, Phase.READY_TO_CUT),
    *(Phase.CUTTING_OVER, Phase.SOAKING, Phase.ROLLING_BACK),
)
ROUNDS = 5
_KEYS = 12
_FIRST_FACTOR = 2
_PHASE_SECONDS = 400
_EVERY = 0.05
_PAUSE = 0.05
"""Seconds between two records: every row differs in the comparison, so each costs a driver with little CPU a millisecond."""
_LATEST = 0.8
"""Seconds in a phase before something dies: those in which both drivers are brought to one input take about three."""


class Follower:
    """A reader that polls all the time, and the topics that it has to read, one after the other."""

    def __init__(self, place: Place, broker: Broker) -> None:
        self._open = partial(PollingReader, place, broker.bootstrap)
        self.reader, self.path = self._open(), [f"{place.name}-prices"]

    def begin_again(self) -> None:
        """Read the present topic from its start."""
        self.reader, self.path = self._open(), self.path[-1:]


@dataclass(frozen=True)
class Scene(Faults):
    """The pipeline, what dies, and what is known of its versions: the factor by the topic of prices."""

    drivers: DriverWatch
    follower: Follower
    written: list[int]
    factors: dict[str, int]

    def hit(self, victim: str) -> str:
        """Kill something of this kind, and return what was done."""
        if victim == OPERATOR:
            pods = [each.removeprefix("pod/") for each in find_pods()]
            for pod in pods:
                lose_pod(pod, NAMESPACE)
            return f"all {len(pods)} pods of the operator were lost"
        if victim == BROKER:
            return self.kill_broker()
        name = self.name_driver(victim)
        ways: dict[str, Callable[[], object]] = {
            "was killed": lambda: kill_processes(name, self.place.name),
            "was deleted by force": lambda: self.place.kubectl(
                "delete", "pod", name, "--force", "--grace-period=0"
            ),
            "lost its JVM": lambda: self.place.kubectl("exec", name, "--", "python3", "-c", KILL_JVM),
        }
        how = self.random.choice(sorted(ways))
        ways[how]()
        return f"{name} {how}"

    def name_driver(self, victim: str) -> str:
        """Return the pod of a run's driver."""
        status = self.place.pipeline()
        (run,) = (status.active,) if victim == ACTIVE else status.sides
        assert run.driver is not None, f"the {victim} does not run"
        return run.driver

    def await_both(self) -> None:
        """Wait until the drivers of both runs work."""

        def work() -> bool:
            status = self.place.pipeline()
            runs = (status.active, *status.sides)
            return len(runs) == 2 and all(run.running_since and run.driver for run in runs)

        self.place.wait(work, "both drivers work", START_SECONDS)


def plan(number: int) -> dict[Phase, str]:
    """Return what dies in each phase of a reprocessing: in four of them each kind dies once in each phase."""
    order = random.Random(SEED).sample(VICTIMS, len(VICTIMS))
    found = {phase: order[(index + number) % len(VICTIMS)] for index, phase in enumerate(PHASES)}
    if found[Phase.PROVING] == SIDE:  # there is none yet
        found[Phase.PROVING] = ACTIVE
    return found


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(address=network.NODE_IP, heap_mib=512) as running:
        yield running


@pytest.fixture(scope="module")
def scene(platform: None, broker: Broker) -> Iterator[Scene]:
    place = Place.create("faults")
    place.apply(place.render("reprocessed_state.yaml", bootstrap=broker.bootstrap))
    for topic in ("events", "prices", "totals"):
        place.await_ready(f"topics.kappa-platform.io/{topic}", 60)
    delete_head(broker.bootstrap, f"{place.name}-events")
    events = f"{place.name}-events"
    with (
        DriverWatch(place.name, by_revision=True) as drivers,
        writing(events, broker.bootstrap, _PAUSE) as written,
    ):
        place.await_ready("pipeline/counts", START_SECONDS)
        follower, factors = Follower(place, broker), {f"{place.name}-prices": _FIRST_FACTOR}
        yield Scene(place, broker, random.Random(SEED), drivers, follower, written, factors)
    place.empty()


def delete_head(bootstrap: str, topic: str) -> None:
    """Write a record that no view uses, and delete it: the proof of the log waits for a person then, so something can die meanwhile."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, json.dumps({"k": "none", "seq": -1}).encode(), partition=0)
    assert producer.flush(30) == 0
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for each in admin.delete_records([TopicPartition(topic, 0, 1)]).values():
        each.result()


def read_status(place: Place, name: str) -> ReprocessingStatus:
    status = place.get("Reprocessing", name).status
    assert isinstance(status, ReprocessingStatus)
    return status


def await_phase(place: Place, name: str, phase: Phase, seconds: float = _PHASE_SECONDS) -> None:
    """Wait until the reprocessing is in the phase; poll more often than a phase is long."""
    deadline = time.monotonic() + seconds
    while (found := read_status(place, name)).phase is not phase:
        if time.monotonic() > deadline:
            place.fail(f"{name} is {found.phase}, not {phase}, after {seconds:.0f} s: {found.conditions}")
        time.sleep(_EVERY)


def start(scene: Scene, factor: int) -> str:
    """Change the factor, and return the name of the Reprocessing."""
    place = scene.place
    known = {each["metadata"]["name"] for each in place.find("reprocessings")}
    views = place.find("pipelines.kappa-platform.io")[0]["spec"]["views"]
    views[0]["sql"] = re.sub(r"seq \* \d+", f"seq * {factor}", views[0]["sql"])
    place.patch("kpp/counts", {"views": views})

    def find() -> set[str]:
        return {each["metadata"]["name"] for each in place.find("reprocessings")} - known

    place.wait(lambda: bool(find()), "there is a Reprocessing", 60)
    (name,) = find()
    return name


def proceed(scene: Scene, name: str, phase: Phase, *, finishes: bool) -> None:
    """Do what a person does for the next phase, once both drivers work again."""
    actions = {
        Phase.READY_TO_CUT: "Cut",
        Phase.SOAKING: "Finish" if finishes else "Rollback",
    }
    if phase is Phase.PROVING:
        scene.place.patch(f"reprocessings.kappa-platform.io/{name}", {"acknowledgeMissing": True})
    elif phase in actions:
        time.sleep(2)  # the operator may not know yet what died
        scene.await_both()
        request = {"request": {"action": actions[phase]}}
        scene.place.patch(f"reprocessings.kappa-platform.io/{name}", request)


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_reprocessing_is_exact_although_everything_dies(
    scene: Scene, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def say(text: str) -> None:
        with capsys.disabled():
            print(f"  {time.strftime('%H:%M:%S')} {text}", flush=True)

    finishes, place, victims = number == ROUNDS - 1, scene.place, plan(number)
    say(f"seed {SEED}, reprocessing {number + 1} of {ROUNDS}")
    factor = _FIRST_FACTOR + 1 + number
    name = start(scene, factor)
    for phase in PHASES[:-1] if finishes else PHASES:
        await_phase(place, name, phase)
        if phase is Phase.CATCHING_UP and victims[phase] == SIDE:
            scene.await_both()
        time.sleep(scene.random.uniform(0, _LATEST))
        before = read_status(place, name).phase
        say(f"{before}: {scene.hit(victims[phase])}; {scene.written[0]} records")
        assert before is phase, f"{phase} was over before something died"
        if phase is Phase.SOAKING:
            (topic,) = (each.topic for each in place.pipeline().outputs if each.name == "prices")
            scene.factors[topic] = factor
            scene.follower.path.append(topic)
        proceed(scene, name, phase, finishes=finishes)
    await_phase(place, name, Phase.DONE if finishes else Phase.ROLLED_BACK)
    place.await_pipeline(
        lambda found: len(found.runs) == 1 and found.active.running_since is not None,
        "has one run", START_SECONDS,
    )  # fmt: skip
    check_end(scene, name, say)
    if finishes:
        check_reader(scene)
        return
    base = next(iter(scene.factors))
    if is_cut(read_status(place, name).rollback_cut):
        scene.follower.path.append(base)
        return
    say("rolled back without a common point: the new version did not run again within a minute")
    assert victims[Phase.ROLLING_BACK] == ACTIVE
    check_reader(scene, is_left=True)
    scene.follower.path.append(base)
    scene.follower.begin_again()


def is_cut(cut: Cut | None) -> bool:
    """Return whether both versions were brought to one input; a version that does not run cannot be."""
    return cut is not None and bool(cut.inputs)


def check_end(scene: Scene, name: str, say: Callable[[str], None]) -> None:
    """Fail where something is left behind, or a version is not exact."""
    place, status = scene.place, read_status(scene.place, name)
    pipeline = place.pipeline()
    assert {run.role for run in pipeline.runs} == {RunRole.ACTIVE}
    assert pipeline.upgrade is not None
    assert pipeline.upgrade.phase in (UpgradePhase.DONE, UpgradePhase.ROLLED_BACK)
    place.wait(lambda: not find_holds(place), "no topic is held", 60)
    scene.drivers.check()
    assert status.comparison is not None
    check_comparison(status.comparison, scene.place.name)
    assert is_cut(status.cut)
    for cut in (status.cut, status.rollback_cut):
        if cut is not None and is_cut(cut):
            check_cut(scene, cut)
    await_all(scene)
    for topic, factor in scene.factors.items():
        say(
            f"{topic}: {check_prices(scene, topic, factor)} records, {check_totals(scene, topic, factor)} sums"
        )


def find_holds(place: Place) -> list[str]:
    """Return the annotations that hold the retention of topics."""
    return [
        f"{each['metadata']['name']}: {key}"
        for each in place.find("topics.kappa-platform.io")
        for key, value in each["metadata"].get("annotations", {}).items()
        if "reprocessing." in key and value
    ]


def count_inputs(positions: tuple[TopicPosition, ...]) -> int:
    """Return the number of records up to these offsets. One was deleted."""
    (position,) = positions
    return sum(position.offsets.values()) - 1


def check_comparison(found: ComparisonStatus, namespace: str) -> None:
    """Fail where the comparison found other differences than those of the factors: all prices and sums but those of 0."""
    records = count_inputs(found.cut.inputs)
    summaries = {each.sink: each.summary for each in found.sinks}
    log, totals = summaries["log"], summaries["totals"]
    assert log is not None, found.message
    assert totals is not None, found.message
    assert (log.equal, log.changed, log.only_old, log.only_new, log.undecided) == (1, records - 1, 0, 0, 0)
    sums = totals.equal, totals.changed, totals.only_old, totals.only_new, totals.undecided
    assert sums == (0, min(records, _KEYS), 0, 0, 0), namespace


def check_cut(scene: Scene, cut: Cut) -> None:
    """Fail where the outputs of both versions do not end with just the records up to the cut."""
    wanted = count_inputs(cut.inputs)
    for positions in (cut.old, cut.new):
        (prices,) = (each for each in positions if each.topic in scene.factors)
        ends = {int(part): offset for part, offset in prices.offsets.items()}
        records = read_topic(prices.topic, scene.broker.bootstrap)
        before = sum((each.offset() or 0) < ends[each.partition() or 0] for each in records)
        assert before == wanted, f"{prices.topic} has {before} prices of {wanted} records up to the cut"


def await_all(scene: Scene) -> None:
    """Wait until all that is written by now has a price in the active version: no driver holds any more."""
    (topic,) = (each.topic for each in scene.place.pipeline().outputs if each.name == "prices")
    wanted = scene.written[0]

    def is_there() -> bool:
        return sum(1 for _ in read_topic(topic, scene.broker.bootstrap)) >= wanted

    scene.place.wait(is_there, f"{wanted} records have a price in {topic}", 120)


def check_prices(scene: Scene, topic: str, factor: int) -> int:
    """Fail where a record has no price, two prices or that of another version; return how many there are."""
    rows = [json.loads(each.value() or b"") for each in read_topic(topic, scene.broker.bootstrap)]
    assert {row["price"] - row["seq"] * factor for row in rows} == {0}, topic
    check_numbers([row["seq"] for row in rows], topic)
    return len(rows)


def check_numbers(seqs: list[int], where: str) -> None:
    """Fail where a number is missing before another one of its key, or is there twice."""
    for key in range(_KEYS):  # a key is in one partition, in order
        own = [seq for seq in seqs if seq % _KEYS == key]
        expected = [key + _KEYS * number for number in range(len(own))]
        assert own == expected, f"{where}: key {key}: {find_first_difference(own, expected)}"


def find_first_difference(found: list[int], expected: list[int]) -> str:
    index = next(
        number for number, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1]
    )
    return f"{found[max(0, index - 2) : index + 3]} where {expected[index]} is expected"


def check_totals(scene: Scene, prices: str, factor: int) -> int:
    """Fail where a sum is not that of the first records of its key; return how many there are."""
    topic = prices.replace(f"{scene.place.name}-prices", f"{scene.place.name}-totals")
    count = 0
    for message in read_topic(topic, scene.broker.bootstrap):
        row = json.loads(message.value() or b"")
        n, key = row["n"], int(row["k"].removeprefix("k"))
        seqs = n * key + _KEYS * n * (n - 1) // 2
        assert (row["seqs"], row["total"]) == (seqs, seqs * factor), f"{topic}: {row}"
        count += 1
    return count


def check_reader(scene: Scene, *, is_left: bool = False) -> None:
    """Fail where the reader that polled all the time lost or repeated a record, or has one of a version that was not active.

    It `is_left` where a rollback had no common point: it has an error then.
    """
    reader, wanted = scene.follower.reader, scene.written[0]
    if not is_left:
        scene.place.wait(lambda: len(reader.found) >= wanted, "the reader has all records", 60)
    seen = reader.end()
    assert any(isinstance(each, NoPathError) for each in reader.errors) == is_left
    assert not any(isinstance(each, ReadBeyondCutError) for each in reader.errors)
    assert [topic for topic, _ in groupby(topic for _, _, topic in seen)] == scene.follower.path
    assert all(price == seq * scene.factors[topic] for seq, price, topic in seen)
    check_numbers(sorted(seq for seq, _, _ in seen), "the reader")
