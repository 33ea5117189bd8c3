"""A driver continues in another version of a source topic with its state, on real Spark and Kafka, and again in the first one."""

import json
from pathlib import Path
from typing import Any

import pytest

from kappa_crds.inputs import TopicMove
from kappa_crds.progress import HoldPhase, InputVector
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_pipelines.errors import LostDataError
from lab.broker import Broker
from spark.conftest import DriverThread, wait_for
from spark.revisions import build_revision, source
from spark.topics import Topics

KEYS = ("a", "b", "c")
SPEC = {
    "sources": [source("rows", "k STRING, n BIGINT")],
    "views": [
        {
            "name": "sums",
            "sql": "SELECT k, sum(n) AS total, count(*) AS rows FROM rows GROUP BY k",
            "allowUnboundedState": True,
        }
    ],
    "sinks": [{"name": "sums", "from": "sums", "mode": "update", "kafka": {"topic": "sums", "key": ["k"]}}],
}


def write(topics: Topics, topic: str, rows: int, amount: int) -> None:
    """Write so many rows of each key."""
    topics.write(topic, [json.dumps({"k": k, "n": amount}) for _ in range(rows) for k in KEYS])


def read_sums(topics: Topics, topic: str) -> dict[str, tuple[int, int]]:
    """Return the last total and number of rows of each key."""
    rows = [json.loads(each.value() or b"") for each in topics.read(topic)]
    ordered = sorted(rows, key=lambda row: int(row["rows"]))
    return {row["k"]: (row["total"], row["rows"]) for row in ordered}


def stop_at_end(driver: DriverThread, topics: Topics, topic: str) -> dict[int, int]:
    """Have a driver read to the end of a topic and hold, write more, and stop it there; return the end."""
    assert driver.driver.request_hold(60)
    held = driver.wait_for("it holds", lambda p: p.hold and p.hold.phase is HoldPhase.HOLDING).hold
    ends = topics.ends(topic)
    assert held is not None
    cut = InputVector(offsets={**held.position.offsets, topic: ends})
    assert driver.driver.request_advance(cut)
    driver.wait_for("it is there", lambda p: p.hold and p.hold.has_reached(cut))
    write(topics, topic, 5, 1_000_000)
    assert driver.stop().graceful
    return ends


def move(revision: Revision, old: str, until: dict[int, int], new: str, begin: dict[int, int]) -> Revision:
    until_, begin_ = ({str(part): at for part, at in offsets.items()} for offsets in (until, begin))
    moved = TopicMove(old=old, new=new, until=until_, begin=begin_, reprocessing="fixed")
    return revision.model_copy(update={"topics": {**revision.topics, "rows": new}, "moves": (moved,)})


@pytest.mark.chaos  # four drivers one after another
def test_a_driver_continues_in_another_version_with_its_state_and_back(
    run: Any, broker: Broker, topics: Topics, tmp_path: Path
) -> None:
    old, new = topics.make("rows", partitions=2), topics.make("rows-r1", partitions=2)
    names = {"rows": old, "sums": topics.make("sums", partitions=1)}
    first = build_revision(SPEC, tmp_path / "state", broker.bootstrap, topics=names, pipeline="moved")
    write(topics, old, 10, 1)
    driver = run(first, generation=1)
    driver.wait_until_running()
    driver.wait_for_records(30)
    write(topics, old, 10, 1)
    until = stop_at_end(driver, topics, old)

    write(topics, new, 20, 7)  # the new version of what was read
    begin = topics.ends(new)
    second = move(first, old, until, new, begin)
    wrong = move(first, old, {part: at - 1 for part, at in until.items()}, new, begin)
    failure = run(wrong, generation=2).failure()
    assert isinstance(failure, LostDataError)
    assert failure.reason is Reason.INPUT_NOT_AT_CUT
    driver = run(second, generation=3)
    driver.wait_until_running()
    write(topics, new, 10, 100)
    wait_for("new rows", lambda: read_sums(topics, names["sums"]).get("a") == (20 + 1000, 30))
    assert read_sums(topics, names["sums"]) == dict.fromkeys(KEYS, (1020, 30))
    until = stop_at_end(driver, topics, new)

    begin = topics.ends(old)
    driver = run(move(second, new, until, old, begin), generation=4)
    driver.wait_until_running()
    write(topics, old, 10, 1)
    wait_for("old rows", lambda: read_sums(topics, names["sums"]).get("a") == (1030, 40))
    assert read_sums(topics, names["sums"]) == dict.fromkeys(KEYS, (1030, 40))
    assert driver.stop().graceful

    driver = run(move(second, new, until, old, begin), generation=5)  # as after any restart
    driver.wait_until_running()
    write(topics, old, 1, 1)
    wait_for("more rows", lambda: read_sums(topics, names["sums"]).get("a") == (1031, 41))
    assert driver.stop().graceful
