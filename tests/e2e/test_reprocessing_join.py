"""A join of two streams on executors is reprocessed while records come in, and the consumer group that reads it continues at the cut.

The new version requests three executors while it replays, has the two for which a quota leaves room, and one afterwards, in the same driver.
The comparison finds just the differences that the records up to its cut make, and the result equals a batch over the whole input.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer

from demo.compare import read_topic
from e2e.place import START_SECONDS, Place
from e2e.test_reprocessing_faults import await_phase, read_status
from kappa_crds.comparison import ComparisonSummary
from kappa_crds.reprocessing import Cut, ReprocessingPhase, read_positions
from lab import kafka

pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos]
Phase = ReprocessingPhase
_WARM_UP_SECONDS = 10
STEP = 0.04
"""Seconds between two calls."""
_BACKLOG = 2000
"""Orders from before: the replay of fewer may end before its second executor has started."""


@pytest.fixture(scope="module")
def place(platform: None) -> Iterator[Place]:
    place = Place.create("join")
    yield place
    place.empty()


@contextmanager
def writing(write: Callable[[Producer, int], None], backlog: int = 0) -> Iterator[list[int]]:
    """Call a function with a producer and a number, at once for a backlog and then all the time; the list has how often it was called."""
    done, ending = [0], threading.Event()
    producer = Producer(
        {"bootstrap.servers": kafka.host_bootstrap(), "enable.idempotence": True, "log_level": 0}
    )

    def run() -> None:
        while done[0] < backlog or not ending.wait(STEP):
            write(producer, done[0])
            producer.poll(0)
            done[0] += 1
        producer.flush(60)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield done
    finally:
        ending.set()
        thread.join(60)


def read_rows(topic: str) -> list[dict[str, Any]]:
    """Return the values of a topic."""
    return [json.loads(each.value() or b"null") for each in read_topic(topic, kafka.host_bootstrap())]


def read_until(topic: str, cut: Cut) -> Iterator[Message]:
    """Yield the records of an input up to a cut."""
    ends = read_positions(cut.inputs)[topic]
    for message in read_topic(topic, kafka.host_bootstrap()):
        if (message.offset() or 0) < ends[message.partition() or 0]:
            yield message


def find_name(place: Place, pipeline: str) -> str:
    """Return the name of the Reprocessing of a pipeline."""

    def find() -> list[str]:
        found = place.find("reprocessings")
        return [each["metadata"]["name"] for each in found if each["spec"]["pipelineRef"] == pipeline]

    place.wait(lambda: bool(find()), f"{pipeline} is reprocessed", 60)
    (name,) = find()
    return name


def request(place: Place, name: str, action: str) -> None:
    place.patch(f"reprocessings.kappa-platform.io/{name}", {"request": {"action": action}})


def get_summaries(place: Place, name: str) -> tuple[Cut, dict[str, ComparisonSummary]]:
    """Return the cut of the comparison, and what it found by sink."""
    found = read_status(place, name).comparison
    assert found is not None
    assert all(each.summary is not None for each in found.sinks), found.message
    return found.cut, {each.sink: each.summary for each in found.sinks if each.summary is not None}


def count(summary: ComparisonSummary) -> tuple[int, int, int, int]:
    """Return how many rows are changed, only in the old or the new version, and undecided."""
    return summary.changed, summary.only_old, summary.only_new, summary.undecided


@dataclass
class Reports:
    """A consumer of a group, which commits what it has read once it is to stop."""

    group: str
    found: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def read(self, topic: str, is_last: Callable[[], bool]) -> None:
        """Read as a member of the group until nothing is left, once it may be the last."""
        config = {
            "bootstrap.servers": kafka.host_bootstrap(),
            "group.id": self.group,
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        consumer = Consumer({**config, "auto.offset.reset": "earliest"} if not self.found else config)
        consumer.subscribe([topic])
        quiet = 0
        while quiet < 3:
            may_end, message = is_last(), consumer.poll(1)
            quiet = quiet + 1 if message is None and may_end else 0
            if message is not None:
                assert message.error() is None, message.error()
                self.found.append((topic, json.loads(message.value() or b"")))
        consumer.commit(asynchronous=False)
        consumer.close()


def write_order(namespace: str, started: datetime) -> Callable[[Producer, int], None]:
    """Return what writes an order, and a payment for two of three."""

    def write(producer: Producer, seq: int) -> None:
        at = started + timedelta(seconds=seq * STEP)
        order = {"seq": seq, "amount": 100 + seq % 7, "at": at.isoformat()}
        producer.produce(f"{namespace}-ordered", json.dumps(order).encode(), str(seq))
        if seq % 3:
            payment = {
                "seq": seq,
                "amount": 1 + seq % 5,
                "at": (at + timedelta(seconds=1)).isoformat(),
            }
            producer.produce(f"{namespace}-payments", json.dumps(payment).encode(), str(seq))

    return write


_QUOTA = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: small}
spec: {hard: {pods: "5"}}
"""
"""Two drivers and three executors: those of the spec, and one more."""


def count_executors(place: Place, fields: str = "status.phase=Running") -> Counter[str]:
    """Return how many executors run, by the name of their driver."""
    pods = place.find("pods", "spark-role=executor", fields=fields)
    return Counter(pod["metadata"]["ownerReferences"][0]["name"] for pod in pods)


def await_two_executors(place: Place, name: str, active: str) -> str:
    """Wait until the new version has two executors; return its driver."""
    place.wait(lambda: 2 in count_executors(place).values(), "the replay has a second executor", 300)
    found = count_executors(place)
    (driver,) = found.keys() - {active}
    assert found == {active: 1, driver: 2}
    assert read_status(place, name).phase is Phase.CATCHING_UP
    return driver


def compute_total(seq: int, sign: int) -> int:
    """Return what a version makes of an order."""
    return 100 + seq % 7 + (sign * (1 + seq % 5) if seq % 3 else 0)


def test_a_join_on_an_executor_is_reprocessed_and_a_consumer_group_continues(place: Place) -> None:
    place.apply(place.render("reprocessed_join.yaml"))
    for topic in ("ordered", "payments", "paid"):
        place.await_ready(f"topics.kappa-platform.io/{topic}", 60)
    reports, old = Reports(f"{place.name}-reports"), f"{place.name}-paid"
    started = datetime.now(UTC) - timedelta(seconds=_BACKLOG * STEP)
    with writing(write_order(place.name, started), _BACKLOG) as written:
        place.await_ready("pipeline/paid", START_SECONDS)
        ((active, executors),) = count_executors(place).items()
        assert executors == 1
        place.apply(_QUOTA)
        time.sleep(_WARM_UP_SECONDS)
        fixed = place.find("pipelines.kappa-platform.io", fields="metadata.name=paid")[0]["spec"]["views"]
        fixed[0]["sql"] = fixed[0]["sql"].replace("o.amount - coalesce", "o.amount + coalesce")
        place.patch("kpp/paid", {"views": fixed})
        name = find_name(place, "paid")
        holding = threading.Event()
        reader = threading.Thread(target=reports.read, args=(old, holding.is_set))
        reader.start()
        driver = await_two_executors(place, name, active)
        await_phase(place, name, Phase.READY_TO_CUT, 500)
        place.wait(lambda: count_executors(place, "") == {active: 1, driver: 1}, "each version has one", 60)
        check_join_comparison(place, name)
        request(place, name, "Cut")
        place.wait(
            lambda: read_status(place, name).holding_for_groups is not None, "all hold for the group", 120
        )
        holding.set()
        reader.join(60)
        await_phase(place, name, Phase.SOAKING, 60)
        assert count_executors(place) == {active: 1, driver: 1}, "no driver was started again"
        status = read_status(place, name)
        assert status.cut is not None
        assert status.cut.groups == (reports.group,)
        (new,) = (each.topic for each in place.pipeline("paid").outputs)
        time.sleep(_WARM_UP_SECONDS)
        request(place, name, "Finish")
        await_phase(place, name, Phase.DONE, 60)
    (old_topic,) = {topic for topic, _ in reports.found}
    before = len(reports.found)
    pairs = sum(1 for seq in range(written[0]) if seq % 3)
    place.wait(
        lambda: sum(row.get("paid") is not None for row in read_rows(new)) >= pairs,
        "all orders are joined",
        60,
    )
    reports.read(new, lambda: True)
    assert before
    check_join(read_rows(new), written[0], 1)
    seen = [row["seq"] for _, row in reports.found]
    assert sorted(seen) == sorted(row["seq"] for row in read_rows(new)), "the group has each row once"
    for topic, row in reports.found:
        assert row["total"] == compute_total(row["seq"], -1 if topic == old_topic else 1)
    place.kubectl("delete", "pipeline", "paid", "--timeout=120s", timeout=130)


def check_join_comparison(place: Place, name: str) -> None:
    """Fail where it found anything but the orders with a payment, and where orders without one are not equal."""
    cut, found = get_summaries(place, name)
    orders, payments = (
        {json.loads(each.value() or b"")["seq"] for each in read_until(f"{place.name}-{topic}", cut)}
        for topic in ("ordered", "payments")
    )
    pairs, unpaid = len(orders & payments), sum(1 for seq in orders if not seq % 3)
    assert pairs > 100
    assert count(found["log"]) == (pairs, 0, 0, 0)
    closed = sum(1 for seq in orders if not seq % 3 and seq * STEP < max(orders) * STEP - 20)
    assert closed <= found["log"].equal <= unpaid


def check_join(rows: list[dict[str, Any]], written: int, sign: int) -> None:
    """Fail where the rows are not the join of all records, computed in plain Python; the last unpaid orders are still open."""
    seqs = [row["seq"] for row in rows]
    assert len(seqs) == len(set(seqs)), "a row is repeated"
    assert {seq for seq in seqs if seq % 3} == {seq for seq in range(written) if seq % 3}
    unpaid = {seq for seq in range(written) if not seq % 3}
    closed = {seq for seq in unpaid if seq * STEP < written * STEP - 20}
    assert closed <= {seq for seq in seqs if not seq % 3} <= unpaid
    assert all(row["total"] == compute_total(row["seq"], sign) for row in rows)
