"""Sliding windows, joins and patterns on executors that are killed, written exactly once, through a change and a restored savepoint.

Each row equals that of plain Python over all events, and only what was written after the savepoint is there a second time.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Producer

from demo.compare import read_topic
from e2e.driver_watch import DriverWatch
from e2e.faults import kill_processes
from e2e.place import START_SECONDS, Place
from e2e.test_ledger import take
from e2e.test_reprocessing_join import STEP, writing
from e2e.test_upgrades import has_ended
from kappa_crds.pipeline_status import PipelineState, UpgradePhase
from lab import kafka

pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos]  # a driver and two executors start three times
START = datetime(2026, 1, 1, tzinfo=UTC)
KEYS, LENGTH, ROUNDS = 12, 7.0, 5
"""Each key has a rate in the first of so many rounds of all keys, in less than the two seconds of the join."""
SINKS = {"sums": 0, "rated": 0, "followed": 2 * KEYS, "joined": 0}
"""How many of the last events have no row in a topic: a match has the two events of its key that follow."""
_AFTER_SECONDS = 3600
_ROW_SECONDS = 120

Row = tuple[int, ...]


@pytest.fixture(scope="module")
def place(platform: None) -> Iterator[Place]:
    place = Place.create("executors")
    place.apply(place.render("one_sided.yaml"))
    for topic in ("events", "rates", *SINKS):
        place.await_ready(f"topics.kappa-platform.io/{topic}", 60)
    yield place
    place.empty()


def find_time(seq: int) -> datetime:
    return START + timedelta(seconds=seq * STEP)


def send(producer: Producer, place: Place, topic: str, key: str, at: datetime, **columns: int) -> None:
    row = {"k": key, "at": at.isoformat(), **columns}
    producer.produce(f"{place.name}-{topic}", json.dumps(row).encode(), key)


def write_to(place: Place) -> Callable[[Producer, int], None]:
    """Return what writes an event, and the rate of its key in each fifth round."""

    def write(producer: Producer, seq: int) -> None:
        key, at = f"k{seq % KEYS}", find_time(seq)
        if seq // KEYS % ROUNDS == 0:
            send(producer, place, "rates", key, at, rate=seq)
        send(producer, place, "events", key, at, seq=seq)

    return write


def close(place: Place, written: int) -> None:
    """Write an event and a rate of a much later time, with other keys: all rows of earlier ones are final."""
    producer, at = Producer({"bootstrap.servers": kafka.host_bootstrap()}), find_time(written)
    for topic, column in (("events", "seq"), ("rates", "rate")):
        send(
            producer, place, topic, f"last of {topic}", at + timedelta(seconds=_AFTER_SECONDS), **{column: -1}
        )
    assert producer.flush(60) == 0


def compute(seq: int) -> dict[str, Row]:
    """Return the rows of an event: its number, then count and sum of its window, its rate and the time of that, the next one and a sum, or its rate."""
    window = [each for each in range(seq % KEYS, seq + 1, KEYS) if (seq - each) * STEP <= LENGTH]
    rate = seq - seq // KEYS % ROUNDS * KEYS
    since = round(find_time(rate).timestamp() * 1000)
    followed = (seq, seq + KEYS, 3 * (seq + KEYS))
    sums = (seq, len(window), sum(window))
    return {"sums": sums, "rated": (seq, rate, since), "followed": followed, "joined": (seq, rate)}


def parse(row: dict[str, Any]) -> Row:
    if "n" in row:
        return row["seq"], row["n"], row["total"]
    if "next" in row:
        return row["seq"], row["next"], row["total"]
    if "joined" in row:
        return row["seq"], row["joined"]
    return row["seq"], row["rate"], round(datetime.fromisoformat(row["since"]).timestamp() * 1000)


def read_rows(place: Place, topic: str) -> Counter[Row]:
    """Return how often each committed row is in a topic; fail where one is wrong."""
    messages = read_topic(f"{place.name}-{topic}", kafka.host_bootstrap())
    found = Counter(parse(json.loads(each.value() or b"")) for each in messages)
    wrong = {row: compute(row[0])[topic] for row in found if row != compute(row[0])[topic]}
    assert not wrong, f"{topic}: found and expected rows: {wrong}"
    return found


def read_all(place: Place) -> dict[str, Counter[Row]]:
    return {topic: read_rows(place, topic) for topic in SINKS}


def await_rows(place: Place, count: int) -> dict[str, Counter[Row]]:
    """Wait until all topics have the rows of so many events, and return all."""

    def are_there() -> bool:
        return all(len(found) >= count - SINKS[topic] for topic, found in read_all(place).items())

    place.wait(are_there, f"{count} events have their rows", _ROW_SECONDS)
    return read_all(place)


def check_once(found: dict[str, Counter[Row]]) -> None:
    """Fail where a row is repeated, or one before another one of its key is missing."""
    for topic, rows in found.items():
        assert set(rows.values()) == {1}, f"{topic}: {[row for row, count in rows.items() if count > 1]}"
        for key in range(KEYS):
            seqs = sorted(row[0] for row in rows if row[0] % KEYS == key)
            assert seqs == [key + KEYS * number for number in range(len(seqs))], f"{topic}: a row is missing"


def kill_executor(place: Place, written: list[int]) -> None:
    """Kill an executor under load, and wait until there are two and all that was written has its rows. The driver continues."""
    before = place.pipeline().active
    executors = place.find("pods", "spark-role=executor", fields="status.phase=Running")
    names = sorted(each["metadata"]["name"] for each in executors)
    assert len(names) == 2, names
    kill_processes(names[0], place.name)

    def are_two() -> bool:
        found = place.find("pods", "spark-role=executor", fields="status.phase=Running")
        return len({each["metadata"]["name"] for each in found} - {names[0]}) == 2

    place.wait(are_two, "another executor runs", START_SECONDS)
    await_rows(place, written[0])
    assert place.pipeline().active.generation == before.generation, "the driver continues"


def change(place: Place) -> None:
    """Change an aggregate, with a savepoint before and without a second driver: the state continues."""
    before = place.pipeline()
    views = place.find("pipelines.kappa-platform.io")[0]["spec"]["views"]
    views[0]["sliding"]["aggregates"]["total"] = "sum(seq) + 0"
    place.patch("kpp/counts", {"views": views, "upgrade": {"mode": "Savepoint", "handover": "Cold"}})
    after = place.await_pipeline(lambda found: has_ended(found, before), "is changed")
    assert after.upgrade is not None
    assert after.upgrade.phase is UpgradePhase.DONE, after.upgrade.message
    assert after.upgrade.savepoint is not None
    assert after.checkpoint == before.checkpoint


def restore(place: Place, savepoint: str) -> None:
    """Restore the pipeline from a savepoint, in a new checkpoint."""
    before = place.pipeline()
    place.patch("kpp/counts", {"restore": {"savepoint": savepoint}})
    place.await_pipeline(
        lambda found: found.state == PipelineState.RUNNING and found.checkpoint > before.checkpoint,
        "runs from the savepoint",
    )


def test_state_that_keeps_each_row_once_is_exact_on_executors_that_are_killed(place: Place) -> None:
    with DriverWatch(place.name) as drivers, writing(write_to(place)) as written:
        place.await_ready("pipeline/counts", START_SECONDS)
        await_rows(place, written[0])
        kill_executor(place, written)
        early = read_all(place)
        check_once(early)
        take(place, "kept")
        change(place)
        kill_executor(place, written)
        check_once(read_all(place))
        restore(place, "kept")
        await_rows(place, written[0])
        kill_executor(place, written)
        drivers.check()
    close(place, written[0])
    found = await_rows(place, written[0])
    for topic, rows in found.items():
        assert set(rows) == {compute(seq)[topic] for seq in range(written[0] - SINKS[topic])}
        assert all(rows[row] == 1 for row in early[topic]), (
            "what was written before the savepoint is not repeated"
        )
        again = [row for row, count in rows.items() if count > 1]
        assert again, "what was written after the savepoint is written again"
        assert max(rows.values()) == 2
        print(f"  {topic}: {len(rows)} rows, {len(again)} of them again after the restore")
