"""The archive of a topic: which files a reading takes, where it goes over to the log, and what it notices."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kappa_pipelines.archive.files import Row, read_slice, write_segment
from kappa_pipelines.archive.seam import find_seams
from kappa_pipelines.archive.segments import (
    Segment,
    Slice,
    cover,
    find_end,
    list_segments,
    name_topic_folder,
)
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.errors import LostDataError

IDENTITY = {"topic": "flights", "topicId": "abc"}


def build(*ranges: tuple[int, int], partition: int = 0) -> list[Segment]:
    return [Segment(partition, first, end) for first, end in ranges]


HEADERS: list[dict[str, Any]] = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]


def build_row(offset: int, **fields: Any) -> Row:
    row = Row(offset, 1_357_000_000_123 + offset, 0, b"k", b"\x00\xff" * 3, HEADERS)
    return row._replace(**fields)


def read(folder: LocalFolder, part: Slice) -> list[Row]:
    rows = [row for batch in read_slice(folder, part) for row in batch.to_pylist()]
    return [
        Row(
            row["offset"], row["timestamp"] and round(row["timestamp"].timestamp() * 1000), row["timestampType"],
            row["key"], row["value"], row["headers"],
        )
        for row in rows
    ]  # fmt: skip


def list_offsets(slices: Sequence[Slice]) -> list[int]:
    return [offset for each in slices for offset in range(each.first, each.end)]


def test_a_path_names_its_segment() -> None:
    segment = Segment(2, 5, 41_234)
    assert segment.path == "00002/00000000000000000005-00000000000000041234.parquet"
    assert Segment.parse(segment.path) == segment


@pytest.mark.parametrize(
    "path", ["00002/5-9.parquet", "x", Segment(0, 5, 5).path, Segment(0, 5, 9).path + ".part"]
)
def test_other_files_are_no_segments(path: str) -> None:
    assert Segment.parse(path) is None


def test_a_topic_that_was_created_again_has_another_folder() -> None:
    assert name_topic_folder("flights", "a/b+c") == "flights/a_b-c"
    assert name_topic_folder("flights", "abc") != name_topic_folder("flights", "abd")


def test_overlapping_segments_are_read_once() -> None:
    found = list(cover(build((0, 10), (0, 15), (12, 20), (10, 12), (20, 30)), 3))
    assert [(each.first, each.end) for each in found] == [(3, 15), (15, 20), (20, 30)]


@pytest.mark.parametrize("seed", range(30))
def test_any_segments_give_each_offset_once_in_order_up_to_the_first_gap(seed: int) -> None:
    rng = random.Random(seed)
    segments = build(*((first, first + rng.randrange(1, 20)) for first in rng.choices(range(100), k=15)))
    begin = rng.randrange(30)
    there = {offset for each in segments for offset in range(each.first, each.end)}
    end = next(offset for offset in range(begin, 200) if offset not in there)
    assert list_offsets(list(cover(segments, begin))) == list(range(begin, end))
    assert find_end(segments, begin) == end


def test_the_seam_is_the_end_of_the_archive() -> None:
    segments = {0: build((0, 100), (100, 250)), 1: build((0, 40), partition=1)}
    assert find_seams("flights", segments, {0: 200, 1: 40, 2: 0}) == {0: 250, 1: 40, 2: 0}


def test_a_run_from_a_later_offset_needs_no_earlier_segment() -> None:
    assert find_seams("flights", {0: build((100, 250))}, {0: 200}, {0: 120}) == {0: 250}


def test_offsets_that_neither_has_are_named() -> None:
    segments = {0: build((0, 100), (150, 250)), 1: build((0, 40), partition=1)}
    with pytest.raises(LostDataError) as caught:
        find_seams("flights", segments, {0: 200, 1: 41, 2: 7})
    assert caught.value.message.endswith(
        "partition 0: offsets 100 to 149; partition 1: offsets 40 to 40; partition 2: offsets 0 to 6"
    )


def test_a_file_keeps_each_byte_of_a_record(tmp_path: Path) -> None:
    folder = LocalFolder(str(tmp_path))
    rows = [
        build_row(3),
        build_row(4, key=None, value=None, headers=None, timestamp=None, timestamp_type=-1),
        build_row(7, value=b""),
    ]
    segment = Segment(1, 3, 9)
    write_segment(folder, segment, rows, IDENTITY)
    assert list_segments(folder) == {1: [segment]}
    assert read(folder, Slice(segment, 3, 9)) == rows
    assert [row.offset for row in read(folder, Slice(segment, 4, 7))] == [4]


def test_a_range_without_a_committed_record_has_a_file(tmp_path: Path) -> None:
    folder, segment = LocalFolder(str(tmp_path)), Segment(0, 3, 9)
    write_segment(folder, segment, [], IDENTITY)
    assert read(folder, Slice(segment, 3, 9)) == []


def test_a_damaged_file_is_noticed(tmp_path: Path) -> None:
    folder, segment = LocalFolder(str(tmp_path)), Segment(0, 0, 500)
    write_segment(
        folder, segment, [build_row(n, value=random.Random(n).randbytes(200)) for n in range(500)], IDENTITY
    )
    path = tmp_path / segment.path
    held = bytearray(path.read_bytes())
    held[len(held) // 2] ^= 1
    path.write_bytes(bytes(held))
    with pytest.raises(LostDataError, match="damaged"):
        read(folder, Slice(segment, 0, 500))


def test_a_file_under_another_name_is_noticed(tmp_path: Path) -> None:
    folder, segment = LocalFolder(str(tmp_path)), Segment(0, 0, 5)
    write_segment(folder, segment, [build_row(n) for n in range(5)], IDENTITY)
    moved = Segment(0, 5, 10)
    folder.move(segment.path, moved.path)
    with pytest.raises(LostDataError, match="claims"):
        read(folder, Slice(moved, 5, 10))


def test_a_file_that_was_removed_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(LostDataError, match="any more"):
        read(LocalFolder(str(tmp_path)), Slice(Segment(0, 0, 5), 0, 5))
