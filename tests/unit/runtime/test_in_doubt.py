"""What a driver resolves before its first batch: the number of writers, and the changes that a batch in doubt does not allow."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.sinks.commit_marker import CommitMarker
from kappa_pipelines.sinks.in_doubt import BatchState, resolve_in_doubt
from kappa_pipelines.sinks.publisher import Publisher
from kappa_pipelines.upgrade.repartition import check_repartition
from unit.runtime.checkpoints import write_checkpoint

WANTED = Publisher("out", "x.out", "group", 2, "the-uid", 4, "these views")
INCARNATION = "the-uid/the-query"


def build_files(folder: Path, planned: int, committed: int, kept: dict[str, Any] | None) -> LocalFolder:
    """Return a checkpoint with so many batches."""
    files = LocalFolder(f"file://{folder}")
    files.write("out/metadata", json.dumps({"id": "the-query"}).encode())
    for log, last in (("offsets", planned), ("commits", committed)):
        for number in range(last + 1):
            files.write(f"out/{log}/{number}", b"")
    if kept is not None:
        files.write("_writers/out", json.dumps(kept).encode())
    return files


def resolve(files: LocalFolder, *written: int) -> Publisher:
    """Resolve where each writer has written up to the given batch, and check that all writers of before and after were taken over."""
    kept = json.loads(files.read("_writers/out") or "{}")

    def fence(publisher: Publisher, state: BatchState, previous_topic: str) -> dict[int, CommitMarker]:
        assert publisher.writers == max(4, kept.get("writers", 0))
        assert (state.incarnation, previous_topic) == (INCARNATION, kept.get("topic", "x.out"))
        return {number: CommitMarker(2, "", {INCARNATION: batch}) for number, batch in enumerate(written)}

    found = resolve_in_doubt(files, {"out": WANTED}, fence)["out"]
    kept = json.loads(files.read("_writers/out") or "")
    assert kept == {"writers": found.writers, "definition": found.definition, "topic": "x.out"}
    return found


SAME = {"writers": 2, "definition": "these views", "topic": "x.out"}
OTHER = {"writers": 2, "definition": "other views", "topic": "y.out"}


@pytest.mark.parametrize(
    ("case", "committed", "kept", "written", "writers"),
    [
        ("a new checkpoint", 5, None, (-1, -1), 4),
        ("all batches are committed", 5, OTHER, (5, 5), 4),
        ("a batch was planned, and nothing of it written", 4, OTHER, (4, 3), 4),
        ("a batch was written in part", 4, SAME, (4, 5), 2),
        ("a batch was written and not committed", 4, SAME, (5, 5), 2),
    ],
)
def test_a_batch_that_was_written_in_part_keeps_its_writers(
    case: str,
    committed: int,
    kept: dict[str, Any] | None,
    written: tuple[int, ...],
    writers: int,
    tmp_path: Path,
) -> None:
    assert resolve(build_files(tmp_path, 5, committed, kept), *written).writers == writers, case


def test_a_batch_that_was_written_in_part_is_completed_by_no_other_views(tmp_path: Path) -> None:
    files = build_files(tmp_path, 5, 4, OTHER)
    with pytest.raises(LostDataError, match=r"batch 5 was written in part .* restore the previous spec"):
        resolve(files, 4, 5)
    assert json.loads(files.read("_writers/out") or "") == OTHER


def test_state_is_not_repartitioned_while_a_batch_is_in_doubt(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    files = LocalFolder(f"file://{tmp_path}")
    partly = replace(WANTED, is_in_doubt=True)
    check_repartition(files, {"out": WANTED}, 7)
    with pytest.raises(LostDataError, match="statePartitions has changed from"):
        check_repartition(files, {"out": partly}, 7)
