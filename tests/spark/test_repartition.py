"""The state of a pipeline is divided anew: what comes after is what would have come without."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kappa_crds.revision import Revision
from kappa_crds.upgrade import VerdictKind
from kappa_pipelines.checkpoint.fence.link_fence import LinkFence
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.driver.prepare import create_idle_folder
from kappa_pipelines.driver.session import create_session
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.savepoint.query import read_points
from kappa_pipelines.sinks.targets import Targets
from kappa_pipelines.upgrade.dry_run import DryRun
from kappa_pipelines.upgrade.repartition import repartition_checkpoint
from spark.bases import BASES, Bases

STATEFUL = tuple(name for name in BASES if name != "plain")


@pytest.mark.chaos  # `make test` divides the state of a count on the cluster
@pytest.mark.parametrize("base", STATEFUL)
def test_a_query_continues_with_its_state_in_more_partitions_and_then_in_fewer(
    run: Any, bases: Bases, topics: Any, tmp_path: Path, base: str
) -> None:
    born = bases.get(base, run)
    kept, divided = (copy_checkpoint(born, tmp_path / name) for name in ("kept", "divided"))
    bases.write(100)
    wanted = go_on(run, topics, bases, kept, 2)
    five = with_partitions(divided, 5)
    verdict = DryRun(create_session(five), five, 2, Targets(five), create_idle_folder()).run()
    assert verdict.kind is VerdictKind.REPARTITION
    assert "sink 'out': the state has 2 partitions instead of 5" in verdict.reasons[0]
    assert go_on(run, topics, bases, five, 2) == wanted
    assert count(five) == 5

    bases.write(100)
    wanted = go_on(run, topics, bases, kept, 3)
    assert go_on(run, topics, bases, with_partitions(divided, 3), 3) == wanted
    assert count(divided) == 3
    assert sum(wanted.values()) > 0


def test_a_division_that_fails_leaves_the_checkpoint_as_it_was(
    run: Any, bases: Bases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = copy_checkpoint(bases.get("count", run), tmp_path / "one")
    fence, root = LinkFence(revision.checkpoint, 2), tmp_path / "one"
    fence.acquire()
    spark = create_session(revision)
    changes = sorted(root.glob("out/state/0/*/2_*.changelog"))[-1]
    held, known = changes.read_bytes(), list_files(root)
    changes.write_bytes(held[:-1] + bytes([held[-1] ^ 1]))
    with pytest.raises(LostDataError, match="sink 'out': its state cannot be repartitioned from 2 to 5"):
        repartition_checkpoint(spark, fence, ("out",), 5)
    assert list_files(root) == known
    changes.write_bytes(held)

    def stop(self: LocalFolder, path: str, *_: Any) -> None:
        if path.startswith("out/commits"):
            raise InterruptedError

    with monkeypatch.context() as patched:
        patched.setattr(LocalFolder, "copy", stop)
        with pytest.raises(InterruptedError):
            repartition_checkpoint(spark, fence, ("out",), 5)
    assert count(revision) == 2, "until the batch is committed, nothing has happened"
    repartition_checkpoint(spark, fence, ("out",), 5)
    assert count(revision) == 5


def copy_checkpoint(revision: Revision, target: Path) -> Revision:
    shutil.copytree(revision.checkpoint.removeprefix("file://"), target, symlinks=True)
    return revision.model_copy(update={"checkpoint": f"file://{target}"})


def with_partitions(revision: Revision, number: int) -> Revision:
    tuning = revision.tuning.model_copy(update={"shuffle_partitions": number})
    return revision.model_copy(update={"tuning": tuning})


def go_on(run: Any, topics: Any, bases: Bases, revision: Revision, generation: int) -> Counter[str]:
    """Run a driver until it has read all, and return the rows that it wrote."""
    before = read_rows(topics, bases)
    driver = run(revision, generation)
    driver.wait_for("no lag", lambda p: p.queries and p.lag == 0 and p.queries[0].batch_id >= 2)
    assert driver.stop().graceful
    return read_rows(topics, bases) - before


def read_rows(topics: Any, bases: Bases) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in topics.values(bases.names["out"]))


def count(revision: Revision) -> int | None:
    (point,) = read_points(LocalFolder(revision.checkpoint), ["out"])
    return point.state_partitions


def list_files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))
