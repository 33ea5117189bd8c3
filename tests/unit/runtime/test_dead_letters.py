"""Dead letters beside the queries: every malformed record is scanned, whatever was lost of positions, progress and metadata."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from kappa_pipelines.checkpoint.format.offsets import Malformed, Offsets
from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.kafka.subscription import Subscription
from kappa_pipelines.side_outputs.background import OutputContext
from kappa_pipelines.side_outputs.dead_letters.position import disable_positions, read_position
from kappa_pipelines.side_outputs.dead_letters.ranges import Span
from kappa_pipelines.side_outputs.dead_letters.worker import DeadLetters, Owned
from unit.runtime.kills import Killed, KillingFolder, count_writes

SOURCE = Owned("flights", Subscription(("in",)), "out")
SECONDS = 10.0


class Driver:
    """Dead letters of one driver; `first` are the first offsets by Kafka's metadata."""

    def __init__(self, files: LocalFolder, first: Offsets) -> None:
        self.files, self.first = files, first
        self.scanned: set[tuple[str, int, int]] = set()
        context = OutputContext(files, lambda: None, lambda _source: self.first)
        self.letters = DeadLetters(context, (SOURCE,), self._scan)

    def _scan(self, source: str, span: Span) -> int:
        for (topic, part), end in span.end.items():
            self.scanned |= {(topic, part, at) for at in range(span.start.get((topic, part), 0), end)}
        return 0

    def start(self) -> "Driver":
        self.letters.start({"flights": commit(self.files)})
        return self

    def note(self, start: Offsets, end: Offsets, malformed: int) -> None:
        self.letters.note("out", "flights", start, end, Malformed(malformed))

    def finish(self) -> None:
        assert self.letters.finish({}, SECONDS)


def commit(files: LocalFolder) -> Offsets:
    """Return the committed offsets."""
    batches = [int(name) for name in files.names("out/commits")]
    return {("in", 0): 10 * (max(batches) + 1)} if batches else {}


@pytest.fixture
def files(tmp_path: Path) -> LocalFolder:
    return LocalFolder(f"file://{tmp_path}")


def run_batches(files: LocalFolder, *batches: int) -> None:
    """Have the log of offsets hold these batches, of ten records each."""
    files.write("out/sources/flights/0", b'v1\n{"in":{"0":0}}')
    for batch in batches:
        entry = json.dumps({"in": {"0": 10 * (batch + 1)}})
        files.write(f"out/offsets/{batch}", f'v2\n{{"batchWatermarkMs":0}}\nflights:{entry}'.encode())
        files.write(f"out/commits/{batch}", b"v1")


def offsets(begin: int, end: int, part: int = 0) -> set[tuple[str, int, int]]:
    return {("in", part, at) for at in range(begin, end)}


def test_a_position_that_was_lost_has_the_batches_of_the_log_scanned_again(files: LocalFolder) -> None:
    run_batches(files, 5, 6, 7)
    driver = Driver(files, {("in", 0): 0}).start()
    driver.finish()
    assert driver.scanned == offsets(60, 80)
    kept = read_position(files, "flights")
    assert kept is not None
    assert kept.offsets == {("in", 0): 80}


def test_a_position_that_was_lost_before_the_first_batch_went_has_all_scanned(files: LocalFolder) -> None:
    run_batches(files, 0, 1)
    driver = Driver(files, {("in", 0): 0}).start()
    driver.finish()
    assert driver.scanned == offsets(0, 20)


def test_a_pipeline_that_gets_a_dead_letter_topic_later_takes_what_comes_from_then_on(
    files: LocalFolder,
) -> None:
    run_batches(files, 0, 1)
    disable_positions(files, ("flights",))
    driver = Driver(files, {("in", 0): 0}).start()
    driver.note({("in", 0): 20}, {("in", 0): 30}, 1)
    driver.finish()
    assert driver.scanned == offsets(20, 30)


def test_a_pipeline_that_has_none_any_more_forgets_where_it_was(files: LocalFolder) -> None:
    driver = Driver(files, {("in", 0): 0}).start()
    driver.note({("in", 0): 0}, {("in", 0): 10}, 1)
    driver.finish()
    run_batches(files, 0, 1, 2)
    disable_positions(files, ("flights",))
    again = Driver(files, {("in", 0): 0}).start()
    again.finish()
    assert again.scanned == set()


@pytest.mark.parametrize(("first", "scanned"), [(0, (0, 12)), (4, (4, 12)), (7, (7, 12))])
def test_a_new_partition_whose_first_progress_was_lost_is_scanned_from_its_beginning(
    files: LocalFolder, first: int, scanned: tuple[int, int]
) -> None:
    driver = Driver(files, {("in", 0): 0, ("in", 1): first}).start()
    driver.note({("in", 0): 0}, {("in", 0): 10}, 0)
    driver.note({("in", 0): 10, ("in", 1): 7}, {("in", 0): 20, ("in", 1): 12}, 0)
    driver.finish()
    found = {each for each in driver.scanned if each[1] == 1}
    assert found == (offsets(*scanned, part=1) if first < 7 else set())
    assert driver.letters.totals.lost == 0


def test_a_partition_that_the_metadata_does_not_have_yet_is_scanned_later_and_not_lost(
    files: LocalFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(files, {("in", 0): 0}).start()
    monkeypatch.setattr("kappa_pipelines.side_outputs.background._RETRY_SECONDS", 0.01, raising=False)
    driver.note({("in", 0): 0, ("in", 1): 0}, {("in", 0): 10, ("in", 1): 5}, 1)
    driver.first = {("in", 0): 0, ("in", 1): 0}
    driver.finish()
    assert driver.scanned == offsets(0, 10) | offsets(0, 5, part=1)
    assert driver.letters.totals.lost == 0


def test_records_of_a_topic_that_is_gone_are_counted_as_lost(files: LocalFolder) -> None:
    driver = Driver(files, {}).start()
    driver.note({("in", 0): 0}, {("in", 0): 10}, 1)
    driver.finish()
    assert (driver.scanned, driver.letters.totals.lost) == (set(), 10)


def test_records_that_left_the_topic_are_counted_and_the_rest_is_scanned(files: LocalFolder) -> None:
    driver = Driver(files, {("in", 0): 4}).start()
    driver.note({("in", 0): 0}, {("in", 0): 10}, 1)
    driver.finish()
    assert (driver.scanned, driver.letters.totals.lost) == (offsets(4, 10), 4)


def test_a_file_of_an_older_driver_is_taken_up(files: LocalFolder) -> None:
    stored: dict[str, Any] = {"topic": "in", "offsets": {"in": {"0": 10}}, "birth": False}
    files.write("dead-letter/flights.json", json.dumps(stored).encode())
    run_batches(files, 0, 1)
    driver = Driver(files, {("in", 0): 0}).start()
    driver.finish()
    assert driver.scanned == offsets(10, 20)


BATCHES = 4


def run_driver(driver: Driver, committed: int) -> int:
    """Run batches after `committed`, each with a malformed record, and return the last one that was committed."""
    with contextlib.suppress(Killed):
        driver.start()
        for batch in range(committed + 1, BATCHES):
            run_batches(LocalFolder(driver.files.root), batch)
            committed = batch
            driver.note({("in", 0): 10 * batch} if batch else {}, {("in", 0): 10 * (batch + 1)}, 1)
        driver.letters.finish({"flights": {("in", 0): 10 * BATCHES}}, SECONDS)
    return committed


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_driver_killed_inside_any_write_loses_no_dead_letter(tmp_path: Path) -> None:
    first = {("in", 0): 0}
    writes = count_writes(f"file://{tmp_path}/whole", lambda files: run_driver(Driver(files, first), -1))
    assert writes >= 2
    for number in range(1, writes + 1):
        for is_done in (False, True):
            files = KillingFolder(f"file://{tmp_path}/{number}-{is_done}", number, is_done=is_done)
            died = Driver(files, first)
            committed = run_driver(died, -1)
            again = Driver(LocalFolder(files.root), first)
            run_driver(again, committed)
            assert died.scanned | again.scanned == offsets(0, 10 * BATCHES), (number, is_done)
