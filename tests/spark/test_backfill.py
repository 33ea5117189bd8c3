"""A sink that is added: its query replays the log from the start in slices of time, beside a live one, on real Spark and Kafka."""

import json
import random
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kappa_crds.progress import DriverState, Progress
from kappa_crds.replay import ReplayProfile
from kappa_crds.revision import Revision
from lab.broker import Broker
from spark.processes import DriverProcess
from spark.revisions import build_revision, source
from spark.test_replay import (
    HOURLY,
    HOURS,
    MOST,
    RECORDS,
    START,
    TIMED,
    count_hours,
    list_moments,
    read_hours,
    write,
)
from spark.topics import Topics

RAW = {"name": "raw", "from": "orders", "kafka": {"topic": "raw"}}
ADDED = {
    "name": "hours",
    "from": "hourly",
    "mode": "update",
    "kafka": {"topic": "hours", "key": ["window_start"]},
}
LIVE = {"interval": "1s", "maxRecords": 50}


def build_spec(*sinks: dict[str, Any], start: str = "earliest") -> dict[str, Any]:
    orders = source("orders", startingOffsets=start, **TIMED)
    return {"sources": [orders], "views": [HOURLY], "trigger": LIVE, "sinks": list(sinks)}


def is_read(progress: Progress, sink: str, count: int) -> bool:
    return any(query.sink == sink and query.total_input_rows >= count for query in progress.queries)


def build_names(topics: Topics) -> dict[str, str]:
    return {
        "orders": topics.make("orders", partitions=3, **{"retention.ms": "-1"}),
        "raw": topics.make("raw", partitions=1),
        "hours": topics.make("hours", partitions=1),
    }


def list_minutes(first: int, end: int) -> list[tuple[int, datetime]]:
    """One record a minute after all others."""
    return [(0, START + timedelta(hours=HOURS, minutes=minute)) for minute in range(first, end)]


def read_minutes(topics: Topics, topic: str) -> Counter[str]:
    return Counter(json.loads(message.value() or b"")["ts"][:16] for message in topics.read(topic))


def count_minutes(moments: list[tuple[int, datetime]]) -> Counter[str]:
    return Counter(moment.strftime("%Y-%m-%dT%H:%M") for _, moment in moments)


@pytest.mark.chaos  # a minute each, with three processes
@pytest.mark.parametrize("killed", [False, True])
def test_a_standby_driver_takes_over_with_the_sink_and_the_next_one_continues_its_history(
    broker: Broker, topics: Topics, tmp_path: Path, *, killed: bool
) -> None:
    names, state = build_names(topics), f"file://{tmp_path}/state"
    moments = list_moments(random.Random(8))
    write(broker.bootstrap, names["orders"], moments)
    old = build_revision(build_spec(RAW, start="latest"), state, broker.bootstrap, topics=names)
    new = build_revision(build_spec(RAW, ADDED), state, broker.bootstrap, topics=names)
    profile, drivers = ReplayProfile(max_records=MOST, sinks=("hours",)), []

    def start(revision: Revision, generation: int, **options: Any) -> DriverProcess:
        drivers.append(DriverProcess(tmp_path, revision, generation, **options))
        return drivers[-1]

    try:
        first = start(old, 1)
        first.wait_for("it runs", lambda p: p.state is DriverState.RUNNING and bool(p.queries))
        write(broker.bootstrap, names["orders"], list_minutes(0, 60))
        second = start(new, 2, standby=True, replay=profile)
        second.wait_for("it stands by", lambda p: p.state is DriverState.STANDING_BY)
        first.wait_for("the present records", lambda p: is_read(p, "raw", 60))
        first.process.terminate()
        assert first.wait().graceful
        assert second.post("/activate") == 202
        second.wait_for("some slices", lambda p: is_read(p, "hours", 2 * MOST))
        write(broker.bootstrap, names["orders"], list_minutes(60, 120))
        if killed:
            second.kill()
        else:
            second.process.terminate()
            assert second.wait().graceful
        third = start(new, 3, replay=profile)
        wanted = count_hours(moments + list_minutes(0, 120))
        third.wait_for("no lag", lambda p: bool(p.queries) and not p.replaying and p.lag == 0)
        third.process.terminate()
        assert third.wait().graceful
    finally:
        for driver in drivers:
            if driver.process.poll() is None:
                driver.kill()
    assert read_hours(topics, names["hours"]) == wanted
    raw, once = read_minutes(topics, names["raw"]), count_minutes(list_minutes(0, 120))
    assert raw == once if not killed else raw >= once and raw.keys() == once.keys(), "at least once"


@pytest.mark.chaos  # half a minute
def test_a_sink_that_is_added_has_the_whole_history_and_the_other_one_each_record_once(
    run: Any, broker: Broker, topics: Topics, tmp_path: Path
) -> None:
    """The pipeline had started at `latest`; the driver is stopped once within the history, and records come all the time."""
    names = build_names(topics)

    def build(*sinks: dict[str, Any], start: str) -> Any:
        spec = build_spec(*sinks, start=start)
        return build_revision(spec, tmp_path / "state", broker.bootstrap, topics=names, pipeline="added")

    moments = list_moments(random.Random(7))
    write(broker.bootstrap, names["orders"], moments)
    first = run(build(RAW, start="latest"))
    first.wait_for("it runs", lambda p: p.state is DriverState.RUNNING and bool(p.queries))
    before = list_minutes(0, 60)
    write(broker.bootstrap, names["orders"], before)
    first.wait_for("the present records", lambda p: is_read(p, "raw", 60))
    assert first.stop().graceful

    profile, both = ReplayProfile(max_records=MOST, sinks=("hours",)), build(RAW, ADDED, start="earliest")
    second = run(both, generation=2, replay=profile)
    second.wait_for("some slices", lambda p: is_read(p, "hours", 2 * MOST))
    during = list_minutes(60, 120)
    write(broker.bootstrap, names["orders"], during)
    assert second.stop().graceful
    assert sum(read_hours(topics, names["hours"]).values()) < RECORDS

    third = run(both, generation=3, replay=profile)
    sizes: set[int] = set()

    def is_done(progress: Progress) -> bool:
        sizes.update(query.input_rows for query in progress.queries if query.sink == "raw")
        return bool(progress.queries) and not progress.replaying and progress.lag == 0

    third.wait_for("no lag", is_done)
    after = list_minutes(120, 240)
    write(broker.bootstrap, names["orders"], after)
    wanted = count_hours(moments + before + during + after)
    third.wait_for("the rest", lambda p: is_done(p) and read_hours(topics, names["hours"]) == wanted)
    assert third.stop().graceful
    assert max(sizes) <= 50, "it has the pace of the spec"
    assert read_minutes(topics, names["raw"]) == count_minutes(before + during + after)
