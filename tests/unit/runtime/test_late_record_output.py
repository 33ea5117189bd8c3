"""Late records in the background: each committed batch that dropped rows is read again, wherever a driver was killed."""

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from kappa_crds.window import Window
from kappa_pipelines.checkpoint.format.offsets import Offsets
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.plan.late_rows import LateRecordView
from kappa_pipelines.side_outputs.background import OutputContext
from kappa_pipelines.side_outputs.late_records.worker import LateRecordOutput, delete_ledgers, read_ledger
from kappa_pipelines.sources.batches import Batch
from unit.runtime.kills import Killed, KillingFolder, count_writes

WINDOW = Window.model_validate(
    {"from": "in", "time": "t", "tumbling": "10s", "aggregates": {"n": "count(*)"}}
)
VIEW = LateRecordView("counts", WINDOW, "t", "late", "out", frozenset({"in"}), ("in",))
SECONDS = 10.0


def write_batches(files: LocalFolder, *batches: int) -> None:
    """Write a log of committed batches of ten records."""
    files.write("out/sources/in/0", b'v1\n{"in":{"0":0}}')
    for batch in batches:
        entry = json.dumps({"in": {"0": 10 * (batch + 1)}})
        files.write(f"out/offsets/{batch}", f'v2\n{{"batchWatermarkMs":{batch}}}\nin:{entry}'.encode())
        files.write(f"out/commits/{batch}", b"v1")


class Driver:
    """The late records of one driver."""

    def __init__(self, files: LocalFolder, first: Offsets | None = None) -> None:
        self.files, self.read = files, list[int]()
        first = first or {("in", 0): 0}
        context = OutputContext(files, lambda: None, lambda _source: first)
        self.output = LateRecordOutput(context, (VIEW,), self._scan)

    def _scan(self, view: LateRecordView, batches: Sequence[Batch]) -> int:
        assert view == VIEW
        self.read += [batch.number for batch in batches]
        return len(batches)

    def run(self, *reports: tuple[int, int | None], last: int, before: int = -1) -> "Driver":
        """Start after a batch, take reports of batches with their dropped rows, and finish at the last batch."""
        self.output.start({"out": before})
        for number, late in reports:
            self.output.note("out", number, late)
        assert self.output.finish({"out": last}, SECONDS)
        return self


@pytest.fixture
def files(tmp_path: Path) -> LocalFolder:
    files = LocalFolder(f"file://{tmp_path}")
    write_batches(files, 0, 1, 2, 3)
    return files


def test_only_batches_that_dropped_rows_are_read_again(files: LocalFolder) -> None:
    driver = Driver(files).run((0, 0), (1, 3), (2, 0), (3, 0), last=3)
    assert (driver.read, driver.output.totals.written) == ([1], 1)
    ledger = read_ledger(files, "out")
    assert ledger is not None
    assert (ledger.seen, ledger.pending) == (3, ())


def test_batches_without_a_report_are_read_again(files: LocalFolder) -> None:
    assert Driver(files).run((0, 0), (2, 0), last=3).read == [1, 3]


def test_a_start_reads_batches_that_the_last_driver_did_not_report(files: LocalFolder) -> None:
    Driver(files).run((0, 0), last=0)
    assert Driver(files).run(last=3, before=3).read == [1, 2, 3]


def test_a_checkpoint_that_was_reset_reads_its_batches_again(files: LocalFolder) -> None:
    Driver(files).run((0, 0), (1, 0), (2, 0), (3, 0), last=3)
    assert Driver(files).run((2, 1), (3, 0), last=3, before=1).read == [2]


def test_batches_that_left_the_offset_log_are_counted_as_lost(files: LocalFolder) -> None:
    files.delete("out/offsets/0")
    files.delete("out/offsets/1")
    driver = Driver(files).run((3, 0), last=3)
    assert (driver.read, driver.output.totals.lost) == ([], 3)


def test_records_that_retention_deleted_are_counted_as_lost(files: LocalFolder) -> None:
    driver = Driver(files, {("in", 0): 14}).run((0, 0), (1, 2), (2, 0), (3, 0), last=3)
    assert (driver.read, driver.output.totals.lost) == ([1], 4)


def test_a_query_without_late_records_output_has_no_ledger(files: LocalFolder) -> None:
    Driver(files).run((0, 0), last=0)
    delete_ledgers(files, ["out"])
    assert read_ledger(files, "out") is None


REPORTS = ((0, 0), (1, 3), (2, 0), (3, 1))


def run_all(files: LocalFolder) -> list[int]:
    return Driver(files).run(*REPORTS, last=3).read


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_driver_killed_inside_any_write_loses_no_late_batch(tmp_path: Path) -> None:
    def start(name: str) -> str:
        write_batches(LocalFolder(f"file://{tmp_path}/{name}"), 0, 1, 2, 3)
        return f"file://{tmp_path}/{name}"

    for number in range(1, count_writes(start("whole"), run_all) + 1):
        for is_done in (False, True):
            files = KillingFolder(start(f"{number}-{is_done}"), number, is_done=is_done)
            died, committed = Driver(files), -1
            with contextlib.suppress(Killed):
                died.output.start({"out": -1})
                for committed, late in REPORTS:
                    died.output.note("out", committed, late)
                died.output.finish({"out": 3}, SECONDS)
            again = Driver(LocalFolder(files.root)).run(last=3, before=committed)
            assert {1, 3} <= {*died.read, *again.read}, (number, is_done)
