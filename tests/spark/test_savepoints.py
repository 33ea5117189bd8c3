"""Savepoints on real Spark and Kafka: taken while batches go on, and restored elsewhere."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kappa_crds.revision import Revision
from kappa_crds.savepoint_work import SavepointTask, VerifyBy, WorkRequest, WorkResult
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.savepoint.restore import restore_savepoint
from kappa_pipelines.savepoint.store import SavepointStore
from kappa_pipelines.savepoint.take import Taken, take_savepoint
from spark.revisions import build_revision, source

START = datetime(2026, 1, 1, tzinfo=UTC)
TIMED: dict[str, Any] = {"eventTime": {"column": "ts", "watermark": "30s"}}
SCHEMA = "k BIGINT, v BIGINT, ts TIMESTAMP"
SINKS = ("windowed", "joined", "matched")
SPEC: dict[str, Any] = {
    "sources": [source(name, SCHEMA, **TIMED) for name in ("clicks", "taps")],
    "views": [
        {
            "name": "windowed",
            "window": {
                "from": "clicks",
                "key": ["k"],
                "tumbling": "1m",
                "aggregates": {"n": "count(*)", "total": "sum(v)"},
            },
        },
        {
            "name": "joined",
            "sql": "SELECT c.k, c.v AS a, t.v AS b, c.ts FROM clicks c JOIN taps t ON c.k = t.k"
            " AND t.ts BETWEEN c.ts - INTERVAL 20 SECONDS AND c.ts",
        },
        {
            "name": "matched",
            "pattern": {
                "from": "clicks",
                "key": ["k"],
                "steps": "A B+",
                "define": {"B": "v > PREV(v)"},
                "measures": {"first": "A.v", "last": "LAST(B.v)"},
                "within": "40s",
            },
        },
    ],
    "trigger": {"maxRecords": 80},
}


def build_records(count: int, seed: int) -> list[str]:
    """Records nearly in the order of their times, four a second."""
    rng = random.Random(seed)
    return [
        json.dumps(
            {
                "k": rng.randrange(5),
                "v": number,
                "ts": (START + timedelta(seconds=number / 4 + rng.random() * 5)).isoformat(),
            }
        )
        for number in range(count)
    ]


def write_records(topics: Any, names: dict[str, str], start: int, end: int) -> None:
    for seed, name in enumerate(("clicks", "taps")):
        topics.write(names[name], build_records(end, seed)[start:])


def check_state_reader(store: SavepointStore, name: str, folder: Path, sinks: Sequence[str]) -> None:
    """A pod of its own, without the pipeline, reads every operator's state through Spark."""
    request, message = folder / "request.json", folder / "message"
    asked = WorkRequest(
        task=SavepointTask.VERIFY, name=name, location=store.root, verify_by=VerifyBy.STATE_READER
    )
    request.write_text(asked.model_dump_json(by_alias=True))
    command = [sys.executable, "-m", "kappa_pipelines.savepoint", str(request)]
    environment = {**os.environ, "KAPPA_TERMINATION_FILE": str(message)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found = WorkResult.model_validate_json(message.read_text()).verification
    assert found is not None
    assert (found.damaged, found.damage) == (0, ())
    assert {each.sink for each in found.state} == set(sinks)
    assert all(each.rows > 0 for each in found.state), found.state


def read_rows(topics: Any, names: dict[str, str], sink: str) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in topics.values(names[sink]))


@pytest.fixture
def store(tmp_path: Path) -> SavepointStore:
    return SavepointStore(LocalFolder(f"file://{tmp_path}/savepoints"))


Take = Callable[[Revision, str], Taken]


@pytest.fixture
def take(store: SavepointStore) -> Take:
    def take_one(revision: Revision, name: str) -> Taken:
        return take_savepoint(LocalFolder(revision.checkpoint), revision, 1, store, name)

    return take_one


@pytest.mark.chaos  # `make test` goes back to a savepoint on the cluster
def test_a_restored_pipeline_continues_as_after_its_savepoint(
    run: Any,
    broker: Any,
    topics: Any,
    tmp_path: Path,
    store: SavepointStore,
    take: Take,
) -> None:
    names = {name: topics.make(name) for name in ("clicks", "taps", *SINKS)}
    spec = {**SPEC, "sinks": [{"name": name, "from": name, "kafka": {"topic": name}} for name in SINKS]}
    revision = build_revision(spec, f"file://{tmp_path}/first", broker.bootstrap, topics=names)
    write_records(topics, names, 0, 480)
    driver = run(revision)
    driver.wait_for("some batches", lambda p: p.queries and all(q.batch_id >= 1 for q in p.queries))
    one = take(revision, "one")
    driver.wait_for("more batches", lambda p: all(q.batch_id >= 4 for q in p.queries))
    two = take(revision, "two")
    assert [point.sink for point in one.manifest.queries] == list(SINKS)
    assert all(
        b.batch > a.batch >= 1 for a, b in zip(one.manifest.queries, two.manifest.queries, strict=True)
    )
    assert two.copied_files < len(two.manifest.files), "what one has is not copied again"
    driver.wait_for("no lag", lambda p: p.lag == 0)
    assert driver.stop().graceful
    wanted = {sink: read_rows(topics, names, sink) for sink in SINKS}
    assert all(wanted.values())

    other = {**names, **{sink: topics.make(sink) for sink in SINKS}}
    again = build_revision(spec, f"file://{tmp_path}/second", broker.bootstrap, topics=other)
    files = LocalFolder(again.checkpoint)
    assert list(store.find_damage(one.manifest)) == []
    check_state_reader(store, one.manifest.name, tmp_path, SINKS)
    assert restore_savepoint(store, one.manifest, files, fork=True)
    assert not restore_savepoint(store, one.manifest, files, fork=True)
    with pytest.raises(LostDataError, match="restored from savepoint 'one', not from 'two'"):
        restore_savepoint(store, two.manifest, files)
    driver = run(again)
    batches = {point.sink: point.batch for point in one.manifest.queries}
    driver.wait_for(
        "batches after those of the savepoint, up to the end",
        lambda p: {q.sink for q in p.queries if q.batch_id > batches[q.sink]} == set(SINKS) and p.lag == 0,
    )
    assert driver.stop().graceful
    found = {sink: read_rows(topics, other, sink) for sink in SINKS}
    for point in one.manifest.queries:
        rest = wanted[point.sink]
        for row in found[point.sink]:
            rest.remove(row)  # each row that comes after the savepoint came in the first run too
        late = [row for row in rest if json.loads(row).get("ts", "") > "2026-01-01T00:01:20"]
        assert found[point.sink], point.sink
        assert not late, "the last rows of the first run came in the second as well"
