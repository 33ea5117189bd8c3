"""A checkpoint is moved to another version of a topic only where each query is exactly at the cut, and twice is once."""

import json
from pathlib import Path

import pytest

from kappa_crds.inputs import TopicMove
from kappa_crds.revision import Revision
from kappa_crds.sink import OutputMode
from kappa_pipelines.checkpoint.format.offsets import read_committed_offsets, read_entry
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.errors import LostDataError
from kappa_pipelines.plan.fingerprint import QueryFingerprint
from kappa_pipelines.upgrade.fingerprints import read_fingerprints
from kappa_pipelines.upgrade.moves import move_checkpoint
from unit.runtime.checkpoints import build_revision

MOVE = TopicMove(
    old="in", new="in.r1", until={"0": 7, "1": 9}, begin={"0": 20, "1": 30}, reprocessing="fixed"
)
AT_CUT: dict[str, object] = {"in": {"0": 7, "1": 9}}


def write_batch(files: LocalFolder, sink: str, batch: int, ends: dict[str, object], *, commits: bool) -> None:
    lines = ["v2", json.dumps({"batchWatermarkMs": 5, "conf": {"a": "b"}}), f"in:{json.dumps(ends)}"]
    files.write(f"{sink}/offsets/{batch}", "\n".join(lines).encode())
    files.write(f"{sink}/offsets/{batch}.crc", b"of the former text")
    if commits:
        files.write(f"{sink}/commits/{batch}", b"v1\n{}")


def make(folder: Path, ends: dict[str, object], *, planned: dict[str, object] | None = None) -> LocalFolder:
    files = LocalFolder(str(folder))
    write_batch(files, "out", 3, {"in": {"0": 1, "1": 2}}, commits=True)
    write_batch(files, "out", 4, ends, commits=True)
    if planned is not None:
        write_batch(files, "out", 5, planned, commits=False)
    shape = QueryFingerprint(sources={"in": "in"}, topic="out", mode=OutputMode.APPEND)
    files.write("_plans/out", shape.model_dump_json(by_alias=True).encode())
    return files


def revise(folder: Path) -> Revision:
    return build_revision(folder).model_copy(
        update={"moves": (MOVE,), "topics": {"in": "in.r1", "out": "out"}}
    )


def test_a_query_at_the_cut_continues_in_the_new_topic_with_all_else_as_it_was(tmp_path: Path) -> None:
    files = make(tmp_path, AT_CUT)
    for _ in range(2):
        move_checkpoint(files, revise(tmp_path))
        assert read_committed_offsets(files, "out") == {"in": {("in.r1", 0): 20, ("in.r1", 1): 30}}
        entry = read_entry(files, "out", 4)
        assert entry is not None
        assert (entry.watermark, entry.settings) == (5, {"a": "b"})
        assert files.read("out/offsets/4.crc") is None
        assert read_fingerprints(files)["out"].sources == {"in": "in.r1"}


def test_the_other_topics_of_a_source_stay(tmp_path: Path) -> None:
    files = make(tmp_path, {**AT_CUT, "other": {"0": 4}})
    move_checkpoint(files, revise(tmp_path))
    assert read_committed_offsets(files, "out")["in"][("other", 0)] == 4


def test_a_planned_batch_without_records_moves_as_well(tmp_path: Path) -> None:
    files = make(tmp_path, AT_CUT, planned=AT_CUT)
    move_checkpoint(files, revise(tmp_path))
    entry = read_entry(files, "out", 5)
    assert entry is not None
    assert entry.ends == {"in": {"in.r1": {"0": 20, "1": 30}}}


@pytest.mark.parametrize(
    ("committed", "planned"),
    [
        ({"in": {"0": 6, "1": 9}}, None),
        ({"in": {"0": 8, "1": 9}}, None),
        ({"in": {"0": 7, "1": 9, "2": 1}}, None),
        (AT_CUT, {"in": {"0": 8, "1": 9}}),
    ],
)
def test_a_query_before_or_beyond_the_cut_is_refused_and_nothing_is_written(
    tmp_path: Path, committed: dict[str, object], planned: dict[str, object] | None
) -> None:
    files = make(tmp_path, committed, planned=planned)
    before = {path: files.read(path) for path in files.walk("")}
    with pytest.raises(LostDataError, match="moved its readers to"):
        move_checkpoint(files, revise(tmp_path))
    assert {path: files.read(path) for path in files.walk("")} == before


def test_a_new_checkpoint_has_nothing_to_move(tmp_path: Path) -> None:
    move_checkpoint(LocalFolder(str(tmp_path)), revise(tmp_path))
    assert not list(tmp_path.iterdir())
