"""One driver takes over from another, on real Spark and Kafka: from one that hangs, and wakes up when it is too late."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kappa_crds.progress import DriverState
from kappa_crds.reasons import Reason
from kappa_crds.upgrade import VerdictKind
from lab.broker import Broker
from spark.processes import TOKEN
from spark.revisions import build_revision, source

START = datetime(2026, 1, 1, tzinfo=UTC)
COUNT = "SELECT k, window.start AS at, count(*) AS n FROM events GROUP BY k, window(ts, '1 minute')"
SPEC: dict[str, Any] = {
    "sources": [
        source("events", "k BIGINT, ts TIMESTAMP", eventTime={"column": "ts", "watermark": "10s"}),
    ],
    "views": [{"name": "counts", "sql": COUNT}],
    "sinks": [{"name": "out", "from": "counts", "kafka": {"topic": "out", "key": ["k"]}}],
    "trigger": {"maxRecords": 50},
}


def build_records(start: int, end: int) -> list[str]:
    """One record a second, by one of three keys."""
    return [
        json.dumps({"k": number % 3, "ts": (START + timedelta(seconds=number)).isoformat()})
        for number in range(start, end)
    ]


def test_a_driver_that_hangs_is_taken_over_from_and_can_do_nothing_when_it_wakes_up(
    start: Any, broker: Broker, topics: Any, tmp_path: Path
) -> None:
    names = {name: topics.make(name, partitions=1) for name in ("events", "out")}
    checkpoint = f"file://{tmp_path}/checkpoint"
    old = start(build_revision(SPEC, checkpoint, broker.bootstrap, topics=names), 1)
    changed = {**SPEC, "trigger": {"maxRecords": 600}}
    new = start(build_revision(changed, checkpoint, broker.bootstrap, topics=names), 2, standby=True)
    topics.write(names["events"], build_records(0, 600))
    old.wait_for("some batches", lambda p: p.queries and p.queries[0].batch_id >= 3)
    ready = new.wait_for("it stands by", lambda p: p.state is DriverState.STANDING_BY)
    assert ready.verdict is not None
    assert (ready.verdict.kind, ready.verdict.reasons) == (VerdictKind.RESUME, ())

    topics.write(names["events"], build_records(600, 3000))
    old.wait_for("it is at work", lambda p: p.lag > 500)
    old.pause()
    last = max(int(name) for name in list_commits(tmp_path))
    assert new.get("/activate", token=TOKEN, method="POST")[0] == 202
    topics.write(names["events"], build_records(3000, 3300))
    new.wait_for(
        "no lag", lambda p: p.state is DriverState.RUNNING and p.lag == 0 and p.queries[0].batch_id >= 0
    )
    written = read_commits(tmp_path)
    assert max(written) > last

    old.go_on()
    ended = old.wait()
    assert (ended.reason, ended.retryable) == (Reason.GENERATION_FENCED, False), ended.message
    assert "generation 2 has taken over" in ended.message
    after = read_commits(tmp_path)
    assert {batch: after[batch] for batch in written} == written, "it has not changed a batch"
    new.process.terminate()
    assert new.wait().graceful
    rows = Counter(
        (row["k"], datetime.fromisoformat(row["at"]), row["n"]) for row in topics.values(names["out"])
    )
    assert set(rows) == expect(3300)
    repeated = sum(count - 1 for count in rows.values())
    assert repeated <= 3 * 3, "at least once: no more than one batch comes again"


def list_commits(folder: Path) -> list[str]:
    return [path.name for path in (folder / "checkpoint/out/commits").iterdir() if path.name.isdigit()]


def read_commits(folder: Path) -> dict[int, bytes]:
    return {
        int(name): (folder / "checkpoint/out/commits" / name).read_bytes() for name in list_commits(folder)
    }


def expect(count: int) -> set[tuple[int, datetime, int]]:
    """Return the windows that are final: those that end ten seconds before the last record, or earlier."""
    found: Counter[tuple[int, datetime]] = Counter()
    for number in range(count):
        found[number % 3, START + timedelta(minutes=number // 60)] += 1
    last = START + timedelta(seconds=count - 1 - 10)
    return {(k, at, n) for (k, at), n in found.items() if at + timedelta(minutes=1) <= last}
