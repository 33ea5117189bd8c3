"""The archive as a stream of Spark: where its batches end, and what it notices."""

from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kappa_pipelines.archive.files import write_segment
from kappa_pipelines.archive.segments import Segment
from kappa_pipelines.archive.source import ArchiveRead, _Reader, build_options
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.errors import LostDataError
from unit.runtime.test_archive import IDENTITY, build_row


def build_reader(folder: Path, seams: dict[int, int], most: int = 1000) -> _Reader:
    read = ArchiveRead(str(folder), "flights", dict.fromkeys(seams, 0), seams)
    options = build_options(read, most)
    assert options["maxRecords"] == str(most)
    return _Reader(read, most, options["access"])


def test_batches_take_the_same_part_of_each_partition_and_end_at_the_seam(tmp_path: Path) -> None:
    reader = build_reader(tmp_path, {0: 1000, 1: 100, 2: 1, 3: 0}, most=110)
    offset, ends = reader.initialOffset(), []
    while (found := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
        offset = found
        ends.append(offset["flights"])
    assert ends[0] == {"0": 100, "1": 10, "2": 1, "3": 0}
    assert ends[4]["0"] == pytest.approx(10 * ends[4]["1"], rel=0.1)
    assert ends[-1] == reader.latestOffset(reader.initialOffset(), ReadAllAvailable())["flights"]
    assert ends[-1] == {"0": 1000, "1": 100, "2": 1, "3": 0}


def test_a_segment_that_vanished_after_the_seam_was_found_ends_the_reading(tmp_path: Path) -> None:
    folder = LocalFolder(str(tmp_path))
    write_segment(folder, Segment(0, 0, 5), [build_row(n) for n in range(5)], IDENTITY)
    reader = build_reader(tmp_path, {0: 9})
    with pytest.raises(LostDataError, match="offsets 5 to 8 of partition 0"):
        reader.partitions({"flights": {"0": 0}}, {"flights": {"0": 9}})
