"""Which batches are read again for their stragglers, and what the offset log says of them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kappa_pipelines.checkpoint.format.offsets import parse_entry
from kappa_pipelines.side_outputs.late_records.ledger import Ledger
from kappa_pipelines.sources.batches import Batch, parse_batch, without_lost

SOURCES = ("flights",)
LOG = """v2
{"batchWatermarkMs":1356998400000,"batchTimestampMs":1764000000000,"conf":{"spark.sql.shuffle.partitions":"2"},"version":2}
flights:{"in":{"0":12,"1":7}}
files:{"logOffset":3}
"""


def build_batch(number: int, start: int = 0, end: int = 10) -> Batch:
    return Batch(number, 5, {"flights": {"in": {"0": end}}}, {"flights": {"in": {"0": start}}})


def note(ledger: Ledger, number: int, late: int | None) -> Ledger:
    return ledger.with_batches(number, tuple(map(build_batch, ledger.find_new(number, late))))


def test_an_entry_of_the_offset_log_has_the_ends_of_all_sources_and_a_watermark() -> None:
    ends: dict[str, Any] = {"flights": {"in": {"0": 12, "1": 7}}, "files": {"logOffset": 3}}
    entry = parse_entry(LOG)
    assert (entry.ends, entry.watermark) == (ends, 1356998400000)
    assert entry.settings == {"spark.sql.shuffle.partitions": "2"}


def test_a_batch_is_the_same_after_it_was_stored() -> None:
    assert parse_batch(build_batch(3).to_json()) == build_batch(3)


def test_a_batch_that_dropped_nothing_is_not_read_again() -> None:
    assert note(note(Ledger(), 0, 0), 1, 0) == Ledger(1)


def test_batches_without_progress_are_read_again_and_none_twice() -> None:
    ledger = note(note(Ledger(4), 7, 0), 7, 3)
    assert [batch.number for batch in ledger.pending] == [5, 6]
    assert note(ledger, 6, None) == ledger


def test_a_job_reads_batches_that_follow_each_other_up_to_a_limit() -> None:
    ledger = note(note(note(note(Ledger(), 0, 1), 1, 1), 2, 0), 3, 1)
    assert [batch.number for batch in ledger.next_part(SOURCES, 100)] == [0, 1]
    assert [batch.number for batch in ledger.next_part(SOURCES, 10)] == [0]
    left = ledger.without(ledger.next_part(SOURCES, 100))
    assert [batch.number for batch in left.next_part(SOURCES, 1)] == [3]


def test_after_a_checkpoint_was_set_back_batches_are_known_up_to_there() -> None:
    ledger = note(note(Ledger(2), 3, 1), 5, 1)
    assert [batch.number for batch in ledger.up_to(4).pending] == [3, 4]
    assert ledger.up_to(4).seen == 4
    assert ledger.up_to(9) == ledger


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from([None, 0, 2])), max_size=30))
def test_each_batch_with_dropped_rows_is_pending_once_for_any_progress(
    heard: list[tuple[int, int | None]],
) -> None:
    ledger = Ledger()
    for number, late in heard:
        ledger = note(ledger, number, late)
    pending = [batch.number for batch in ledger.pending]
    told: dict[int, int | None] = {}
    for number, late in heard:
        told.setdefault(number, late)
    last = max(told, default=-1)
    assert len(pending) == len(set(pending))
    assert ledger.seen == last
    clean = set(range(last + 1)) - set(pending)
    assert clean <= {number for number, late in heard if late == 0}


def test_records_that_are_gone_are_left_out_and_counted() -> None:
    batch, lost = without_lost(build_batch(1, 2, 10), "flights", {("in", 0): 5})
    assert (lost, batch.starts["flights"]) == (3, {"in": {0: 5}})
    batch, lost = without_lost(build_batch(1, 2, 10), "flights", {("in", 0): 50})
    assert (lost, batch.starts["flights"], batch.ends["flights"]) == (8, {"in": {0: 50}}, {"in": {0: 50}})
    assert without_lost(build_batch(1, 2, 10), "flights", {("in", 0): 0}) == (build_batch(1, 2, 10), 0)
