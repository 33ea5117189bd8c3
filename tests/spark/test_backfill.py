"""A sink that is added: its query reads the log from the start in slices of time, beside one that goes on, on real Spark and Kafka."""

import json
import random
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kappa_crds.progress import DriverState, Progress
from kappa_crds.replay import ReplayProfile
from lab.broker import Broker
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


@pytest.mark.chaos  # half a minute
def test_a_sink_that_is_added_has_the_whole_history_and_the_other_one_each_record_once(
    run: Any, broker: Broker, topics: Topics, tmp_path: Path
) -> None:
    """The pipeline had started at `latest`; the driver is stopped once within the history, and records come all the time."""
    names = {
        "orders": topics.make("orders", partitions=3, **{"retention.ms": "-1"}),
        "raw": topics.make("raw", partitions=1),
        "hours": topics.make("hours", partitions=1),
    }

    def build(*sinks: dict[str, Any], start: str) -> Any:
        spec = build_spec(*sinks, start=start)
        return build_revision(spec, tmp_path / "state", broker.bootstrap, topics=names, pipeline="added")

    moments = list_moments(random.Random(7))
    write(broker.bootstrap, names["orders"], moments)
    first = run(build(RAW, start="latest"))
    first.wait_for("it runs", lambda p: p.state is DriverState.RUNNING and bool(p.queries))
    before = [(0, START + timedelta(hours=HOURS, minutes=minute)) for minute in range(60)]
    write(broker.bootstrap, names["orders"], before)
    first.wait_for("the present records", lambda p: is_read(p, "raw", 60))
    assert first.stop().graceful

    profile, both = ReplayProfile(max_records=MOST, sinks=("hours",)), build(RAW, ADDED, start="earliest")
    second = run(both, generation=2, replay=profile)
    second.wait_for("some slices", lambda p: is_read(p, "hours", 2 * MOST))
    during = [(0, START + timedelta(hours=HOURS, minutes=60 + minute)) for minute in range(60)]
    write(broker.bootstrap, names["orders"], during)
    assert second.stop().graceful
    assert sum(read_hours(topics, names["hours"]).values()) < RECORDS

    third = run(both, generation=3, replay=profile)
    sizes: set[int] = set()

    def is_done(progress: Progress) -> bool:
        sizes.update(query.input_rows for query in progress.queries if query.sink == "raw")
        return bool(progress.queries) and not progress.replaying and progress.lag == 0

    third.wait_for("no lag", is_done)
    after = [(0, START + timedelta(hours=HOURS, minutes=120 + minute)) for minute in range(120)]
    write(broker.bootstrap, names["orders"], after)
    wanted = count_hours(moments + before + during + after)
    third.wait_for("the rest", lambda p: is_done(p) and read_hours(topics, names["hours"]) == wanted)
    assert third.stop().graceful
    assert max(sizes) <= 50, "it has the pace of the spec"
    live = Counter(json.loads(message.value() or b"")["ts"][:16] for message in topics.read(names["raw"]))
    assert live == Counter(moment.strftime("%Y-%m-%dT%H:%M") for _, moment in before + during + after)
