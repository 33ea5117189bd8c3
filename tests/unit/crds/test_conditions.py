"""Conditions keep the time of their last change."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from kappa_crds.conditions import Condition, ConditionStatus, find_condition, merge_conditions

THEN = datetime(2026, 1, 1, tzinfo=UTC)
NOW = THEN + timedelta(hours=1)
STATUSES: tuple[ConditionStatus, ...] = ("True", "False", "Unknown")


def condition(
    status: ConditionStatus, time: datetime, kind: str = "Ready", reason: str = "Running", message: str = ""
) -> Condition:
    return Condition(type=kind, status=status, reason=reason, message=message, last_transition_time=time)


def test_a_condition_that_did_not_change_keeps_its_time() -> None:
    assert merge_conditions([condition("True", THEN)], [condition("True", NOW)]) == (condition("True", THEN),)


def test_a_condition_whose_status_changed_has_the_new_time() -> None:
    assert merge_conditions([condition("True", THEN)], [condition("False", NOW)]) == (
        condition("False", NOW),
    )


def test_another_reason_and_message_are_taken_over_but_are_no_transition() -> None:
    wanted = condition("False", NOW, reason="BackingOff", message="again in 5s")
    (merged,) = merge_conditions([condition("False", THEN, reason="DriverCrashed")], [wanted])
    assert merged == wanted.replace(last_transition_time=THEN)


def test_a_new_condition_has_its_own_time() -> None:
    assert merge_conditions([], [condition("True", NOW)]) == (condition("True", NOW),)


def test_a_condition_of_another_type_does_not_count() -> None:
    merged = merge_conditions([condition("True", THEN, kind="Stalled")], [condition("True", NOW)])
    assert merged == (condition("True", NOW),)


def test_a_condition_that_is_not_wanted_any_more_goes() -> None:
    assert merge_conditions([condition("True", THEN)], []) == ()


@given(st.lists(st.sampled_from(STATUSES), min_size=1, max_size=20))
def test_the_time_is_always_that_of_the_first_in_the_last_row_of_equals(
    statuses: list[ConditionStatus],
) -> None:
    kept: tuple[Condition, ...] = ()
    for minute, status in enumerate(statuses):
        kept = merge_conditions(kept, [condition(status, THEN + timedelta(minutes=minute))])
    first = max(i for i in range(len(statuses)) if i == 0 or statuses[i - 1] != statuses[i])
    assert kept[0].last_transition_time == THEN + timedelta(minutes=first)


def test_merging_twice_changes_nothing() -> None:
    once = merge_conditions([condition("True", THEN)], [condition("True", NOW)])
    assert merge_conditions(once, once) == once


def test_a_condition_is_found_by_its_type() -> None:
    ready, stalled = condition("True", THEN), condition("False", THEN, kind="Stalled")
    assert find_condition([ready, stalled], "Stalled") == stalled
    assert find_condition([ready], "Stalled") is None


def test_a_condition_of_a_newer_operator_keeps_what_is_unknown() -> None:
    manifest = condition("True", THEN).to_manifest() | {"severity": "Info"}
    assert Condition.model_validate(manifest).to_manifest() == manifest
