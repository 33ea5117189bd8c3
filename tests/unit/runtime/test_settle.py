"""What a driver settles before its first batch: how rows are spread, and what it must not change while a batch is written in part."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from kappa_pipelines.checkpoint.store.files import CheckpointFiles
from kappa_pipelines.checkpoint.store.folder import LocalFolder
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.sinks.marks import Mark
from kappa_pipelines.sinks.publisher import Publisher
from kappa_pipelines.sinks.settle import Begun, check_division, settle_publishers
from unit.runtime.checkpoints import write_checkpoint

WANTED = Publisher("out", "x.out", "group", 2, "the-uid", 4, "these views")
LIFE = "the-uid/the-query"


class Files:
    """Small files in memory."""

    def __init__(self, planned: int, committed: int, kept: dict[str, Any] | None) -> None:
        self.held = {"out/metadata": json.dumps({"id": "the-query"})}
        self.held |= {f"out/offsets/{n}": "" for n in range(planned + 1)}
        self.held |= {f"out/commits/{n}": "" for n in range(committed + 1)}
        if kept is not None:
            self.held["_writers/out"] = json.dumps(kept)

    def read(self, name: str) -> str | None:
        return self.held.get(name)

    def write(self, name: str, text: str) -> None:
        self.held[name] = text

    def names(self, folder: str) -> list[str]:
        return [name.rpartition("/")[2] for name in self.held if name.rpartition("/")[0] == folder]


def settle(files: Files, *written: int) -> Publisher:
    """Settle where each writer has written up to the given batch, and check that all writers of before and after were taken over."""
    kept = json.loads(files.held.get("_writers/out", "{}"))

    def take(publisher: Publisher, begun: Begun, topic_before: str) -> dict[int, Mark]:
        assert publisher.writers == max(4, kept.get("writers", 0))
        assert (begun.life, topic_before) == (LIFE, kept.get("topic", "x.out"))
        return {number: Mark(2, "", {LIFE: batch}) for number, batch in enumerate(written)}

    found = settle_publishers(cast(CheckpointFiles, files), {"out": WANTED}, take)["out"]
    kept = json.loads(files.held["_writers/out"])
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
    case: str, committed: int, kept: dict[str, Any] | None, written: tuple[int, ...], writers: int
) -> None:
    assert settle(Files(5, committed, kept), *written).writers == writers, case


def test_a_batch_that_was_written_in_part_is_completed_by_no_other_views() -> None:
    files = Files(5, 4, OTHER)
    with pytest.raises(LostDataError, match=r"batch 5 was written in part .* go back to the spec before"):
        settle(files, 4, 5)
    assert json.loads(files.held["_writers/out"]) == OTHER


def test_state_is_not_divided_while_a_batch_is_written_in_part(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    files = LocalFolder(f"file://{tmp_path}")
    partly = replace(WANTED, is_partly=True)
    check_division(files, {"out": WANTED}, 7)
    with pytest.raises(LostDataError, match="the state is to be divided from"):
        check_division(files, {"out": partly}, 7)
