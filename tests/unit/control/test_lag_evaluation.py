"""The evaluator of lag: what each state means, what is not judged, and what never happens whatever the looks are."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.context import START
from kappa_crds.lagstate import LagState, Severity
from kappa_operator.lag.evaluate import Verdict, advance, is_alive, judge
from kappa_operator.lag.history import LagHistory
from kappa_operator.lag.model import PartitionLog, Sample
from kappa_operator.lag.rules import Rules, Threshold

RULES = Rules(
    Threshold(lag=60, records=1000, patience=120), Threshold(lag=600, time_to_loss=600, patience=60)
)
"""A window of 300 s, clear after 120 s, silence of 300 s."""


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def look(
    seconds: float,
    committed: int | None = 100,
    end: int = 100,
    *,
    behind: float | None = 0.0,
    start: int = 0,
    loss: float | None = None,
) -> Sample:
    return Sample(at(seconds), PartitionLog(start, end, end), committed, behind, loss)


def late(seconds: float, done: int, *, behind: float | None = 90.0) -> Sample:
    """A look at a share that has come `done` records further, with 100 to do."""
    return look(seconds, 100 + done, 200 + done, behind=behind)


def fold(
    *looks: Sample, rules: Rules = RULES, alive: bool | None = False, first: LagHistory | None = None
) -> LagHistory:
    history: LagHistory | None = first
    for sample in looks:
        history = advance(history, sample, rules, alive)
    assert history is not None
    return history


def say(history: LagHistory, rules: Rules = RULES) -> str:
    verdict = judge(history, history.at, rules)
    return verdict.state + ("!" if verdict.severity is Severity.CRITICAL else "")


def every(step: int, until: int, since: int = 0) -> range:
    return range(since, until + 1, step)


MOVING_LATE = [late(now, now) for now in every(30, 150)]
HISTORY = [look(now, 100, 200 + now, behind=5.0) for now in every(30, 300)]
SETTLED = [look(now) for now in every(30, 300)]


def test_a_group_within_its_bounds_is_ok_at_the_first_sample() -> None:
    assert say(fold(look(0, 90, 100, behind=2.0))) == "OK"


def test_lag_over_a_bound_for_as_long_as_allowed_is_a_warning() -> None:
    assert say(fold(look(0), *(late(now, now) for now in every(30, 120, 30)))) == "OK"
    assert say(fold(look(0), *(late(now, now) for now in every(30, 150, 30)))) == "Warning"


def test_lag_in_records_counts_where_the_time_lag_is_not_known() -> None:
    many = [look(now, now, now + 1001, behind=None) for now in every(30, 150)]
    assert say(fold(*many)) == "Warning"


def test_a_group_partition_over_a_bound_at_the_first_sample_is_not_ok() -> None:
    assert say(fold(late(0, 0), late(30, 30))) == "Unknown"


def test_a_higher_bound_is_critical() -> None:
    assert say(fold(*(late(now, now, behind=700) for now in every(30, 60)))) == "Warning!"


def test_an_offset_without_progress_in_a_moving_group_is_stalled() -> None:
    assert say(fold(*HISTORY, alive=True)) == "Stalled"


def test_a_group_in_which_nothing_moves_is_stopped() -> None:
    assert say(fold(*HISTORY, alive=False)) == "Stopped"


def test_where_it_is_not_known_whether_the_group_moves_it_stays_what_it_was() -> None:
    assert say(fold(*HISTORY, alive=None)) == "Stalled"
    stopped = fold(*HISTORY, alive=False)
    assert (
        say(fold(*(look(now, 100, 900, behind=5.0) for now in (330, 600)), first=stopped, alive=None))
        == "Stopped"
    )


def test_an_idle_share_begins_to_stand_still_when_a_record_comes() -> None:
    waiting = [look(now, 100, 101, behind=5.0) for now in every(30, 570, 300)]
    assert say(fold(*SETTLED, *waiting[:-1])) == "OK"
    assert say(fold(*SETTLED, *waiting, look(600, 100, 101, behind=5.0))) == "OK"
    assert say(fold(*SETTLED, *waiting, look(630, 100, 101, behind=5.0))) == "Stopped"


def test_markers_of_transactions_are_no_lag() -> None:
    assert say(fold(*(look(now, 99, 100, behind=0.0) for now in every(30, 900)))) == "OK"


def test_an_offset_that_goes_back_is_rewound_until_it_is_where_it_was() -> None:
    rewound = fold(look(0), look(30, 50, 100, behind=5.0))
    assert say(rewound) == "Rewound"
    again = fold(*(look(now, 101, 102, behind=1.0) for now in every(30, 180, 60)), first=rewound)
    assert say(again) == "OK"


def test_a_long_rewind_is_reported_for_one_window() -> None:
    far = [look(now, 1000 + now, 100_000, behind=5.0) for now in every(30, 480, 60)]
    plain = Rules(window=300.0)
    assert (
        say(
            fold(
                look(0, 90_000, 100_000, behind=5.0),
                look(30, 1000, 100_000, behind=5.0),
                *far[:8],
                rules=plain,
            ),
            plain,
        )
        == "Rewound"
    )
    assert (
        say(
            fold(
                look(0, 90_000, 100_000, behind=5.0), look(30, 1000, 100_000, behind=5.0), *far, rules=plain
            ),
            plain,
        )
        == "OK"
    )


def test_records_that_were_removed_before_they_were_read_are_lost() -> None:
    assert say(fold(look(0, 50, 100, behind=5.0), look(30, 50, 100, start=60, behind=5.0))) == "Losing!"


def test_a_log_that_was_emptied_before_it_was_read_is_a_loss_too() -> None:
    assert say(fold(look(0, 50, 100, behind=5.0), look(30, 50, 100, start=100))) == "Losing!"


def test_what_was_removed_after_it_was_done_is_no_loss() -> None:
    assert say(fold(look(0, 99, 100, behind=0.0), look(30, 99, 100, start=100))) == "OK"


def test_records_that_soon_are_removed_are_being_lost() -> None:
    soon = [look(now, now, now + 100, behind=5.0, loss=599.0) for now in every(30, 60)]
    assert say(fold(*soon[:2])) == "OK"
    assert say(fold(*soon)) == "Losing!"


def test_without_a_sample_nothing_is_known() -> None:
    well = fold(look(0))
    assert judge(well, at(300), RULES).state is LagState.OK
    assert judge(well, at(301), RULES) == Verdict(LagState.UNKNOWN, Severity.NONE)


def test_a_severity_stays_while_the_state_is_unknown() -> None:
    stopped = fold(*HISTORY)
    assert judge(stopped, at(7200), RULES) == Verdict(LagState.UNKNOWN, Severity.WARNING)


def test_samples_without_the_time_lag_of_a_bound_become_unknown() -> None:
    unavailable = [late(now, now, behind=None) for now in every(30, 330, 30)]
    assert say(fold(look(0), *unavailable[:-1])) == "OK"
    assert say(fold(look(0), *unavailable)) == "Unknown"


def test_a_time_without_samples_neither_raises_nor_clears() -> None:
    assert say(fold(look(0), late(30, 30), late(4000, 60))) == "Unknown", "it may have been over all the time"
    assert say(fold(look(0), look(4000))) == "OK"
    assert say(fold(*MOVING_LATE, look(180), look(4000))) == "Warning"


def test_a_severity_clears_after_the_configured_healthy_time() -> None:
    warned = fold(*MOVING_LATE)
    assert say(fold(*(look(now) for now in every(30, 270, 180)), first=warned)) == "Warning"
    assert say(fold(*(look(now) for now in every(30, 300, 180)), first=warned)) == "OK"


def test_a_problem_while_it_clears_restarts_the_wait() -> None:
    looks = [look(180), look(210), *(late(now, now) for now in every(30, 360, 240)), look(390), look(450)]
    assert say(fold(*MOVING_LATE, *looks)) == "Warning"


def test_a_late_sample_changes_nothing() -> None:
    history = fold(look(0), look(60, 120, 120))
    assert advance(history, look(30, 110, 110), RULES) is history
    assert advance(history, look(60, 500, 110), RULES) is history


def test_a_clock_that_jumps_ahead_counts_for_nothing() -> None:
    assert say(fold(look(0), look(10, 100, 200, behind=5.0), look(36_000, 100, 200, behind=5.0))) == "OK"


def test_a_clock_that_goes_back_counts_for_nothing_and_is_followed() -> None:
    ahead = fold(look(36_000), look(36_010, 100, 200, behind=5.0))
    assert judge(ahead, at(0), RULES).state is LagState.UNKNOWN, "until there is a look"
    back = fold(*(look(now, 100, 200, behind=5.0) for now in every(30, 270)), first=ahead)
    assert say(back) == "OK"
    assert say(fold(look(300, 100, 200, behind=5.0), first=back)) == "Stopped"


def test_a_recreated_topic_is_not_rewound() -> None:
    anew = fold(look(0, 100, 100), look(30, 5, 10, behind=1.0))
    assert (say(anew), anew.rewound) == ("OK", None)


def test_an_offset_of_a_previous_topic_is_unknown_in_the_new_one() -> None:
    stale = [look(now, 100, 10 + now // 30, behind=0.0) for now in every(30, 360, 30)]
    assert say(fold(look(0, 100, 100), *stale)) == "Unknown"


def test_an_offset_sampled_after_the_end_counts_as_moving() -> None:
    ahead = [look(now, now + 5, now, behind=None) for now in every(30, 900, 30)]
    assert say(fold(look(0, 0, 0), *ahead)) == "OK"


def test_a_partition_that_is_added_is_ok_while_it_is_empty() -> None:
    assert say(fold(look(0, None, 0))) == "OK"


def test_a_group_that_has_committed_nothing_is_unknown_where_there_are_records() -> None:
    assert say(fold(*(look(now, None, 100, behind=None) for now in every(30, 900)))) == "Unknown"


def test_a_group_that_disappears_is_unknown_and_returns_without_history() -> None:
    gone = fold(look(0), *(look(now, None, 100, behind=None) for now in every(30, 360, 30)))
    assert say(gone) == "Unknown"
    back = fold(look(390, 10, 100, behind=5.0), first=gone)
    assert (say(back), back.rewound) == ("OK", None)


def test_a_group_moves_if_it_moves_in_any_partition() -> None:
    quiet = fold(*(look(now) for now in every(30, 300)))
    moved = fold(*(look(now, now, now) for now in every(30, 300)))
    fresh = fold(look(300))
    assert is_alive([(quiet, look(330)), (quiet, look(330))], RULES) is False
    assert is_alive([(quiet, look(330)), (moved, look(330, 300, 300))], RULES) is True
    assert is_alive([(quiet, look(330)), (fresh, look(330, 101, 101))], RULES) is True
    assert is_alive([(quiet, look(330)), (fresh, look(330))], RULES) is None
    assert is_alive([(quiet, look(330)), (None, look(330))], RULES) is None
    assert is_alive([(quiet, look(36_000))], RULES) is None, "not watched meanwhile"


def test_a_standing_is_read_back_as_it_was_written() -> None:
    for history in (fold(look(0)), fold(*HISTORY), fold(look(0), look(30, 50, 100, behind=5.0))):
        assert LagHistory.from_json(history.to_json()) == history


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"at": [], "since": [], "watched": []}', '{"at": "x"}'])
def test_what_is_no_standing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        LagHistory.from_json(text)


def test_a_standing_of_another_version_is_read_without_what_is_unknown() -> None:
    history = fold(look(0))
    assert LagHistory.from_json(history.to_json()[:-1] + ',"invented":7}') == history


def test_only_the_history_of_a_healthy_group_partition_is_dropped() -> None:
    assert fold(look(0)).is_plain
    assert not fold(look(0), late(30, 30)).is_plain
    assert not fold(*HISTORY).is_plain
    assert not fold(look(0, 50, 100, behind=5.0)).is_plain, "it may stand still"


# Whatever the looks are.

Step = tuple[float, int, int, float | None, float | None, bool]
steps = st.tuples(
    st.floats(1, 290),  # seconds to the next look
    st.integers(-20, 60),  # how the committed offset moves
    st.integers(0, 60),  # how the end moves
    st.sampled_from([0.0, 5.0, 59.0, 90.0, 700.0, None]),  # behind
    st.sampled_from([None, 100.0, 10_000.0]),  # time to loss
    st.booleans(),  # alive
)
histories = st.lists(steps, min_size=1, max_size=60)


def build_looks(
    trace: list[Step],
) -> list[tuple[Sample, bool]]:
    now, committed, end, looks = 0.0, 100, 100, []
    for step, moved, came, behind, loss, alive in trace:
        now, end = now + step, end + came
        committed = min(end, max(0, committed + moved))
        looks.append((look(now, committed, end, behind=behind, loss=loss), alive))
    return looks


@settings(max_examples=examples(300), deadline=None)
@given(trace=histories)
def test_it_is_never_ok_while_lag_is_over_a_bound_for_longer_than_allowed(
    trace: list[Step],
) -> None:
    history: LagHistory | None = None
    over: datetime | None = None
    for sample, alive in build_looks(trace):
        history = advance(history, sample, RULES, alive)
        is_over = sample.lag > 0 and sample.behind is not None and sample.behind > 60
        over = (over or sample.at) if is_over else None
        if over is not None and (sample.at - over).total_seconds() >= 120:
            assert judge(history, sample.at, RULES).state is not LagState.OK


@settings(max_examples=examples(300), deadline=None)
@given(trace=histories, cut=st.integers(0, 60))
def test_a_restart_changes_nothing(trace: list[Step], cut: int) -> None:
    whole: LagHistory | None = None
    revived: LagHistory | None = None
    for number, (sample, alive) in enumerate(build_looks(trace)):
        whole = advance(whole, sample, RULES, alive)
        if number == cut and revived is not None:
            revived = LagHistory.from_json(revived.to_json())
        revived = advance(revived, sample, RULES, alive)
        assert revived == whole


@settings(max_examples=examples(300), deadline=None)
@given(trace=histories)
def test_between_two_improvements_there_is_time_enough(
    trace: list[Step],
) -> None:
    history: LagHistory | None = None
    improved: datetime | None = None
    for sample, alive in build_looks(trace):
        before = history
        history = advance(history, sample, RULES, alive)
        if before is None or before.state is LagState.UNKNOWN:
            continue
        was, now = Verdict(before.state, before.severity), Verdict(history.state, history.severity)
        if now.rank < was.rank and history.state is not LagState.UNKNOWN:
            assert improved is None or (sample.at - improved).total_seconds() >= RULES.clear_after
            improved = sample.at


@settings(max_examples=examples(300), deadline=None)
@given(trace=histories, jumps=st.lists(st.integers(-100_000, 100_000), max_size=60))
def test_any_clock_gives_a_result_of_the_last_sample(trace: list[Step], jumps: list[int]) -> None:
    history: LagHistory | None = None
    off = 0
    for number, (sample, alive) in enumerate(build_looks(trace)):
        off += jumps[number] if number < len(jumps) else 0
        shown = sample._replace(at=sample.at + timedelta(seconds=off))
        before = history
        history = advance(history, shown, RULES, alive)
        assert history.at == shown.at or history is before
        assert judge(history, shown.at, RULES).state in LagState
