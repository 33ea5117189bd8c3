"""State that is kept in one way goes on in another: what spec.state says may change while there is state."""

import json
from pathlib import Path
from typing import Any

import pytest

from kappa_crds.revision import Revision
from kappa_crds.upgrade import VerdictKind
from kappa_pipelines.driver.prepare import create_idle_folder
from kappa_pipelines.driver.session import create_session
from kappa_pipelines.sinks.targets import Targets
from kappa_pipelines.upgrade.dry_run import DryRun
from lab.shell import wait_until
from spark.revisions import build_revision, source

SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"changelog": False, "compression": "zstd"},
    {
        "snapshotEvery": 2,
        "compression": "none",
        "maxMemory": "64Mi",
        "maintenanceInterval": "10s",
        "retainBatches": 200,
    },
    {"changelog": False},
)
"""Each way follows another one: with changelogs and without, either way round."""
RECORDS = 300


def build(names: dict[str, str], checkpoint: Path, bootstrap: str, state: dict[str, Any]) -> Revision:
    sql = "SELECT k, count(*) AS n, sum(v) AS total FROM clicks GROUP BY k"
    spec = {
        "sources": [source("clicks", "k BIGINT, v INT")],
        "views": [{"name": "counted", "sql": sql, "allowUnboundedState": True}],
        "sinks": [
            {"name": "out", "from": "counted", "kafka": {"topic": "out", "key": ["k"]}, "mode": "update"}
        ],
        "trigger": {"maxRecords": 50},
        "state": state,
    }
    return build_revision(spec, checkpoint, bootstrap, topics=names)


def list_versions(checkpoint: Path) -> dict[int, set[str]]:
    """Return the kinds of files that each version of the state has, by its number."""
    found: dict[int, set[str]] = {}
    for path in (checkpoint / "out" / "state").rglob("*_*"):
        if path.suffix in (".zip", ".changelog"):
            found.setdefault(int(path.name.partition("_")[0]), set()).add(path.suffix)
    return found


@pytest.mark.chaos
def test_state_without_changelogs_is_repartitioned_and_has_them_again(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {"clicks": topics.make("clicks"), "out": topics.make("out")}
    ways: tuple[dict[str, Any], ...] = ({"changelog": False}, {"changelog": False}, {})
    for generation, (state, partitions) in enumerate(zip(ways, (2, 5, 3), strict=True), start=1):
        write(topics, names["clicks"], generation)
        revision = build(names, checkpoint, broker.bootstrap, state)
        tuning = revision.tuning.model_copy(update={"shuffle_partitions": partitions})
        revision = revision.model_copy(update={"tuning": tuning})
        if generation > 1:
            assert rehearse(revision) is VerdictKind.REPARTITION
        driver = run(revision, generation)
        driver.wait_for_records(RECORDS)
        assert driver.stop().graceful
    check(topics, names["out"], len(ways))


@pytest.mark.chaos  # `make test` makes each of these changes in test_upgrades.py
def test_state_continues_across_all_formats_and_each_last_batch_can_be_copied(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {"clicks": topics.make("clicks"), "out": topics.make("out")}
    before: set[int] = set()
    for generation, state in enumerate(SETTINGS, start=1):
        write(topics, names["clicks"], generation)
        revision = build(names, checkpoint, broker.bootstrap, state)
        if generation > 1:
            assert rehearse(revision) is VerdictKind.RESUME
        driver = run(revision, generation)
        driver.wait_for_records(RECORDS)
        assert driver.stop().graceful
        versions = list_versions(checkpoint)
        written = set(versions) - before
        assert written
        kind = ".changelog" if state.get("changelog", True) else ".zip"
        assert all(kind in versions[number] for number in written), versions
        before = set(versions)
    assert rehearse(revision) is VerdictKind.RESUME
    check(topics, names["out"], len(SETTINGS))


@pytest.mark.chaos  # takes as long as the interval
def test_a_driver_that_lives_for_half_a_minute_leaves_a_snapshot(
    run: Any, broker: Any, topics: Any, checkpoint: Path
) -> None:
    names = {"clicks": topics.make("clicks"), "out": topics.make("out")}
    write(topics, names["clicks"], 1)
    driver = run(build(names, checkpoint, broker.bootstrap, {"snapshotEvery": 2}), 1)
    driver.wait_for_records(RECORDS)
    wait_until(
        lambda: any(".zip" in kinds for kinds in list_versions(checkpoint).values()),
        "a snapshot is uploaded",
        30,
    )
    assert driver.stop().graceful


def write(topics: Any, topic: str, generation: int) -> None:
    numbers = range((generation - 1) * RECORDS, generation * RECORDS)
    topics.write(topic, [json.dumps({"k": n % 7, "v": n}) for n in numbers])


def check(topics: Any, topic: str, parts: int) -> None:
    """The last row of each key counts every record once."""
    records = range(parts * RECORDS)
    wanted = {
        k: {"k": k, "n": sum(n % 7 == k for n in records), "total": sum(n for n in records if n % 7 == k)}
        for k in range(7)
    }
    assert {row["k"]: row for row in (json.loads(m.value()) for m in topics.read(topic))} == wanted


def rehearse(revision: Revision) -> VerdictKind:
    """Go on from a copy of the last batch, made as a savepoint's is."""
    return DryRun(create_session(revision), revision, 99, Targets(revision), create_idle_folder()).run().kind
