"""The search for timestamps, against logs of every kind: what is found is what the log says, and what cannot be known is not guessed."""

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kappa_operator.lag.timestamps import AHEAD, NEWEST, TOLERANCE, Answer, Search

NOW = 1_800_000_000_000
CEILING = NOW + AHEAD
MONTH = 30 * 86_400_000
Log = dict[int, int]
"""Timestamps by offset; an offset that is left out holds no record."""


def answer(log: Log, asked: int, end: int) -> Answer:
    """Answer as Kafka does."""
    if asked == NEWEST:
        offset = max(log, key=lambda each: (log[each], -each))
        return Answer(asked, offset, log[offset])
    for offset in sorted(log):
        if log[offset] >= asked:
            return Answer(asked, offset, log[offset])
    return Answer(asked, end, -1)


def search_to_the_end(search: Search, log: Log, limit: int = 90) -> Search:
    while not search.done:
        asked = search.ask()
        search.take(answer(log, asked, search.end))
        assert search.rounds <= limit, search
    return search


def begin(log: Log, target: int, end: int, **more: object) -> Search:
    return Search(target, min(log, default=end), end, CEILING, **more)  # type: ignore[arg-type]


def reached(log: Log, target: int) -> int:
    """Return the newest timestamp up to the target."""
    return max(stamp for offset, stamp in log.items() if offset <= target)


@st.composite
def ascending(draw: st.DrawFn) -> Log:
    steps = draw(st.lists(st.integers(0, MONTH // 50) | st.integers(0, 3), min_size=1, max_size=40))
    begin = draw(st.integers(NOW - MONTH, NOW))
    stamps, stamp = [], begin
    for step in steps:
        stamp = min(stamp + step, NOW)
        stamps.append(stamp)
    first = draw(st.integers(0, 1000))
    return {first + index: stamp for index, stamp in enumerate(stamps)}


@st.composite
def disordered(draw: st.DrawFn) -> Log:
    stamps = draw(st.lists(st.integers(NOW - MONTH, NOW) | st.just(-1), min_size=1, max_size=40))
    return dict(enumerate(stamps))


@settings(max_examples=examples(300), deadline=None)
@given(ascending(), st.data())
def test_in_a_log_in_order_it_is_the_records_own_timestamp(log: Log, data: st.DataObject) -> None:
    target = data.draw(st.sampled_from(sorted(log)))
    guess = data.draw(st.none() | st.integers(NOW - 2 * MONTH, NOW + MONTH))
    found = search_to_the_end(begin(log, target, max(log) + 1, guess=guess), log)
    assert found.stamp is not None, found
    assert abs(found.stamp - log[target]) < TOLERANCE


@settings(max_examples=examples(300), deadline=None)
@given(disordered(), st.data())
def test_out_of_order_it_is_the_newest_timestamp_that_the_log_has_reached(
    log: Log, data: st.DataObject
) -> None:
    target = data.draw(st.sampled_from(sorted(log)))
    found = search_to_the_end(begin(log, target, max(log) + 1), log)
    expected = reached(log, target)
    assert (found.stamp is None) == (expected < 0)
    assert found.stamp is None or abs(found.stamp - expected) < TOLERANCE


@settings(max_examples=examples(300), deadline=None)
@given(ascending(), st.data())
def test_over_a_gap_it_is_the_next_existing_record_or_the_previous_one_within_the_tolerance(
    log: Log, data: st.DataObject
) -> None:
    kept = {offset: log[offset] for offset in log if offset == max(log) or data.draw(st.booleans())}
    target = data.draw(st.sampled_from(sorted(log)))
    distinct = {stamp: offset for offset, stamp in kept.items()}
    kept = {offset: stamp for stamp, offset in distinct.items()}
    found = search_to_the_end(begin(kept, target, max(log) + 1, gaps=True), kept)
    after = min(offset for offset in kept if offset >= target)
    assert found.stamp is not None
    assert abs(found.stamp - kept[after]) <= TOLERANCE


@settings(max_examples=examples(300), deadline=None)
@given(ascending(), st.integers(0, 39), st.integers(AHEAD, MONTH))
def test_a_timestamp_from_the_future_hides_those_that_come_after_it(log: Log, at: int, ahead: int) -> None:
    first = min(log)
    poisoned = {**log, first + min(at, len(log) - 1): NOW + ahead}
    for target in poisoned:
        found = search_to_the_end(begin(poisoned, target, max(log) + 1), poisoned)
        if reached(poisoned, target) >= CEILING:
            assert found.stamp is None
            assert "future" in found.why
        else:
            assert found.stamp is not None


@settings(max_examples=examples(300), deadline=None)
@given(ascending(), st.data())
def test_known_answers_are_not_requested_again(log: Log, data: st.DataObject) -> None:
    target = data.draw(st.sampled_from(sorted(log)))
    first = search_to_the_end(begin(log, target, max(log) + 1), log)
    grown = {**log, max(log) + 1: NOW, max(log) + 2: NOW}
    again = begin(grown, target, max(grown) + 1)
    again.recall(first.remember())
    assert again.done
    assert again.stamp == first.stamp


@settings(max_examples=examples(300), deadline=None)
@given(ascending(), st.data())
def test_what_was_answered_of_records_that_have_gone_does_no_harm(log: Log, data: st.DataObject) -> None:
    target = data.draw(st.sampled_from(sorted(log)))
    before = data.draw(st.sampled_from(sorted(log)))
    known = search_to_the_end(begin(log, before, max(log) + 1), log).remember()
    start = data.draw(st.integers(min(log), target))
    shortened = {offset: stamp for offset, stamp in log.items() if offset >= start}
    again = Search(target, start, max(log) + 1, CEILING)
    again.recall(known)
    found = search_to_the_end(again, shortened)
    assert found.stamp is not None
    assert abs(found.stamp - log[target]) < TOLERANCE


def test_a_steady_log_takes_few_questions_and_fewer_with_a_guess() -> None:
    log = {offset: NOW - MONTH + offset * 40 for offset in range(0, 1_000)}
    cold = search_to_the_end(begin(log, 700, 1000), log)
    warm = search_to_the_end(begin(log, 700, 1000, guess=log[700] - 300), log)
    recalled = begin(log, 900, 1000, guess=log[900] - 200)
    recalled.recall(warm.remember())
    assert cold.rounds <= 9
    assert warm.rounds <= 5
    assert search_to_the_end(recalled, log).rounds <= 3


def test_the_next_record_takes_one_request() -> None:
    log = {offset: NOW - MONTH + offset * 20_000 for offset in range(0, 100)}
    known = search_to_the_end(begin(log, 40, 100), log).remember()
    following = begin(log, 41, 100)
    following.recall(known)
    assert search_to_the_end(following, log).rounds == 1
    later = begin(log, 70, 100)
    later.recall(known)
    assert not later.done
    assert later.ask() != NEWEST
    assert search_to_the_end(later, log).rounds <= 2


def test_an_empty_answer_is_no_timestamp() -> None:
    found = search_to_the_end(begin({0: -1, 1: -1}, 1, 2), {0: -1, 1: -1})
    assert (found.stamp, found.why) == (None, "the record has no timestamp")
