"""The ledger of dead-letter work: nothing malformed is ever skipped, clean batches cost nothing."""

from hypothesis import given
from hypothesis import strategies as st

from kappa_pipelines.checkpoint.format.offsets import PARTITION_SHIFT, Malformed, Offsets, TopicPartition
from kappa_pipelines.side_outputs.dead_letters.ranges import Ledger, Span


def _at(parts: dict[int, int]) -> Offsets:
    """Offsets of the partitions of one topic."""
    return {("t", part): offset for part, offset in parts.items()}


def test_clean_batches_move_the_position_on_and_leave_nothing_to_scan() -> None:
    ledger = (
        Ledger.at(_at({0: 0}))
        .with_batch(_at({0: 0}), _at({0: 10}), malformed=Malformed(0))
        .with_batch(_at({0: 10}), _at({0: 20}), malformed=Malformed(0))
    )
    assert ledger.pending() is None
    assert ledger.position == _at({0: 20})


def test_a_batch_with_malformed_records_is_pending_until_it_is_scanned() -> None:
    ledger = Ledger.at(_at({0: 5})).with_batch(_at({0: 5}), _at({0: 10}), malformed=Malformed(2))
    assert ledger.pending() == Span(_at({0: 5}), _at({0: 10}))
    assert ledger.position == _at({0: 5})
    done = ledger.after_scan(Span(_at({0: 5}), _at({0: 10})))
    assert done.pending() is None
    assert done.position == _at({0: 10})


def test_batches_that_come_while_one_waits_are_merged_into_one_range() -> None:
    ledger = Ledger.at(_at({0: 0}))
    for start in range(0, 100, 10):
        ledger = ledger.with_batch(_at({0: start}), _at({0: start + 10}), malformed=Malformed(1))
    assert ledger.pending() == Span(_at({0: 0}), _at({0: 100}))


def test_an_uncounted_batch_is_pending() -> None:
    assert Ledger.at(_at({0: 5})).with_batch(_at({0: 5}), _at({0: 10}), malformed=None).pending() == Span(
        _at({0: 5}), _at({0: 10})
    )
    assert Ledger.at(_at({0: 5})).with_batch(_at({0: 5}), _at({0: 5}), malformed=None).pending() is None


def test_clean_batches_after_a_malformed_one_are_done_with_its_scan() -> None:
    ledger = (
        Ledger.at(_at({0: 0}))
        .with_batch(_at({0: 0}), _at({0: 10}), malformed=Malformed(1))
        .with_batch(_at({0: 10}), _at({0: 50}), malformed=Malformed(0))
    )
    assert ledger.pending() == Span(_at({0: 0}), _at({0: 10}))
    assert ledger.after_scan(Span(_at({0: 0}), _at({0: 10}))).position == _at({0: 50})


def test_a_gap_is_scanned_even_if_the_batch_after_it_is_clean() -> None:
    ledger = Ledger.at(_at({0: 0})).with_batch(_at({0: 30}), _at({0: 40}), malformed=Malformed(0))
    assert ledger.pending() == Span(_at({0: 0}), _at({0: 40}))


def build_malformed(places: set[tuple[TopicPartition, int]], *, is_located: bool) -> Malformed:
    """Return what a plan observes of malformed records at these places."""
    positions = [(partition << PARTITION_SHIFT) + offset for (_, partition), offset in places]
    if not positions or not is_located:
        return Malformed(len(positions))
    return Malformed(len(positions), min(positions), max(positions))


def test_one_malformed_record_costs_the_scan_of_one_offset() -> None:
    start, end = _at({0: 0, 1: 0, 2: 5}), _at({0: 1000, 1: 1000, 2: 1000})
    bad = build_malformed({(("t", 1), 17)}, is_located=True)
    span = Ledger.at(start).with_batch(start, end, bad).pending()
    assert span is not None
    assert span.size == 1
    assert (span.start["t", 1], span.end["t", 1]) == (17, 18)
    assert Ledger.at(start).with_batch(start, end, bad).after_scan(span).position == end


def test_malformed_records_of_two_partitions_cost_what_is_between_them() -> None:
    start, end = _at({0: 0, 1: 0, 2: 0}), _at({0: 100, 1: 100, 2: 100})
    bad = build_malformed({(("t", 0), 90), (("t", 2), 4)}, is_located=True)
    assert Ledger.at(start).with_batch(start, end, bad).pending() == Span(
        _at({0: 90, 1: 0, 2: 0}), _at({0: 100, 1: 100, 2: 5})
    )


def test_positions_are_no_bound_while_another_batch_is_pending() -> None:
    ledger = Ledger.at(_at({0: 0})).with_batch(_at({0: 0}), _at({0: 100}), None)
    bad = build_malformed({(("t", 0), 150)}, is_located=True)
    assert ledger.with_batch(_at({0: 100}), _at({0: 200}), bad).pending() == Span(_at({0: 0}), _at({0: 200}))


def test_a_batch_that_was_seen_before_is_not_scanned_again() -> None:
    ledger = Ledger.at(_at({0: 100})).with_batch(_at({0: 50}), _at({0: 100}), malformed=Malformed(3))
    assert ledger.pending() is None


def test_a_new_partition_is_scanned_from_its_beginning() -> None:
    ledger = Ledger.at(_at({0: 10})).with_batch(_at({0: 10}), _at({0: 10, 1: 5}), malformed=Malformed(1))
    assert ledger.pending() == Span(_at({0: 10, 1: 0}), _at({0: 10, 1: 5}))


def test_a_large_span_is_taken_in_parts() -> None:
    span = Span(_at({0: 0, 1: 0}), _at({0: 1000, 1: 10}))
    first = span.first(100)
    assert first == Span(_at({0: 0, 1: 0}), _at({0: 50, 1: 10}))
    ledger = Ledger(_at({0: 0, 1: 0}), span.end, span.end)
    assert ledger.after_scan(first).pending() == Span(_at({0: 50, 1: 10}), span.end)


ONE_TOPIC: list[TopicPartition] = [("t", 0), ("t", 1), ("t", 2)]
TWO_TOPICS: list[TopicPartition] = [("t", 0), ("t", 1), ("u", 0)]
BATCHES = st.lists(
    st.tuples(
        st.lists(st.integers(0, 20), min_size=3, max_size=3), st.sets(st.integers(0, 59)), st.booleans()
    ),
    max_size=20,
)


@given(batches=BATCHES, limit=st.integers(1, 30), scan_after=st.integers(1, 4), located=st.booleans())
def test_every_malformed_offset_is_scanned_whatever_events_are_lost(
    batches: list[tuple[list[int], set[int], bool]], limit: int, scan_after: int, *, located: bool
) -> None:
    places = ONE_TOPIC if located else TWO_TOPICS
    ledger, at = Ledger.at(dict.fromkeys(places, 0)), [0, 0, 0]
    wanted: set[tuple[TopicPartition, int]] = set()
    scanned: set[tuple[TopicPartition, int]] = set()
    for number, (sizes, malformed, is_lost) in enumerate(batches):
        start = dict(zip(places, at, strict=True))
        end = {p: start[p] + size for p, size in zip(places, sizes, strict=True)}
        offsets = [(p, o) for p in places for o in range(start[p], end[p])]
        bad = {offset for index, offset in enumerate(offsets) if index in malformed}
        wanted |= bad
        at = [end[p] for p in places]
        if not is_lost:
            ledger = ledger.with_batch(start, end, build_malformed(bad, is_located=located))
        if number % scan_after == 0:
            ledger = _scan_once(ledger, limit, scanned)
    ledger = ledger.with_batch(
        dict(zip(places, at, strict=True)), {p: o + 1 for p, o in zip(places, at, strict=True)}, None
    )
    while ledger.pending() is not None:
        ledger = _scan_once(ledger, limit, scanned)
    assert wanted <= scanned
    assert [ledger.position[p] for p in places] == [offset + 1 for offset in at]


def _scan_once(ledger: Ledger, limit: int, scanned: set[tuple[TopicPartition, int]]) -> Ledger:
    span = ledger.pending()
    if span is None:
        return ledger
    part = span.first(limit)
    scanned |= {(p, o) for p, end in part.end.items() for o in range(part.start.get(p, 0), end)}
    return ledger.after_scan(part)
